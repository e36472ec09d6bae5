//! The mean of a figure over repeated runs, with its standard deviation and confidence interval.

use ergometer_statistics::{Estimate, Mean};
use serde::{Deserialize, Serialize};

/// A figure over repeated runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The sample standard deviation (n - 1); absent below two values.
    pub std: Option<f64>,
    /// The low end of the 95 % interval of the mean, by Student's t (W. S. Gosset, "The probable error of a mean",
    /// 1908). Absent below two values.
    pub low: Option<f64>,
    /// The high end of the interval.
    pub high: Option<f64>,
    /// The number of values.
    pub n: usize,
}

impl Spread {
    /// Computes the figure over these values; `None` without values.
    #[must_use]
    pub fn new(values: &[f64]) -> Option<Self> {
        let mean = Mean::from_values(values)?;
        let interval = mean.estimate();
        Some(Self { mean: mean.value, std: mean.std, low: interval.low, high: interval.high, n: mean.count })
    }

    /// The mean with its interval.
    #[must_use]
    pub const fn estimate(&self) -> Estimate {
        Estimate { value: self.mean, low: self.low, high: self.high }
    }

    /// Half the width of the interval, for `±`.
    #[must_use]
    pub fn half_width(&self) -> Option<f64> {
        self.low.zip(self.high).map(|(low, high)| (high - low) / 2.0)
    }

    /// The sum of all values, for counts.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.mean * self.n as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_uses_students_t() {
        let spread = Spread::new(&[9.0, 10.0, 11.0]).unwrap();
        assert_eq!((spread.mean, spread.std, spread.n), (10.0, Some(1.0), 3));
        // t(2) = 4.302653: 4.302653 / sqrt(3).
        assert!((spread.half_width().unwrap() - 2.484_138).abs() < 1e-6);
        assert!((spread.low.unwrap() - 7.515_862).abs() < 1e-6);
        assert_eq!(spread.total(), 30.0);
    }

    #[test]
    fn one_value_has_no_interval() {
        let one = Spread::new(&[5.0]).unwrap();
        assert_eq!(one, Spread { mean: 5.0, std: None, low: None, high: None, n: 1 });
        assert_eq!((one.half_width(), Spread::new(&[])), (None, None));
        let same = Spread::new(&[5.0, 5.0]).unwrap();
        assert_eq!((same.low, same.high), (Some(5.0), Some(5.0)));
    }
}
