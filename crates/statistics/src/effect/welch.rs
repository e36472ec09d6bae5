//! Computes the interval of the difference or the ratio of the means of two groups of runs.

use super::NoInterval;
use crate::{Interval, mean, t_quantile};

/// The 95 % interval of mean(second) - mean(first) for unequal variances: B. L. Welch, "The generalization
/// of Student's problem when several different population variances are involved" (1947), with the degrees of freedom
/// of Satterthwaite (1946).
///
/// ```
/// # use ergometer_statistics::welch_interval;
/// let interval = welch_interval(&[10.0, 11.0, 12.0], &[20.0, 22.0, 24.0]).unwrap();
/// assert!(interval.contains(11.0) && !interval.contains(0.0));
/// ```
pub fn welch_interval(first: &[f64], second: &[f64]) -> Result<Interval, NoInterval> {
    let (one, two) = (Spread::from_values(first)?, Spread::from_values(second)?);
    let variance = one.mean_variance + two.mean_variance;
    let difference = two.mean - one.mean;
    if !difference.is_finite() || !variance.is_finite() {
        return Err(NoInterval::Unusable);
    }
    if variance <= (1e-12 * one.mean.abs().max(two.mean.abs())).powi(2) {
        return Err(NoInterval::NoVariation);
    }
    let freedom =
        variance.powi(2) / (one.mean_variance.powi(2) / one.freedom + two.mean_variance.powi(2) / two.freedom);
    let half = t_quantile(0.975, freedom).ok_or(NoInterval::Unusable)? * variance.sqrt();
    Ok(Interval { low: difference - half, high: difference + half })
}

/// The 95 % interval of mean(second) / mean(first): every ratio ρ for which Welch's test does not reject that
/// mean(second) is ρ x mean(first). The difference mean(second) - ρ x mean(first) has the variance v₂ + ρ² v₁, so that
/// the uncertainty of the baseline is included (E. C. Fieller, "Some problems in interval estimation", 1954), with
/// Satterthwaite's degrees of freedom at that ρ. It excludes 1 exactly if Welch's interval of the difference excludes
/// 0.
///
/// If the baseline is not significantly above zero, there is no largest ratio, and no interval.
///
/// ```
/// # use ergometer_statistics::welch_ratio_interval;
/// let interval = welch_ratio_interval(&[10.0, 10.5, 11.0], &[20.0, 21.0, 22.0]).unwrap();
/// assert!(interval.contains(2.0) && !interval.contains(1.0));
/// ```
pub fn welch_ratio_interval(first: &[f64], second: &[f64]) -> Result<Interval, NoInterval> {
    let (one, two) = (Spread::from_values(first)?, Spread::from_values(second)?);
    let ratio = two.mean / one.mean;
    if !one.mean_variance.is_finite()
        || !two.mean_variance.is_finite()
        || !one.mean.is_finite()
        || !two.mean.is_finite()
    {
        return Err(NoInterval::Unusable);
    }
    if one.mean <= 0.0 || !ratio.is_finite() {
        return Err(NoInterval::NoBaseline);
    }
    let variance = two.mean_variance + ratio.powi(2) * one.mean_variance;
    if variance <= (1e-12 * two.mean.abs().max(one.mean * ratio.abs())).powi(2) {
        return Err(NoInterval::NoVariation);
    }
    // For large ratios, the test is whether the baseline is zero.
    let farthest = t_quantile(0.975, one.freedom).ok_or(NoInterval::Unusable)?;
    if one.mean <= farthest * one.mean_variance.sqrt() {
        return Err(NoInterval::NoBaseline);
    }
    let is_rejected = |ratio: f64| {
        let scaled = ratio.powi(2) * one.mean_variance;
        let variance = two.mean_variance + scaled;
        let freedom = variance.powi(2) / (scaled.powi(2) / one.freedom + two.mean_variance.powi(2) / two.freedom);
        let difference = (two.mean - ratio * one.mean).abs();
        t_quantile(0.975, freedom).is_some_and(|quantile| difference > quantile * variance.sqrt())
    };
    let step = variance.sqrt() / one.mean;
    let end = |direction: f64| find_end(ratio, direction * step, is_rejected).ok_or(NoInterval::NoBaseline);
    Ok(Interval { low: end(-1.0)?, high: end(1.0)? })
}

/// The first rejected value from `start`, which is not rejected: by doubling steps, then by bisection.
fn find_end(start: f64, step: f64, is_rejected: impl Fn(f64) -> bool) -> Option<f64> {
    let mut steps = (0..200).map(|power| start + step * 2_f64.powi(power));
    let mut outside = steps.find(|&value| is_rejected(value))?;
    let mut inside = start;
    for _ in 0..200 {
        let middle = f64::midpoint(inside, outside);
        if middle == inside || middle == outside {
            break;
        }
        if is_rejected(middle) {
            outside = middle;
        } else {
            inside = middle;
        }
    }
    outside.is_finite().then_some(inside)
}

