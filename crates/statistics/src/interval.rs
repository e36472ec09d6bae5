//! The 95 % interval of a statistic.

use serde::{Deserialize, Serialize};

/// The 95 % interval of a statistic, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Whether a value lies inside, ends included.
    #[must_use]
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The distance between the ends.
    #[must_use]
    pub fn width(self) -> f64 {
        self.high - self.low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_contains_its_ends_but_not_nan() {
        let interval = Interval { low: 1.0, high: 2.5 };
        assert!(interval.contains(1.0) && interval.contains(2.5) && interval.contains(2.0));
        assert!(!interval.contains(0.999) && !interval.contains(2.501) && !interval.contains(f64::NAN));
        assert_eq!(interval.width(), 1.5);
    }
}
