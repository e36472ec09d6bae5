//! Builds timelines for tests.

use std::time::Duration;

use ergometer_telemetry::{Batch, Channel, DeviceId, Provenance, Scope, SensorInfo, Signal, Timeline};
use ergometer_units::Timestamp;

/// Meters of 100 W, read every 100 ms; each pair is the start and end of a meter in tenths of a second.
#[must_use]
pub fn timeline(meters: &[(i64, i64)]) -> Timeline {
    let mut timeline = Timeline::default();
    for (index, &(from, to)) in (0..).zip(meters) {
        let device = DeviceId::gpu(index);
        let (signal, provenance) = (Signal::PowerInstant, Provenance::SampledPower);
        let channel = Channel { device, scope: Scope::Device, signal, provenance, update_period: None };
        let interval = Duration::from_millis(100);
        let info = SensorInfo { id: format!("power:{index}"), name: String::from("meter"), device, interval };
        let key = timeline.add_sensor(&info, &[channel]);
        let mut batch = Batch::default();
        for tenth in from..=to {
            batch.push(0, Timestamp::from_nanos_since_epoch(tenth * 100_000_000), 100.0);
        }
        timeline.append(key, &batch);
    }
    timeline
}
