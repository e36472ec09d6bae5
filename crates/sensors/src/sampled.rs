//! Test helpers that sample a sensor once.

use ergometer_telemetry::{Batch, Clock, EventKind, Sensor};

/// Samples a sensor once.
pub(super) fn sample(sensor: &mut dyn Sensor, clock: &Clock) -> Batch {
    let mut batch = Batch::default();
    sensor.sample(clock, &mut batch).unwrap();
    batch
}

/// The kinds of the events of a batch.
pub(super) fn kinds(batch: &Batch) -> Vec<EventKind> {
    batch.events.iter().map(|event| event.kind).collect()
}
