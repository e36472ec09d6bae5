//! Points in time, in nanoseconds since the Unix epoch.

use std::ops::{Add, Sub};

use crate::Seconds;

/// A point in wall time, in nanoseconds since the Unix epoch. An `i64` reaches the year 2262.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Creates a timestamp from nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn from_nanos_since_epoch(time_ns: i64) -> Self {
        Self(time_ns)
    }

    /// Creates a timestamp from microseconds since the Unix epoch, the unit of NVML's samples, or `None` if it
    /// overflows.
    #[must_use]
    pub const fn from_micros_since_epoch(time_us: i64) -> Option<Self> {
        match time_us.checked_mul(1000) {
            Some(time_ns) => Some(Self(time_ns)),
            None => None,
        }
    }

    /// Nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn nanos_since_epoch(self) -> i64 {
        self.0
    }

    /// Whole microseconds since the Unix epoch, rounded down.
    #[must_use]
    pub const fn micros_since_epoch(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// The duration from `earlier` to this timestamp; negative if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Seconds {
        Seconds::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Saturates at the ends of the range.
impl Add<Seconds> for Timestamp {
    type Output = Self;
    fn add(self, time: Seconds) -> Self {
        Self(self.0.saturating_add(time.as_nanos()))
    }
}

/// Saturates at the ends of the range.
impl Sub<Seconds> for Timestamp {
    type Output = Self;
    fn sub(self, time: Seconds) -> Self {
        Self(self.0.saturating_sub(time.as_nanos()))
    }
}

impl Sub for Timestamp {
    type Output = Seconds;
    fn sub(self, earlier: Self) -> Seconds {
        self.since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_seconds_and_sums_are_timestamps() {
        let start = Timestamp::from_nanos_since_epoch(1_794_730_772_000_000_000);
        let end = start + Seconds::from_millis(20.0);
        assert_eq!((end - start).as_nanos(), 20_000_000);
        assert_eq!(end - Seconds::from_millis(20.0), start);
    }

    #[test]
    fn an_overflow_is_none() {
        assert_eq!(Timestamp::from_micros_since_epoch(i64::MAX), None);
        let before_epoch = Timestamp::from_nanos_since_epoch(-1);
        assert_eq!(before_epoch.micros_since_epoch(), -1);
    }
}