/// The mean of a sample and its variance.
struct Spread {
    mean: f64,
    /// The variance of the mean.
    mean_variance: f64,
    freedom: f64,
}

impl Spread {
    fn from_values(values: &[f64]) -> Result<Self, NoInterval> {
        if values.len() < 2 {
            return Err(NoInterval::OneRun);
        }
        let count = values.len() as f64;
        let mean = mean(values.iter().copied()).ok_or(NoInterval::OneRun)?;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Ok(Self { mean, mean_variance: squares / (count - 1.0) / count, freedom: count - 1.0 })
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

    /// At both ends of the interval, the second sample and the first times the ratio differ with a p value of 0.05:
    /// `brentq(lambda r: ttest_ind(b, r * a, equal_var=False).pvalue - 0.05, ..)` of scipy on either side of b/a.
    #[test]
    fn ratios_are_those_that_scipys_test_does_not_reject() {
        let (first, second) = ([19.8, 20.4, 19.6, 17.8, 18.5], [28.2, 26.6, 20.1, 23.3]);
        let found = welch_ratio_interval(&first, &second).unwrap();
        assert!((found.low - 0.989_031_940_896).abs() < 1e-9, "{found:?}");
        assert!((found.high - 1.558_271_562_373).abs() < 1e-9, "{found:?}");
        for end in [found.low, found.high] {
            let scaled = first.map(|value| value * end);
            let difference = welch_interval(&scaled, &second).unwrap();
            assert!(difference.low.abs().min(difference.high.abs()) < 1e-9, "{difference:?}");
        }
    }

    fn normal(random: &mut fastrand::Rng) -> f64 {
        (-2.0 * random.f64().max(1e-300).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
    }

    /// Runs of the first sample vary by 4 %, those of the second by 6 %, which is 3.5 times as large. With 4,000 trials
    /// the share is known to 0.7 points. Dividing the difference by the observed baseline ignores the uncertainty of
    /// the baseline, and contains the truth less often.
    #[test]
    fn the_interval_of_a_ratio_contains_the_truth_19_times_in_20() {
        for (before, after) in [(3, 3), (3, 5), (5, 3), (5, 5)] {
            let mut random = fastrand::Rng::with_seed(7);
            let (mut held, mut held_by_difference) = (0, 0);
            for _ in 0..4000 {
                let first: Vec<f64> = (0..before).map(|_| 10.0 + 0.4 * normal(&mut random)).collect();
                let second: Vec<f64> = (0..after).map(|_| 35.0 + 2.1 * normal(&mut random)).collect();
                held += i32::from(welch_ratio_interval(&first, &second).unwrap().contains(3.5));
                let mean = first.iter().sum::<f64>() / f64::from(before);
                let difference = welch_interval(&first, &second).unwrap();
                let naive = Interval { low: 1.0 + difference.low / mean, high: 1.0 + difference.high / mean };
                held_by_difference += i32::from(naive.contains(3.5));
            }
            let share = f64::from(held) / 4000.0;
            assert!((0.94..=0.975).contains(&share), "{before} and {after} runs: {share}");
            assert!(held_by_difference < held, "{before} and {after} runs: {held_by_difference} beside {held}");
        }
    }

    #[test]
    fn a_baseline_that_may_be_zero_has_no_ratio() {
        assert_eq!(welch_ratio_interval(&[1.0, 9.0], &[2.0, 3.0]), Err(NoInterval::NoBaseline));
        assert_eq!(welch_ratio_interval(&[-1.0, -1.1], &[2.0, 3.0]), Err(NoInterval::NoBaseline));
        assert_eq!(welch_ratio_interval(&[0.0, 0.0], &[2.0, 3.0]), Err(NoInterval::NoBaseline));
        assert_eq!(welch_ratio_interval(&[2.0, 2.0], &[3.0, 3.0]), Err(NoInterval::NoVariation));
        assert_eq!(welch_ratio_interval(&[1.0], &[2.0, 3.0]), Err(NoInterval::OneRun));
        assert_eq!(welch_ratio_interval(&[1.0, f64::NAN], &[2.0, 3.0]), Err(NoInterval::Unusable));
        let zero = welch_ratio_interval(&[10.0, 10.1], &[0.0, 0.0]);
        assert_eq!(zero, Err(NoInterval::NoVariation), "every run is zero");
    }

    #[test]
    fn a_single_run_has_no_interval() {
        assert_eq!(welch_interval(&[1.0], &[2.0, 3.0]), Err(NoInterval::OneRun));
        assert_eq!(welch_interval(&[1.0, 1.0], &[2.0, 2.0]), Err(NoInterval::NoVariation));
        assert_eq!(welch_interval(&[1.0, f64::NAN], &[2.0, 3.0]), Err(NoInterval::Unusable));
    }
}
