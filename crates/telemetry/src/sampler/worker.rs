//! One sensor goes in and is sampled until it ends or all are stopped; its batches and its failures come out.
//!
//! Deadlines lie on a grid, so the rate does not drift; a sample that overruns skips deadlines, so samples never bunch.
//! A sensor that keeps failing leaves two events, the first failure and the count, however long it fails.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ergometer_diagnostics::{Diagnostic, Message};

use super::{Shared, Woken};
use crate::{Batch, EventKind, Sensor, SensorError, SensorKey};

/// The shortest interval: below it a thread would do nothing else. The fastest source there is (RAPL) updates every
/// millisecond.
const SHORTEST_INTERVAL: Duration = Duration::from_micros(100);

/// The longest interval: far from overflowing any clock, and stopping wakes the thread anyway.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);

/// The thread of one sensor.
pub(super) struct Worker {
    shared: Arc<Shared>,
    key: SensorKey,
    /// Taken when the worker goes, so that the sensor is gone before the worker counts as ended.
    sensor: Option<Box<dyn Sensor>>,
    /// How many reads failed since the last that worked.
    failed: u64,
}

/// Whether to sample again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    End,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, key: SensorKey, sensor: Box<dyn Sensor>) -> Self {
        Self { shared, key, sensor: Some(sensor), failed: 0 }
    }

    /// Samples until the sensor ends or stopping is asked for; in that case once more, so that rings are drained.
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
            while let Woken::ToDrain(asked) = self.shared.wait_as(self.key, due) {
                batch.clear();
                self.drain(&mut batch);
                self.shared.deliver(self.key, &batch);
                self.shared.drained(self.key, asked);
            }
        }
        batch.clear();
        self.end_series(&mut batch, "until the end");
        self.shared.deliver(self.key, &batch);
    }

    /// What fails or panics here does so again at the next sample, which tells of it.
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
                let message = format!("{} panicked and is not read any more: {}", self.id(), text_of(&*panic));
                batch.event(self.shared.clock.now(), EventKind::DeviceLost, message);
                return (Next::End, SHORTEST_INTERVAL);
            }
        };
        let next = match result {
            Ok(()) => {
                self.end_series(batch, "then it was read again");
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
                let text = format!("{}: {error}; the other sensors go on", self.id());
                let message = Message { text, hint: error.hint() };
                batch.event(self.shared.clock.now(), EventKind::DeviceLost, message);
                Next::End
            }
            Err(SensorError::Ended) => Next::End,
        };
        (next, interval)
    }

    /// Tells how many reads failed; a single one was told of when it happened.
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

/// However a worker goes, its sensor is closed and then it counts as ended; closing may fail like anything else.
impl Drop for Worker {
    fn drop(&mut self) {
        let sensor = self.sensor.take();
        if catch_unwind(AssertUnwindSafe(|| drop(sensor))).is_err() {
            let message = format!("{} panicked while it was closed", self.id());
            self.shared.tell(self.key, EventKind::DeviceLost, message);
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

fn text_of(panic: &(dyn Any + Send)) -> &str {
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
    fn intervals_out_of_reason_are_brought_back() {
        let now = Instant::now();
        assert_eq!(next_deadline(now, now, Duration::ZERO), now + SHORTEST_INTERVAL);
        assert_eq!(next_deadline(now, now, Duration::MAX), now + LONGEST_INTERVAL);
        assert_eq!(next_deadline(now + SHORTEST_INTERVAL, now, Duration::ZERO), now + 2 * SHORTEST_INTERVAL);
    }
}
