//! The sensor of one device's zones.
//!
//! In go open counters; out come their totals, one reading per zone and call. A zone whose counter stands still while
//! the processors work is called stuck.

use std::time::Duration;

use ergometer_units::Seconds;

use super::OpenZone;
use super::zone::Zone;
use crate::sensors::counted::{BusyProcessors, CountedEnergy, Identity, Presence, ReadCounter};
use crate::sensors::processor_time::ProcessorTime;
use crate::{
    Batch, Channel, Clock, CounterLimits, DeviceId, Provenance, Scope, Sensor, SensorError, SensorInfo, Signal,
};

/// Often against a wrap (65 kJ at 500 W is two minutes), seldom against the cost of a read.
const INTERVAL: Duration = Duration::from_millis(50);
/// Intel's manual (Software Developer's Manual, volume 3B, 16.10): updated every 1 ms or so.
pub(super) const UPDATE_PERIOD: Seconds = Seconds::new(0.001);
/// Every so many samples (1 s) each counter is asked whether it moved.
const WATCH_SAMPLES: u32 = 20;

/// The counters of one CPU package (or die), or of the platform.
pub(super) struct Rapl {
    info: SensorInfo,
    channels: Vec<Channel>,
    /// In the order of `channels`; `None` once a zone is gone.
    meters: Vec<Option<Meter>>,
    processors: BusyProcessors,
}

/// One zone while it is read.
struct Meter {
    scope: Scope,
    energy: CountedEnergy,
}

impl Rapl {
    /// The sensor of the zones of this device.
    pub(super) fn new(device: DeviceId, zones: Vec<OpenZone>, activity: Option<ProcessorTime>) -> Self {
        let channels = zones.iter().map(|(zone, _)| channel(zone)).collect();
        let name = zones.first().map(|(zone, _)| zone.label.clone()).unwrap_or_default();
        let id = if device == DeviceId::host() { "rapl:psys".to_owned() } else { format!("rapl:{}", device.index) };
        let info = SensorInfo { id, name: format!("CPU {name}"), device, interval: INTERVAL };
        let meters = zones.into_iter().map(|(zone, file)| Some(Meter::new(zone, file))).collect();
        Self { info, channels, meters, processors: BusyProcessors::new(activity, WATCH_SAMPLES) }
    }

    /// Once a second: which counters stood still while the processors worked?
    fn watch(&mut self, clock: &Clock, batch: &mut Batch) {
        let Some(busy) = self.processors.look() else { return };
        for meter in self.meters.iter_mut().flatten() {
            meter.energy.judge(busy && meter.scope != Scope::Uncore, clock.now(), batch);
        }
    }
}

impl Sensor for Rapl {
    fn info(&self) -> &SensorInfo {
        &self.info
    }

    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        for (index, slot) in self.meters.iter_mut().enumerate() {
            if let Some(meter) = slot
                && meter.energy.read(index, clock, batch) == Presence::Gone
            {
                *slot = None;
            }
        }
        if self.meters.iter().all(Option::is_none) {
            let reason = "its energy counters are gone (was the RAPL driver unloaded?)".to_owned();
            return Err(SensorError::Lost { device: self.info.device, reason });
        }
        self.watch(clock, batch);
        Ok(())
    }
}

impl Meter {
    fn new(zone: Zone, file: Box<dyn ReadCounter>) -> Self {
        let limits = CounterLimits {
            unit: zone.counts.unit(),
            range: zone.counts.range(),
            bound: zone.scope.power_bound(),
            update_period: UPDATE_PERIOD,
        };
        let identity = Identity { label: zone.label, device: zone.device };
        Self { scope: zone.scope, energy: CountedEnergy::new(identity, limits, file) }
    }
}

fn channel(zone: &Zone) -> Channel {
    Channel {
        device: zone.device,
        scope: zone.scope,
        signal: Signal::Energy,
        provenance: Provenance::Counter,
        update_period: Some(UPDATE_PERIOD),
    }
}
