//! Provides the timestamps of a run: the wall time at the start plus the monotonic time since then.
//!
//! Steps of the wall clock therefore do not affect a timeline. [`Clock::reanchor`] measures the offset of the wall
//! clock (drift of about 10 ppm, or a step), so that wall-clock timestamps of drivers can be converted.

use std::sync::Mutex;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ergometer_units::{ClockAnchor, Seconds, Timestamp};

/// A wall clock that never steps. Share it by reference or in an `Arc`; all its methods take `&self`.
#[derive(Debug)]
pub struct Clock {
    anchor: ClockAnchor,
    wall_offset: Mutex<Seconds>,
}

/// The largest change of the offset that counts as drift, not as a step: NTP slews stay below 500 ppm.
const STEP: Seconds = Seconds::new(0.010);

impl Clock {
    /// Starts a clock at the current wall time.
    #[must_use]
    pub fn start() -> Self {
        Self { anchor: anchor_now(), wall_offset: Mutex::new(Seconds::ZERO) }
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.anchor.timestamp(Instant::now())
    }

    /// The time of an instant.
    #[must_use]
    pub fn at(&self, instant: Instant) -> Timestamp {
        self.anchor.timestamp(instant)
    }

    /// Measures the offset of the wall clock. Returns the size of the step if it was stepped since the last call.
    pub fn reanchor(&self) -> Option<Seconds> {
        let offset = self.anchor.drift_to(&anchor_now());
        let mut known = self.wall_offset.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let moved = offset - *known;
        *known = offset;
        (moved.abs() > STEP).then_some(moved)
    }

    /// Converts a timestamp of the system's wall clock, such as a driver's, to this clock.
    #[must_use]
    pub fn from_wall(&self, wall: Timestamp) -> Timestamp {
        wall - *self.wall_offset.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Pairs both clocks: reads them five times and keeps the pair with the shortest time between the reads.
fn anchor_now() -> ClockAnchor {
    let pair = || {
        let before = Instant::now();
        let wall = SystemTime::now();
        let between = before.elapsed();
        (between, ClockAnchor::new(timestamp(wall), before + between / 2))
    };
    let mut best = pair();
    for _ in 0..4 {
        let next = pair();
        if next.0 < best.0 {
            best = next;
        }
    }
    best.1
}

fn timestamp(wall: SystemTime) -> Timestamp {
    let nanos = match wall.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    };
    Timestamp::from_nanos_since_epoch(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_monotonic_and_starts_at_the_wall_time() {
        let clock = Clock::start();
        let (first, second) = (clock.now(), clock.now());
        assert!(first <= second);
        let wall = timestamp(SystemTime::now());
        assert!((wall - clock.now()).abs() < Seconds::new(60.0), "anchored to the wall clock");
        assert!(clock.at(Instant::now()) >= first);
    }

    #[test]
    fn wall_clock_times_are_converted() {
        let clock = Clock::start();
        *clock.wall_offset.lock().unwrap() = Seconds::new(2.0);
        let stepped = clock.now() + Seconds::new(2.0);
        assert_eq!(clock.from_wall(stepped), stepped - Seconds::new(2.0));
        assert!(clock.reanchor().is_some_and(|step| step < Seconds::new(-1.0)), "the step back is noticed");
        assert_eq!(clock.reanchor(), None);
    }
}
