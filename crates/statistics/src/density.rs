//! Estimates the density of values by a Gaussian kernel.
//!
//! The bandwidth is 0.9 s n^(-1/5), where s is the sample standard deviation: the rule of B. W. Silverman, "Density
//! Estimation for Statistics and Data Analysis" (1986), formula 3.31, without its quartiles, as in
//! intelligence-per-watt. Values are first distributed to bins of a sixteenth of the bandwidth, each to the two nearest
//! bins (M. P. Wand, "Fast Computation of Multivariate Kernel Estimators", 1994), so that the time hardly depends on
//! the number of values. The error is below 0.1 % of the peak.

use serde::Serialize;

use super::Distribution;

/// The number of points of the curve.
pub const DENSITY_POINTS: usize = 512;

/// The number of bins per bandwidth. The error of binning is at most (1/16)² / 8 of the curvature of the kernel, 0.05
/// %.
const BINS_PER_BANDWIDTH: f64 = 16.0;

/// The number of bandwidths beyond which the kernel is ignored: it is below 2e-8 of its peak.
const REACH: f64 = 6.0;

/// A probability density over the range of the values. Its area is slightly below 1, because a part lies outside the
/// range.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Density {
    /// The standard deviation of the kernel.
    pub bandwidth: f64,
    /// [`DENSITY_POINTS`] evenly spaced positions, from the smallest value to the largest.
    pub at: Vec<f64>,
    /// The density at each position.
    pub density: Vec<f64>,
}

impl Density {
    /// The density of the finite values. `None` for fewer than two values, for equal values, or if a float overflows.
    ///
    /// ```
    /// # use ergometer_statistics::Density;
    /// let density = Density::from_values(&[1.0, 2.0, 2.5, 3.0, 4.0]).unwrap();
    /// assert_eq!((density.at[0], density.at[511]), (1.0, 4.0));
    /// assert!(density.density[256] > density.density[0]);
    /// ```
    #[must_use]
    pub fn from_values(values: &[f64]) -> Option<Self> {
        let whole = Distribution::from_values(values)?;
        let (count, range) = (whole.count as f64, whole.max - whole.min);
        let bandwidth = 0.9 * whole.std? * count.powf(-0.2);
        if !(bandwidth > 0.0 && range > 0.0 && range.is_finite() && bandwidth.is_normal()) {
            return None;
        }
        // The range is at most √(2n) standard deviations, so there are at most 25 n^0.7 bins.
        let width = bandwidth / BINS_PER_BANDWIDTH;
        let bins = Bins::new(values.iter().copied().filter(|value| value.is_finite()), whole.min, range, width);
        let step = range / (DENSITY_POINTS - 1) as f64;
        let at: Vec<f64> = (0..DENSITY_POINTS).map(|place| (whole.min + place as f64 * step).min(whole.max)).collect();
        let factor = 1.0 / (count * bandwidth * std::f64::consts::TAU.sqrt());
        let density = at.iter().map(|at| factor * bins.kernels((at - whole.min) / width)).collect();
        Some(Self { bandwidth, at, density })
    }
}

/// The number of values at positions 0, 1, 2 …, in bin widths from the smallest. A value between two positions is
/// divided.
struct Bins(Vec<f64>);

impl Bins {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 25 n^0.7, see above")]
    fn new(values: impl Iterator<Item = f64>, start: f64, range: f64, width: f64) -> Self {
        let mut bins = vec![0.0; (range / width).ceil() as usize + 2];
        for value in values {
            let place = (value - start) / width;
            let below = place.floor();
            let part = place - below;
            bins[below as usize] += 1.0 - part;
            bins[below as usize + 1] += part;
        }
        Self(bins)
    }

    /// The sum of the kernels of all values at a position; each kernel has a peak of 1.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "places of bins, cut to their number")]
    fn kernels(&self, place: f64) -> f64 {
        let reach = REACH * BINS_PER_BANDWIDTH;
        let first = (place - reach).max(0.0) as usize;
        let last = ((place + reach) as usize).min(self.0.len() - 1);
        let near = self.0[first..=last].iter().enumerate().filter(|(_, held)| **held > 0.0);
        near.map(|(bin, held)| {
            let far = ((first + bin) as f64 - place) / BINS_PER_BANDWIDTH;
            held * (-0.5 * far * far).exp()
        })
        .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The sum of all kernels, without bins.
    fn direct(values: &[f64], found: &Density) -> Vec<f64> {
        let factor = 1.0 / (values.len() as f64 * found.bandwidth * std::f64::consts::TAU.sqrt());
        let kernel = |at: f64, value: f64| (-0.5 * ((at - value) / found.bandwidth).powi(2)).exp();
        found.at.iter().map(|&at| factor * values.iter().map(|&value| kernel(at, value)).sum::<f64>()).collect()
    }

    fn error(values: &[f64]) -> f64 {
        let found = Density::from_values(values).unwrap();
        let direct = direct(values, &found);
        let peak = direct.iter().copied().fold(0.0, f64::max);
        direct.iter().zip(&found.density).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / peak
    }

    #[test]
    fn binning_changes_the_density_by_less_than_0_1_percent() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut normal = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let smooth: Vec<f64> = (0..20_000).map(|_| normal()).collect();
        let two: Vec<f64> = (0..5_000).map(|i| normal() + if i % 3 == 0 { 40.0 } else { 0.0 }).collect();
        // An outlier widens the bandwidth, and the range even more.
        let mut tail = smooth[..5_000].to_vec();
        tail.push(1e6);
        let steps: Vec<f64> = (0..3_000).map(|i| f64::from(i % 5)).collect();
        for values in [smooth, two, tail, steps, vec![1.0, 2.0]] {
            let error = error(&values);
            assert!(error < 0.001, "{error}");
        }
    }

    #[test]
    fn values_without_a_density_have_none() {
        for values in [&[][..], &[1.0], &[2.0, 2.0, 2.0], &[f64::NAN, 1.0], &[f64::MIN, f64::MAX]] {
            assert_eq!(Density::from_values(values), None, "{values:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_density_is_near_the_direct_sum_and_its_area_is_below_one(values in prop::collection::vec(-100.0..100.0, 2..200)) {
            prop_assert!(error(&values) < 0.005);
            let found = Density::from_values(&values).unwrap();
            let area: f64 = found.density.windows(2).map(|pair| pair[0].midpoint(pair[1])).sum::<f64>() * (found.at[1] - found.at[0]);
            prop_assert!((0.4..1.001).contains(&area), "{}", area);
        }

        #[test]
        fn no_input_panics(values in prop::collection::vec(any::<f64>(), 0..30)) {
            if let Some(found) = Density::from_values(&values) {
                prop_assert_eq!((found.at.len(), found.density.len()), (DENSITY_POINTS, DENSITY_POINTS));
            }
        }
    }
}
