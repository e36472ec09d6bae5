//! Pairs a wall time with a monotonic time, so that durations are monotonic and still have dates.

use std::time::Instant;

use crate::{Seconds, Timestamp};

/// The wall time at an instant of the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct ClockAnchor {
    wall: Timestamp,
    monotonic: Instant,
}

impl ClockAnchor {
    /// Pairs readings of both clocks, taken as close together as possible.
    #[must_use]
    pub const fn new(wall: Timestamp, monotonic: Instant) -> Self {
        Self { wall, monotonic }
    }

    /// The wall time of the anchor.
    #[must_use]
    pub const fn wall(&self) -> Timestamp {
        self.wall
    }

    /// The wall time of an instant, before or after the anchor.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use ergometer_units::{ClockAnchor, Timestamp};
    /// let start = Instant::now();
    /// let anchor = ClockAnchor::new(Timestamp::from_nanos_since_epoch(5_000), start);
    /// assert_eq!(anchor.timestamp(start + Duration::from_nanos(70)).nanos_since_epoch(), 5_070);
    /// ```
    #[must_use]
    pub fn timestamp(&self, instant: Instant) -> Timestamp {
        let nanos = |duration: std::time::Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        let offset_ns = match instant.checked_duration_since(self.monotonic) {
            Some(after) => nanos(after),
            None => -nanos(self.monotonic.duration_since(instant)),
        };
        Timestamp::from_nanos_since_epoch(self.wall.nanos_since_epoch().saturating_add(offset_ns))
    }

    /// The difference between the wall time of a later anchor and the wall time that this anchor predicts for it: drift
    /// or a step of the wall clock.
    #[must_use]
    pub fn drift_to(&self, later: &Self) -> Seconds {
        later.wall - self.timestamp(later.monotonic)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_step_of_the_wall_clock_shows_as_drift() {
        let start = Instant::now();
        let anchor = ClockAnchor::new(Timestamp::from_nanos_since_epoch(1_000_000_000), start);
        let stepped =
            ClockAnchor::new(Timestamp::from_nanos_since_epoch(4_000_000_000), start + Duration::from_secs(1));
        assert_eq!(anchor.drift_to(&stepped), Seconds::new(2.0));
        assert_eq!(stepped.timestamp(start).nanos_since_epoch(), 3_000_000_000);
    }
}
