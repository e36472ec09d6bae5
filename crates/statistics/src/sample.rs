//! Summarizes repeated times of one operation, such as the executions of a function.
//!
//! A sample has at least one time. The order statistics and the mean of picoseconds are exact up to one rounding to a
//! float; results are in seconds.

use ergometer_units::{Picos, Seconds};
use serde::Serialize;

use crate::mean::{Moments, t_interval};
use crate::{ConfidenceInterval, DEFAULT_LEVEL, percentile};

const PICOS_A_SECOND: f64 = 1e12;

/// Repeated times of one operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    sorted_s: Vec<f64>,
    /// The same times as integers, if they were given in picoseconds.
    sorted_ps: Option<Vec<i64>>,
}

/// The trimmed mean that autotuners report: with more than two values, the smallest and the largest are dropped. The
/// standard deviation is the population's (n), so it is 0 for one value, as in the numbers that autotuners publish.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TrimmedMean {
    /// The number of remaining values.
    pub n: usize,
    /// The mean of the remaining values.
    pub mean_s: f64,
    /// Their population standard deviation.
    pub std_s: f64,
}

/// The statistics of a sample that tables show.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SampleSummary {
    /// The number of times.
    pub n: usize,
    /// The median.
    pub median_s: f64,
    /// The raw median absolute deviation, see [`Sample::mad`].
    pub mad_s: f64,
    /// The mean.
    pub mean_s: f64,
    /// The sample standard deviation; absent below two times.
    pub std_s: Option<f64>,
    /// The t interval of the mean in seconds, see [`Sample::mean_interval`]; absent below two times.
    pub mean_interval_s: Option<ConfidenceInterval>,
    /// The shortest time.
    pub min_s: f64,
    /// The longest time.
    pub max_s: f64,
    /// The mean and the standard deviation without the extremes.
    pub trimmed: TrimmedMean,
}

impl Sample {
    /// A sample of picoseconds. `None` without times.
    ///
    /// ```
    /// # use ergometer_statistics::Sample;
    /// # use ergometer_units::{Picos, Seconds};
    /// let sample = Sample::from_picos(&[3, 1, 8].map(|time_s| Picos::new(time_s * 1_000_000_000_000))).unwrap();
    /// assert_eq!((sample.median(), sample.mad()), (Seconds::new(3.0), Seconds::new(2.0)));
    /// assert_eq!(sample.mean(), Seconds::new(4.0));
    /// ```
    #[must_use]
    pub fn from_picos(times: &[Picos]) -> Option<Self> {
        let mut sorted_ps: Vec<i64> = times.iter().map(|time| time.get()).collect();
        sorted_ps.sort_unstable();
        let sorted_s = sorted_ps.iter().map(|&time_ps| time_ps as f64 / PICOS_A_SECOND).collect();
        (!times.is_empty()).then_some(Self { sorted_s, sorted_ps: Some(sorted_ps) })
    }

    /// A sample of seconds. NaN and infinities count as absent. `None` if no time is finite.
    #[must_use]
    pub fn from_seconds(times: &[Seconds]) -> Option<Self> {
        let mut sorted_s: Vec<f64> = times.iter().map(|time| time.get()).filter(|time_s| time_s.is_finite()).collect();
        sorted_s.sort_unstable_by(f64::total_cmp);
        (!sorted_s.is_empty()).then_some(Self { sorted_s, sorted_ps: None })
    }

    /// The number of times, at least one.
    #[must_use]
    pub fn n(&self) -> usize {
        self.sorted_s.len()
    }

    /// The times in seconds, the shortest first.
    #[must_use]
    pub fn sorted_seconds(&self) -> &[f64] {
        &self.sorted_s
    }

    /// The median.
    #[must_use]
    pub fn median(&self) -> Seconds {
        Seconds::new(match &self.sorted_ps {
            Some(sorted_ps) => doubled_median(sorted_ps) as f64 / 2.0 / PICOS_A_SECOND,
            None => median_of_sorted(&self.sorted_s),
        })
    }

