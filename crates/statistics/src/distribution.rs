//! Describes values by their mean, standard deviation and percentiles.

use serde::{Deserialize, Serialize};

use crate::mean::Moments;
use crate::{Interval, median_interval, percentile};

/// The fewest values with a p99. With fewer, the 99th percentile is almost the maximum, so it is absent.
pub const MINIMUM_FOR_P99: usize = 100;

/// Count, mean, spread and percentiles of some values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// The number of values.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Their sample standard deviation (n - 1); absent below two values, or if it overflows a float.
    pub std: Option<f64>,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The median.
    pub p50: f64,
    /// The 95 % interval of the median, by order statistics; absent below six values. It is too narrow if values depend
    /// on their neighbours, as the values of concurrent requests do.
    pub p50_interval: Option<Interval>,
    /// The 90th percentile.
    pub p90: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile; absent below [`MINIMUM_FOR_P99`] values.
    pub p99: Option<f64>,
}

impl Distribution {
    /// The distribution of the finite values. NaN and infinities count as absent. `None` if no value is finite.
    ///
    /// ```
    /// # use ergometer_statistics::Distribution;
    /// let latencies = Distribution::from_values(&[4.0, 1.0, 3.0, 2.0]).unwrap();
    /// assert_eq!((latencies.count, latencies.p50, latencies.p99), (4, 2.5, None));
    /// ```
    #[must_use]
    pub fn from_values(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let moments = Moments::from_sorted(&sorted);
        let at = |percent| percentile(&sorted, percent);
        Some(Self {
            count: sorted.len(),
            mean: moments.mean,
            std: moments.std().filter(|std| std.is_finite()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_distribution_of_a_known_sample() {
        let found = Distribution::from_values(&[9.0, 2.0, 4.0, 4.0, 5.0, 4.0, 7.0, 5.0]).unwrap();
        assert_eq!((found.count, found.mean, found.min, found.max), (8, 5.0, 2.0, 9.0));
        assert!((found.std.unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(found.p50, 4.5);
        assert!((found.p90 - 7.6).abs() < 1e-12 && (found.p95 - 8.3).abs() < 1e-12);
    }

    #[test]
    fn missing_values_are_absent() {
        assert_eq!(Distribution::from_values(&[]), None);
        assert_eq!(Distribution::from_values(&[f64::NAN, f64::INFINITY]), None);
        let one = Distribution::from_values(&[f64::NAN, 3.0]).unwrap();
        assert_eq!((one.count, one.mean, one.std, one.p95), (1, 3.0, None, 3.0));
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(Distribution::from_values(&many[..99]).unwrap().p99, None);
        assert!((Distribution::from_values(&many).unwrap().p99.unwrap() - 98.01).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn percentiles_are_ordered(values in prop::collection::vec(any::<f64>(), 0..150)) {
            let finite = values.iter().filter(|value| value.is_finite()).count();
            match Distribution::from_values(&values) {
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
