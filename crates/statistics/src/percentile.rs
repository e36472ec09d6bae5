//! Percentiles, and the distribution they are part of: values go in, in any order; exact order statistics come out.
//!
//! Percentiles are linear between order statistics: type 7 of Hyndman and Fan, "Sample Quantiles in Statistical
//! Packages" (The American Statistician 50, 1996), the default of numpy and R.

use serde::Serialize;

use super::{Interval, median_interval};

/// Below this many values a p99 would be little else than the maximum, so it is absent.
pub const MINIMUM_FOR_P99: usize = 100;

/// How values are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Distribution {
    /// How many values there are.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Their sample standard deviation (n - 1); absent below two values, or beyond what a float can hold.
    pub std: Option<f64>,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The median.
    pub p50: f64,
    /// The 95 % interval of the median, by order statistics; absent below six values. It is too narrow where values depend
    /// on their neighbours, as those of requests that ran together do.
    pub p50_interval: Option<Interval>,
    /// The 90th percentile.
    pub p90: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile; absent below [`MINIMUM_FOR_P99`] values.
    pub p99: Option<f64>,
}

impl Distribution {
    /// The distribution of the finite ones of these values; NaN and infinities are absent values and are not counted.
    /// `None` where no value is left.
    ///
    /// ```
    /// # use ergometer_statistics::Distribution;
    /// let latencies = Distribution::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
    /// assert_eq!((latencies.count, latencies.p50, latencies.p99), (4, 2.5, None));
    /// ```
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let count = sorted.len() as f64;
        // Rounding of the sum may put the mean of equal values a hair outside them.
        let mean = (sorted.iter().map(|value| value / count).sum::<f64>()).clamp(min, max);
        let squares: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
        let at = |percent| percentile(&sorted, percent);
        Some(Self {
            count: sorted.len(),
            mean,
            std: (sorted.len() > 1).then(|| (squares / (count - 1.0)).sqrt()).filter(|std| std.is_finite()),
            min,
            max,
            p50: at(50.0)?,
            p50_interval: median_interval(&sorted),
            p90: at(90.0)?,
            p95: at(95.0)?,
            p99: if sorted.len() < MINIMUM_FOR_P99 { None } else { at(99.0) },
        })
    }
}

/// A percentile (0 to 100) of values that are sorted and finite. `None` for no values, or a percentile out of range.
#[must_use]
pub fn percentile(sorted: &[f64], percent: f64) -> Option<f64> {
    percentile_by(sorted.len(), percent, |place| sorted.get(place).copied())
}

/// The same of values that `at` gives by their place in the order.
pub(super) fn percentile_by(count: usize, percent: f64, at: impl Fn(usize) -> Option<f64>) -> Option<f64> {
    if !(0.0..=100.0).contains(&percent) {
        return None;
    }
    let last = count.checked_sub(1)?;
    let place = percent / 100.0 * (last as f64);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the length")]
    let below = place.floor() as usize;
    let low = at(below)?;
    let high = if below < last { at(below + 1)? } else { low };
    // In this form equal neighbours give themselves, and a difference beyond f64::MAX does not overflow.
    let part = place - below as f64;
    Some(if low == high { low } else { low * (1.0 - part) + high * part }.clamp(low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each value is numpy's `percentile(values, q)`, computed by hand: place q/100 x (n - 1), linear between.
    #[test]
    fn percentiles_are_those_of_numpy() {
        let values = [15.0, 20.0, 35.0, 40.0, 50.0];
        for (percent, expected) in
            [(0.0, 15.0), (5.0, 16.0), (25.0, 20.0), (40.0, 29.0), (50.0, 35.0), (90.0, 46.0), (100.0, 50.0)]
        {
            let found = percentile(&values, percent).unwrap();
            assert!((found - expected).abs() < 1e-12, "p{percent}: {found}, not {expected}");
        }
        assert_eq!(percentile(&[], 50.0), None);
        assert_eq!(percentile(&[7.0], 99.0), Some(7.0));
        assert_eq!(percentile(&values, -1.0), None);
        assert_eq!(percentile(&values, f64::NAN), None);
    }

    #[test]
    fn a_distribution_of_a_known_sample() {
        let found = Distribution::of(&[9.0, 2.0, 4.0, 4.0, 5.0, 4.0, 7.0, 5.0]).unwrap();
        assert_eq!((found.count, found.mean, found.min, found.max), (8, 5.0, 2.0, 9.0));
        assert!((found.std.unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(found.p50, 4.5);
        assert!((found.p90 - 7.6).abs() < 1e-12 && (found.p95 - 8.3).abs() < 1e-12);
    }

    #[test]
    fn what_is_not_there_is_absent() {
        assert_eq!(Distribution::of(&[]), None);
        assert_eq!(Distribution::of(&[f64::NAN, f64::INFINITY]), None);
        let one = Distribution::of(&[f64::NAN, 3.0]).unwrap();
        assert_eq!((one.count, one.mean, one.std, one.p95), (1, 3.0, None, 3.0));
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(Distribution::of(&many[..99]).unwrap().p99, None);
        assert!((Distribution::of(&many).unwrap().p99.unwrap() - 98.01).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn percentiles_are_ordered(values in prop::collection::vec(any::<f64>(), 0..150)) {
            let finite = values.iter().filter(|value| value.is_finite()).count();
            match Distribution::of(&values) {
                None => prop_assert_eq!(finite, 0),
                Some(found) => {
                    prop_assert_eq!(found.count, finite);
                    let top = found.p99.unwrap_or(found.max);
                    let order = [found.min, found.p50, found.p90, found.p95, top, found.max];
                    prop_assert!(order.is_sorted(), "{:?}", order);
                    prop_assert!(found.min <= found.mean && found.mean <= found.max);
                }
            }
        }
    }
}
