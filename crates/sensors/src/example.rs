//! Sensors, channels and samples for tests.

use std::time::Duration;

use ergometer_telemetry::{Batch, Channel, Clock, DeviceId, EventKind, Provenance, Scope, Sensor, SensorInfo, Signal};
use ergometer_units::Timestamp;

pub(crate) fn time(time_ns: i64) -> Timestamp {
    Timestamp::from_nanos_since_epoch(time_ns)
}

/// A sensor of `gpu:0` whose name is its id.
pub(crate) fn sensor(id: &str) -> SensorInfo {
    let interval = Duration::from_millis(100);
    SensorInfo { id: id.to_owned(), name: id.to_owned(), device: DeviceId::gpu(0), interval }
}

/// A channel of `gpu:0`.
pub(crate) fn gauge(signal: Signal) -> Channel {
    let (device, scope) = (DeviceId::gpu(0), Scope::Device);
    Channel { device, scope, signal, provenance: Provenance::Gauge, update_period: None }
}

/// Samples a sensor once.
pub(crate) fn sample(sensor: &mut dyn Sensor, clock: &Clock) -> Batch {
    let mut batch = Batch::default();
    sensor.sample(clock, &mut batch).unwrap();
    batch
}

/// The kinds of the events of a batch.
pub(crate) fn kinds(batch: &Batch) -> Vec<EventKind> {
    batch.events.iter().map(|event| event.kind).collect()
}
