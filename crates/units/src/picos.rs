//! Exact device time in integer picoseconds, the unit of accelerator traces.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use crate::Seconds;

/// A duration in whole picoseconds. An `i64` holds 106 days, so a trace counts from its own base time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Picos(i64);

impl Picos {
    /// Zero picoseconds.
    pub const ZERO: Self = Self(0);

    /// Creates a duration from picoseconds.
    #[must_use]
    pub const fn new(time_ps: i64) -> Self {
        Self(time_ps)
    }

    /// Creates a duration from nanoseconds, or `None` if it overflows.
    #[must_use]
    pub const fn from_nanos(time_ns: i64) -> Option<Self> {
        match time_ns.checked_mul(1000) {
            Some(time_ps) => Some(Self(time_ps)),
            None => None,
        }
    }

    /// The number of picoseconds.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The sum, or `None` if it overflows.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(time_ps) => Some(Self(time_ps)),
            None => None,
        }
    }

    /// The duration as floating-point seconds, for printing and rates.
    #[must_use]
    pub fn as_seconds(self) -> Seconds {
        Seconds::new(self.0 as f64 / 1e12)
    }
}

impl Add for Picos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Picos {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Picos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Sum for Picos {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overflow_is_none() {
        assert_eq!(Picos::from_nanos(3), Some(Picos::new(3000)));
        assert_eq!(Picos::from_nanos(i64::MAX), None);
        assert_eq!(Picos::new(i64::MAX).checked_add(Picos::new(1)), None);
        assert_eq!(Picos::new(2_500_000_000_000).as_seconds(), Seconds::new(2.5));
    }
}
