//! For tests: one sample of a sensor, and what it told.

use ergometer_telemetry::{Batch, Clock, EventKind, Sensor};

/// What one call brings.
pub(super) fn sample(sensor: &mut dyn Sensor, clock: &Clock) -> Batch {
    let mut batch = Batch::default();
    sensor.sample(clock, &mut batch).unwrap();
    batch
}

/// The kinds of its events.
pub(super) fn kinds(batch: &Batch) -> Vec<EventKind> {
    batch.events.iter().map(|event| event.kind).collect()
}
