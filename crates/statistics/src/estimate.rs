//! A figure with its 95 % interval, as all result files write it.

use serde::{Deserialize, Serialize};

use crate::Interval;

/// A figure and the ends of its 95 % interval. A figure without an interval has neither end.
///
/// It is written as `{"value": 3.0, "low": 2.0, "high": 5.0}`; an absent end is `null`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The figure itself.
    pub value: f64,
    /// The lower end of the interval.
    pub low: Option<f64>,
    /// The upper end of the interval.
    pub high: Option<f64>,
}

impl Estimate {
    /// A figure without an interval.
    #[must_use]
    pub const fn exact(value: f64) -> Self {
        Self { value, low: None, high: None }
    }

    /// A figure with its interval.
    ///
    /// ```
    /// # use ergometer_statistics::{Estimate, Interval};
    /// let joules = Estimate::with_interval(3.0, Interval { low: 2.0, high: 5.0 });
    /// assert_eq!(joules.times(2.0).interval(), Some(Interval { low: 4.0, high: 10.0 }));
    /// ```
    #[must_use]
    pub const fn with_interval(value: f64, interval: Interval) -> Self {
        Self { value, low: Some(interval.low), high: Some(interval.high) }
    }

    /// The interval, if both ends are known.
    #[must_use]
    pub fn interval(self) -> Option<Interval> {
        self.low.zip(self.high).map(|(low, high)| Interval { low, high })
    }

    /// A figure with both ends of its interval, or with neither.
    #[must_use]
    pub fn with_ends(value: f64, ends: Option<(f64, f64)>) -> Self {
        let (low, high) = ends.unzip();
        Self { value, low, high }
    }

    /// Both ends of the interval, if both are known.
    #[must_use]
    pub fn ends(self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }

    /// The figure and its interval multiplied by a factor. A negative factor exchanges the ends.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        let scale = |end: Option<f64>| end.map(|end| end * factor);
        let (low, high) = if factor < 0.0 { (self.high, self.low) } else { (self.low, self.high) };
        Self { value: self.value * factor, low: scale(low), high: scale(high) }
    }
}

impl From<f64> for Estimate {
    fn from(value: f64) -> Self {
        Self::exact(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_ends_are_written_as_null() {
        let exact = serde_json::to_string(&Estimate::exact(1.5)).unwrap();
        assert_eq!(exact, r#"{"value":1.5,"low":null,"high":null}"#);
        let read: Estimate = serde_json::from_str(r#"{"value":1.5}"#).unwrap();
        assert_eq!(read, Estimate::from(1.5));
        assert_eq!(read.interval(), None);
    }

    #[test]
    fn a_negative_factor_keeps_low_below_high() {
        let estimate = Estimate::with_interval(3.0, Interval { low: 2.0, high: 5.0 });
        assert_eq!(estimate.times(-1.0), Estimate::with_interval(-3.0, Interval { low: -5.0, high: -2.0 }));
    }
}
