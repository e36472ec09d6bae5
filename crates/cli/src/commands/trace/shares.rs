//! Shares of the self time of a device. The total ignores filters.

use std::collections::HashMap;

use ergometer_trace::Trace;
use ergometer_trace::accounting::{By, DeviceId, Filter, rows};
use ergometer_units::Picos;

/// The total self time of each device.
pub(super) struct Shares {
    whole: HashMap<DeviceId, Picos>,
}

impl Shares {
    pub(super) fn new(trace: &Trace, filter: &Filter) -> Self {
        let all = Filter { devices: filter.devices.clone(), ..Filter::default() };
        let mut whole: HashMap<DeviceId, Picos> = HashMap::new();
        for row in rows(trace, By::Class, &all) {
            *whole.entry(row.device).or_default() += row.account.self_time;
        }
        Self { whole }
    }

    /// The share of a self time; `None` if the device has no time.
    pub(super) fn share(&self, device: DeviceId, self_time: Picos) -> Option<f64> {
        let whole = self.whole.get(&device).filter(|whole| **whole > Picos::ZERO)?;
        Some(self_time.get() as f64 / whole.get() as f64)
    }
}