    /// The median absolute deviation: the median distance from the median (F. R. Hampel, "The influence curve and its
    /// role in robust estimation", 1974). It is not scaled by 1.4826, which would
    /// make it estimate the standard deviation of normally distributed values: times are not normally distributed.
    #[must_use]
    pub fn mad(&self) -> Seconds {
        if let Some(sorted_ps) = &self.sorted_ps {
            // In half picoseconds the median, and therefore each distance from it, is an integer.
            let median = doubled_median(sorted_ps);
            let mut distances: Vec<i128> =
                sorted_ps.iter().map(|&time_ps| (2 * i128::from(time_ps) - median).abs()).collect();
            distances.sort_unstable();
            return Seconds::new(doubled_median(&distances) as f64 / 4.0 / PICOS_A_SECOND);
        }
        let median = median_of_sorted(&self.sorted_s);
        let mut distances: Vec<f64> = self.sorted_s.iter().map(|time_s| (time_s - median).abs()).collect();
        distances.sort_unstable_by(f64::total_cmp);
        Seconds::new(median_of_sorted(&distances))
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> Seconds {
        Seconds::new(self.moments(0).mean)
    }

    /// The sample standard deviation (n - 1). `None` below two values: one value has no spread.
    #[must_use]
    pub fn std(&self) -> Option<Seconds> {
        self.moments(0).std().map(Seconds::new)
    }

    /// The interval of the mean by Student's t (W. S. Gosset, "The probable error of a mean", 1908), in seconds. `None`
    /// below two values, or if the level is not between 0 and 1.
    ///
    /// It assumes that times are independent and that their mean is about normally distributed. Times are skewed and
    /// drift with clocks and temperature, so with few times the true level is somewhat lower than `level`.
    #[must_use]
    pub fn mean_interval(&self, level: f64) -> Option<ConfidenceInterval> {
        t_interval(self.mean().get(), self.std()?.get(), self.n(), level)
    }

    /// The shortest time.
    #[must_use]
    pub fn min(&self) -> Seconds {
        Seconds::new(self.sorted_s[0])
    }

    /// The longest time.
    #[must_use]
    pub fn max(&self) -> Seconds {
        Seconds::new(self.sorted_s[self.n() - 1])
    }

    /// The mean and the population standard deviation without the shortest and the longest of more than two times.
    #[must_use]
    pub fn trimmed(&self) -> TrimmedMean {
        let drop = usize::from(self.n() > 2);
        let (n, moments) = (self.n() - 2 * drop, self.moments(drop));
        TrimmedMean { n, mean_s: moments.mean, std_s: (moments.squares / n as f64).sqrt() }
    }

    /// All statistics, with the interval of the mean at [`DEFAULT_LEVEL`].
    #[must_use]
    pub fn summary(&self) -> SampleSummary {
        SampleSummary {
            n: self.n(),
            median_s: self.median().get(),
            mad_s: self.mad().get(),
            mean_s: self.mean().get(),
            std_s: self.std().map(Seconds::get),
            mean_interval_s: self.mean_interval(DEFAULT_LEVEL),
            min_s: self.min().get(),
            max_s: self.max().get(),
            trimmed: self.trimmed(),
        }
    }

    /// The moments without the `drop` shortest and the `drop` longest times.
    fn moments(&self, drop: usize) -> Moments {
        if let Some(sorted_ps) = &self.sorted_ps {
            let kept = &sorted_ps[drop..sorted_ps.len() - drop];
            let sum: i128 = kept.iter().copied().map(i128::from).sum();
            let (whole, count) = (kept.len() as i128, kept.len() as f64);
            let mean = (sum.div_euclid(whole) as f64 + sum.rem_euclid(whole) as f64 / count) / PICOS_A_SECOND;
            // n x - sum is n times the distance, and an integer.
            let distance = |time_ps: i64| (whole * i128::from(time_ps) - sum) as f64 / count / PICOS_A_SECOND;
            let squares = kept.iter().map(|&time_ps| distance(time_ps).powi(2)).sum();
            return Moments { mean, squares, count: kept.len() };
        }
        Moments::from_sorted(&self.sorted_s[drop..self.n() - drop])
    }
}

/// Twice the median of sorted values, of which there is at least one.
fn doubled_median<T: Copy + Into<i128>>(sorted: &[T]) -> i128 {
    sorted[(sorted.len() - 1) / 2].into() + sorted[sorted.len() / 2].into()
}

/// The median of sorted values, of which there is at least one.
fn median_of_sorted(sorted: &[f64]) -> f64 {
    percentile(sorted, 50.0).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn picos(times: &[i64]) -> Sample {
        Sample::from_picos(&times.iter().copied().map(Picos::new).collect::<Vec<_>>()).unwrap()
    }

    fn seconds(times: &[f64]) -> Sample {
        Sample::from_seconds(&times.iter().copied().map(Seconds::new).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_known_sample() {
        let found = seconds(&[9.0, 2.0, 4.0, 4.0, 5.0, 4.0, 7.0, 5.0]).summary();
        assert_eq!((found.n, found.median_s, found.mad_s, found.mean_s), (8, 4.5, 0.5, 5.0));
        assert_eq!((found.min_s, found.max_s), (2.0, 9.0));
        assert!((found.std_s.unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        // t(7) at 97.5 % is 2.364624251592785.
        let half = 2.364_624_251_592_785 * (32.0_f64 / 56.0).sqrt();
        let interval = found.mean_interval_s.unwrap();
        assert!((interval.low - (5.0 - half)).abs() < 1e-12 && (interval.high - (5.0 + half)).abs() < 1e-12);
        // 2 and 9 are dropped: 4 4 4 5 5 7, mean 29/6, squares 147/6 - (29/6)².
        assert_eq!(found.trimmed.n, 6);
        assert!((found.trimmed.mean_s - 29.0 / 6.0).abs() < 1e-12);
        assert!((found.trimmed.std_s - (147.0_f64 / 6.0 - 841.0 / 36.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn statistics_that_need_more_values_are_absent() {
        assert_eq!((Sample::from_picos(&[]), Sample::from_seconds(&[Seconds::new(f64::NAN)])), (None, None));
        let one = picos(&[7]).summary();
        assert_eq!((one.std_s, one.mean_interval_s, one.mad_s), (None, None, 0.0));
        assert_eq!(one.trimmed, TrimmedMean { n: 1, mean_s: 7e-12, std_s: 0.0 });
        assert_eq!(picos(&[1, 3]).trimmed(), TrimmedMean { n: 2, mean_s: 2e-12, std_s: 1e-12 });
        assert_eq!(picos(&[1, 2, 30]).trimmed(), TrimmedMean { n: 1, mean_s: 2e-12, std_s: 0.0 });
        for level in [f64::NAN, -0.5, 1.0, 2.0] {
            assert_eq!(picos(&[1, 3]).mean_interval(level), None);
        }
    }

    #[test]
    fn a_median_between_two_picoseconds_is_exact() {
        let base = 4_000_000_000_000_000;
        let sample = picos(&[base, base + 1]);
        assert_eq!((sample.median().get(), sample.mad().get()), ((base as f64 + 0.5) / 1e12, 0.5e-12));
        assert_eq!(sample.trimmed().std_s, 0.5e-12);
        assert_eq!(picos(&[i64::MIN, i64::MAX]).mad().get(), (i64::MAX as f64 - 0.5) / 1e12);
    }

    proptest! {
        #[test]
        fn picoseconds_and_seconds_agree(times in prop::collection::vec(0_i64..1_000_000_000_000_000, 1..60)) {
            let exact = picos(&times);
            let floats = seconds(&times.iter().map(|&time_ps| time_ps as f64 / 1e12).collect::<Vec<_>>());
            let close = |one: f64, other: f64| (one - other).abs() <= 1e-12 * exact.max().get();
            let (one, other) = (exact.summary(), floats.summary());
            prop_assert!(close(one.median_s, other.median_s) && close(one.mad_s, other.mad_s));
            prop_assert!(close(one.mean_s, other.mean_s) && close(one.trimmed.std_s, other.trimmed.std_s));
            prop_assert_eq!(one.std_s.is_some(), times.len() > 1);
            prop_assert!(one.min_s <= one.mean_s && one.mean_s <= one.max_s);
            prop_assert!(one.mean_interval_s.is_none_or(|interval| interval.contains(one.mean_s)));
            let sorted_ps = exact.sorted_ps.clone().unwrap();
            prop_assert_eq!(one.median_s, percentile(&sorted_ps, 50.0).unwrap() / 1e12);
        }

        #[test]
        fn no_value_panics(times in prop::collection::vec(any::<i64>(), 1..9), floats in prop::collection::vec(any::<f64>(), 0..9)) {
            prop_assert!(picos(&times).summary().mad_s >= 0.0);
            let floats: Vec<Seconds> = floats.into_iter().map(Seconds::new).collect();
            let _ = Sample::from_seconds(&floats).map(|sample| sample.summary());
        }
    }
}
