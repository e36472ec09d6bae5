//! The difference of two means of few values, each of a run of its own.

use super::NoInterval;
use crate::{Interval, t_quantile};

/// The 95 % interval of mean(second) - mean(first) where the two may vary differently: B. L. Welch, "The generalization
/// of Student's problem when several different population variances are involved" (1947), with the degrees of freedom
/// of Satterthwaite (1946).
///
/// ```
/// # use ergometer_statistics::welch_interval;
/// let interval = welch_interval(&[10.0, 11.0, 12.0], &[20.0, 22.0, 24.0]).unwrap();
/// assert!(interval.contains(11.0) && !interval.contains(0.0));
/// ```
pub fn welch_interval(first: &[f64], second: &[f64]) -> Result<Interval, NoInterval> {
    let (one, two) = (Spread::of(first)?, Spread::of(second)?);
    let variance = one.of_mean + two.of_mean;
    let difference = two.mean - one.mean;
    if !difference.is_finite() || !variance.is_finite() {
        return Err(NoInterval::Unusable);
    }
    if variance <= (1e-12 * one.mean.abs().max(two.mean.abs())).powi(2) {
        return Err(NoInterval::NoVariation);
    }
    let freedom = variance.powi(2) / (one.of_mean.powi(2) / one.freedom + two.of_mean.powi(2) / two.freedom);
    let half = t_quantile(0.975, freedom).ok_or(NoInterval::Unusable)? * variance.sqrt();
    Ok(Interval { low: difference - half, high: difference + half })
}

struct Spread {
    mean: f64,
    /// The variance of the mean.
    of_mean: f64,
    freedom: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Result<Self, NoInterval> {
        if values.len() < 2 {
            return Err(NoInterval::OneRun);
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Ok(Self { mean, of_mean: squares / (count - 1.0) / count, freedom: count - 1.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `scipy.stats.ttest_ind(b, a, equal_var=False).confidence_interval()` of the same numbers.
    #[test]
    fn intervals_are_those_of_scipy() {
        let found = welch_interval(&[19.8, 20.4, 19.6, 17.8, 18.5], &[28.2, 26.6, 20.1, 23.3]).unwrap();
        assert!((found.low + 0.207_634_636_467_400_2).abs() < 1e-12, "{found:?}");
        assert!((found.high - 10.867_634_636_467_397).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn one_run_says_nothing() {
        assert_eq!(welch_interval(&[1.0], &[2.0, 3.0]), Err(NoInterval::OneRun));
        assert_eq!(welch_interval(&[1.0, 1.0], &[2.0, 2.0]), Err(NoInterval::NoVariation));
        assert_eq!(welch_interval(&[1.0, f64::NAN], &[2.0, 3.0]), Err(NoInterval::Unusable));
    }
}
