//! Exact device time: integer picoseconds, as accelerator traces count.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use crate::Seconds;

/// A length of time in whole picoseconds. An `i64` of them ends after 106 days, so a trace counts from a base of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Picos(i64);

impl Picos {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// From picoseconds.
    #[must_use]
    pub const fn new(time_ps: i64) -> Self {
        Self(time_ps)
    }

    /// From nanoseconds, or `None` where the picoseconds do not fit.
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

    /// The sum, or `None` where it does not fit.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(time_ps) => Some(Self(time_ps)),
            None => None,
        }
    }

    /// As floating seconds, for printing and rates.
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
    fn nanoseconds_that_do_not_fit_are_none() {
        assert_eq!(Picos::from_nanos(3), Some(Picos::new(3000)));
        assert_eq!(Picos::from_nanos(i64::MAX), None);
        assert_eq!(Picos::new(i64::MAX).checked_add(Picos::new(1)), None);
        assert_eq!(Picos::new(2_500_000_000_000).as_seconds(), Seconds::new(2.5));
    }
}
