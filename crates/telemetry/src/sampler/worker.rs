//! Samples one sensor at regular intervals until it ends or the sampler stops.
//!
//! Deadlines lie on a fixed grid, so the rate does not drift. A sample that overruns skips deadlines, so samples never
//! bunch. A sensor that keeps failing leaves two events: the first failure and the number of failures.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ergometer_diagnostics::{Diagnostic, Message};

use super::{SamplerState, WakeReason};
use crate::{Batch, EventKind, Sensor, SensorError, SensorKey};

/// The shortest interval, to limit the load of a thread. The fastest source (RAPL) updates every millisecond.
const SHORTEST_INTERVAL: Duration = Duration::from_micros(100);

/// The longest interval: cannot overflow a clock, and a stop request wakes the thread anyway.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);

/// The thread of one sensor.
pub(super) struct Worker {
    shared: Arc<SamplerState>,
    key: SensorKey,
    /// `None` once the worker is dropped: the sensor is closed before the worker is marked as ended.
    sensor: Option<Box<dyn Sensor>>,
    /// The number of failed reads since the last successful one.
    failed: u64,
}

/// Whether to sample again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    End,
}

impl Worker {
    pub(super) fn new(shared: Arc<SamplerState>, key: SensorKey, sensor: Box<dyn Sensor>) -> Self {
        Self { shared, key, sensor: Some(sensor), failed: 0 }
    }

    /// Samples until the sensor ends or a stop is requested, then once more to drain rings.
    pub(super) fn run(mut self) {
        let mut batch = Batch::default();
        let mut due = Instant::now();
        loop {
            let last = self.shared.is_stopping();
            batch.clear();
            let (next, interval) = self.sample(&mut batch, last);
            self.shared.deliver(self.key, &batch);
            if next == Next::End || last {
                break;
            }
            due = next_deadline(due, Instant::now(), interval);
            while let WakeReason::ToDrain(request) = self.shared.wait_as(self.key, due) {
                batch.clear();
                self.drain(&mut batch);
                self.shared.deliver(self.key, &batch);
                self.shared.drained(self.key, request);
            }
        }
        batch.clear();
        self.end_series(&mut batch, "until the end");
        self.shared.deliver(self.key, &batch);
    }

    /// Ignores errors and panics, because the next sample repeats and reports them.
    fn drain(&mut self, batch: &mut Batch) {
        let Some(sensor) = self.sensor.as_mut() else { return };
        let clock = &self.shared.clock;
        let _ = catch_unwind(AssertUnwindSafe(|| sensor.drain(clock, batch)));
    }

    fn sample(&mut self, batch: &mut Batch, last: bool) -> (Next, Duration) {
        let Some(sensor) = self.sensor.as_mut() else { return (Next::End, SHORTEST_INTERVAL) };
        let clock = &self.shared.clock;
        let sampled = catch_unwind(AssertUnwindSafe(|| {
            let outcome = if last { sensor.sample_last(clock, batch) } else { sensor.sample(clock, batch) };
            (outcome, sensor.interval())
        }));
        let (result, interval) = match sampled {
            Ok(sampled) => sampled,
            Err(panic) => {
                let message = format!("{} panicked and is no longer read: {}", self.id(), panic_message(&*panic));
                batch.event(self.shared.clock.now(), EventKind::DeviceLost, message);
                return (Next::End, SHORTEST_INTERVAL);
            }
        };
        let next = match result {
            Ok(()) => {
                self.end_series(batch, "then a read succeeded");
                Next::GoOn
            }
            Err(error @ SensorError::Read { .. }) => {
                if self.failed == 0 {
                    let message = error.to_message().at(self.id());
                    batch.event(self.shared.clock.now(), EventKind::ReadFailed, message);
                }
                self.failed += 1;
                Next::GoOn
            }
            Err(error @ SensorError::Lost { .. }) => {
                let text = format!("{}: {error}; the other sensors continue", self.id());
                let message = Message { text, hint: error.hint() };
                batch.event(self.shared.clock.now(), EventKind::DeviceLost, message);
                Next::End
            }
            Err(SensorError::Ended) => Next::End,
        };
        (next, interval)
    }

    /// Reports the number of failed reads; a single failure has already been reported.
    fn end_series(&mut self, batch: &mut Batch, ending: &str) {
        let failed = mem::take(&mut self.failed);
        if failed > 1 {
            let message = format!("{}: {failed} reads in a row failed, {ending}", self.id());
            batch.event(self.shared.clock.now(), EventKind::ReadFailed, message);
        }
    }

    fn id(&self) -> &str {
        self.shared.sensors.get(self.key.index()).map_or("?", |info| info.id.as_str())
    }
}

/// Closes the sensor, which may panic, and then marks the worker as ended.
impl Drop for Worker {
    fn drop(&mut self) {
        let sensor = self.sensor.take();
        if catch_unwind(AssertUnwindSafe(|| drop(sensor))).is_err() {
            let message = format!("{} panicked while it was closed", self.id());
            self.shared.report_event(self.key, EventKind::DeviceLost, message);
        }
        self.shared.end(self.key);
    }
}

/// The first point after `now` on the grid that starts at `due`.
fn next_deadline(due: Instant, now: Instant, interval: Duration) -> Instant {
    let interval = interval.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
    let late = now.saturating_duration_since(due);
    let into_step = Duration::from_nanos(u64::try_from(late.as_nanos() % interval.as_nanos()).unwrap_or(0));
    due + late.saturating_sub(into_step) + interval
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn deadlines_stay_on_the_grid_and_ahead(late_us in 0_u64..10_000_000, interval_us in 100_u64..1_000_000) {
            let due = Instant::now();
            let (now, interval) = (due + Duration::from_micros(late_us), Duration::from_micros(interval_us));
            let next = next_deadline(due, now, interval);
            prop_assert!(next > now && next <= now + interval);
            prop_assert_eq!((next - due).as_nanos() % interval.as_nanos(), 0);
        }
    }

    #[test]
    fn extreme_intervals_are_clamped() {
        let now = Instant::now();
        assert_eq!(next_deadline(now, now, Duration::ZERO), now + SHORTEST_INTERVAL);
        assert_eq!(next_deadline(now, now, Duration::MAX), now + LONGEST_INTERVAL);
        assert_eq!(next_deadline(now + SHORTEST_INTERVAL, now, Duration::ZERO), now + 2 * SHORTEST_INTERVAL);
    }
}
