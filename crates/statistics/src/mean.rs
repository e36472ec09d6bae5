//! The mean of some values, and of repeated measurements with its interval by Student's t.

use crate::{ConfidenceInterval, DEFAULT_LEVEL, Estimate, Interval, t_quantile};

/// The mean of some values: their sum over their number. `None` without values.
///
/// ```
/// # use ergometer_statistics::mean;
/// assert_eq!(mean([9.0, 10.0, 14.0]), Some(11.0));
/// assert_eq!(mean([]), None);
/// ```
#[must_use]
pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut count = 0_u64;
    let sum: f64 = values.into_iter().inspect(|_| count += 1).sum();
    (count > 0).then(|| sum / count as f64)
}

/// The mean of some values, their spread, and how precisely the mean is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    /// The mean.
    pub value: f64,
    /// The sample standard deviation (n - 1); absent below two values.
    pub std: Option<f64>,
    /// Half the width of the mean's 95 % interval by Student's t (W. S. Gosset, "The probable error of a mean", 1908);
    /// absent below two values.
    pub half_width: Option<f64>,
    /// The number of values.
    pub count: usize,
}

impl Mean {
    /// The mean of these values. `None` without values.
    ///
    /// ```
    /// # use ergometer_statistics::Mean;
    /// let joules = Mean::from_values(&[9.0, 10.0, 11.0]).unwrap();
    /// assert_eq!((joules.value, joules.std, joules.count), (10.0, Some(1.0), 3));
    /// assert!(joules.interval().unwrap().contains(7.6));
    /// ```
    #[must_use]
    pub fn from_values(values: &[f64]) -> Option<Self> {
        let count = values.len();
        let mean = mean(values.iter().copied())?;
        let std = Moments::around(mean, values).std();
        let half_width = std.and_then(|std| t_half_width(std, count, DEFAULT_LEVEL));
        Some(Self { value: mean, std, half_width, count })
    }

    /// The 95 % interval; absent below two values.
    #[must_use]
    pub fn interval(&self) -> Option<Interval> {
        self.half_width.map(|half| Interval { low: self.value - half, high: self.value + half })
    }

    /// The mean and its interval, without the spread.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        self.interval().map_or(Estimate::exact(self.value), |interval| Estimate::with_interval(self.value, interval))
    }
}

/// The interval of a mean by Student's t from the sample standard deviation of `count` values. `None` below two values,
/// or if the level is not between 0 and 1.
pub(crate) fn t_interval(mean: f64, std: f64, count: usize, level: f64) -> Option<ConfidenceInterval> {
    let half = t_half_width(std, count, level)?;
    Some(ConfidenceInterval { low: mean - half, high: mean + half, level })
}

fn t_half_width(std: f64, count: usize, level: f64) -> Option<f64> {
    let freedom = count.checked_sub(1)? as f64;
    let quantile = (0.0..1.0).contains(&level).then(|| t_quantile(0.5 + level / 2.0, freedom))??;
    Some(quantile * std / (count as f64).sqrt())
}

/// The mean of some values and the sum of their squared distances from it.
pub(crate) struct Moments {
    pub(crate) mean: f64,
    pub(crate) squares: f64,
    pub(crate) count: usize,
}

impl Moments {
    /// The moments of sorted finite values, of which there is at least one.
    pub(crate) fn from_sorted(sorted: &[f64]) -> Self {
        let count = sorted.len() as f64;
        // Divided first: the sum of finite values may be infinite. Rounding may put the mean of equal values outside.
        let mean = sorted.iter().map(|value| value / count).sum::<f64>().clamp(sorted[0], sorted[sorted.len() - 1]);
        Self::around(mean, sorted)
    }

    fn around(mean: f64, values: &[f64]) -> Self {
        Self { mean, squares: values.iter().map(|value| (value - mean).powi(2)).sum(), count: values.len() }
    }

    /// The sample standard deviation (n - 1). `None` below two values: one value has no spread.
    pub(crate) fn std(&self) -> Option<f64> {
        (self.count > 1).then(|| (self.squares / (self.count - 1) as f64).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_uses_students_t() {
        let mean = Mean::from_values(&[9.0, 10.0, 11.0]).unwrap();
        assert_eq!((mean.value, mean.count), (10.0, 3));
        // s = 1, t(2) = 4.302653: 4.302653 / sqrt(3).
        assert!((mean.half_width.unwrap() - 2.484_138).abs() < 1e-6);
        assert!((mean.estimate().low.unwrap() - 7.515_862).abs() < 1e-6);
    }

    #[test]
    fn one_value_has_no_interval() {
        let one = Mean::from_values(&[5.0]).unwrap();
        assert_eq!((one.std, one.half_width, one.estimate()), (None, None, Estimate::exact(5.0)));
        assert_eq!(Mean::from_values(&[]), None);
        let same = Mean::from_values(&[5.0, 5.0]).unwrap();
        assert_eq!(same.interval(), Some(Interval { low: 5.0, high: 5.0 }));
    }
}
