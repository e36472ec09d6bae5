//! Fits a line by Huber's M-estimator, which limits the influence of outliers.
//!
//! P. J. Huber, "Robust Estimation of a Location Parameter" (1964) and "Robust Regression: Asymptotics, Conjectures and
//! Monte Carlo" (1973): the loss is quadratic up to 1.345 scales from the line and linear beyond, which has 95 % of the
//! efficiency of least squares for normal noise. It is computed by iteratively reweighted least squares; the scale is
//! the median of |residual| / 0.6745 in each step. The result is that of `statsmodels.RLM(M=HuberT())`.
//!
//! It resists outliers in y, but not in x, unlike [`TheilSen`](super::TheilSen).

use serde::Serialize;

use crate::LeastSquares;
use crate::fit::NoFit;
use crate::percentile::median_in_place;

/// Huber's tuning constant.
const TUNING: f64 = 1.345;

/// The normal quantile of 75 %: the median of |z|.
const NORMAL_QUARTILE: f64 = 0.674_489_750_196_081_7;

/// The most steps. A fit usually converges within about twenty.
const MOST_STEPS: usize = 500;

/// `y = intercept + slope x`, by Huber's estimate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Huber {
    /// The number of pairs.
    pub count: usize,
    /// The increase of y per unit of x.
    pub slope: f64,
    /// The value at x = 0.
    pub intercept: f64,
    /// The scale of the residuals; 0 if half of the values lie on the line.
    pub scale: f64,
    /// The number of values with reduced weight, further than 1.345 scales from the line.
    pub held_back: usize,
}

impl Huber {
    /// Fits the finite pairs (x, y). Pairs with NaN or infinities count as absent.
    ///
    /// # Errors
    /// Fewer than two pairs, constant x, float overflow, or no convergence.
    ///
    /// ```
    /// # use ergometer_statistics::Huber;
    /// let mut pairs: Vec<(f64, f64)> = (0..20).map(|x| (f64::from(x), f64::from(2 * x + x % 3))).collect();
    /// pairs[10].1 = 5000.0;
    /// let fit = Huber::fit(&pairs).unwrap();
    /// assert!((fit.slope - 2.0).abs() < 0.1 && fit.held_back >= 1);
    /// ```
    pub fn fit(pairs: &[(f64, f64)]) -> Result<Self, NoFit> {
        let first = LeastSquares::fit(pairs)?;
        let pairs: Vec<(f64, f64)> = pairs.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
        let mut line = Line { slope: first.slope.value, intercept: first.intercept.value };
        let extent = pairs.iter().map(|pair| pair.0.abs()).fold(0.0, f64::max);
        let mut sizes = Vec::with_capacity(pairs.len());
        for _ in 0..MOST_STEPS {
            let scale = line.scale(&pairs, &mut sizes);
            // A scale below the rounding of y is zero: half of the values lie on the line.
            let rounding = 1e-14 * (line.intercept.abs() + line.slope.abs() * extent);
            if scale <= rounding {
                return Ok(line.found(&pairs, 0.0));
            }
            let next = line.step(&pairs, scale).ok_or(NoFit::OutOfRange)?;
            let moved = (next.intercept - line.intercept).abs() + (next.slope - line.slope).abs() * extent;
            line = next;
            if moved <= 1e-12 * scale + rounding {
                let scale = line.scale(&pairs, &mut sizes);
                return Ok(line.found(&pairs, scale));
            }
        }
        Err(NoFit::Unsettled)
    }
}

#[derive(Debug, Clone, Copy)]
struct Line {
    slope: f64,
    intercept: f64,
}

impl Line {
    fn residual(self, (x, y): (f64, f64)) -> f64 {
        y - self.intercept - self.slope * x
    }

    fn scale(self, pairs: &[(f64, f64)], sizes: &mut Vec<f64>) -> f64 {
        sizes.clear();
        sizes.extend(pairs.iter().map(|&pair| self.residual(pair).abs()));
        median_in_place(sizes).unwrap_or(0.0) / NORMAL_QUARTILE
    }

    fn weight(self, pair: (f64, f64), scale: f64) -> f64 {
        let far = (self.residual(pair) / scale).abs();
        if far <= TUNING { 1.0 } else { TUNING / far }
    }

    /// Weighted least squares, on differences from the weighted means.
    fn step(self, pairs: &[(f64, f64)], scale: f64) -> Option<Self> {
        let weighed = pairs.iter().map(|&pair| (self.weight(pair, scale), pair.0, pair.1));
        let sums = weighed.clone().fold((0.0, 0.0, 0.0), |sum, (w, x, y)| (sum.0 + w, sum.1 + w * x, sum.2 + w * y));
        let (mean_x, mean_y) = (sums.1 / sums.0, sums.2 / sums.0);
        let (xx, xy) = weighed.fold((0.0, 0.0), |sum, (w, x, y)| {
            (sum.0 + w * (x - mean_x) * (x - mean_x), sum.1 + w * (x - mean_x) * (y - mean_y))
        });
        let slope = xy / xx;
        let intercept = mean_y - slope * mean_x;
        (slope.is_finite() && intercept.is_finite()).then_some(Self { slope, intercept })
    }

    fn found(self, pairs: &[(f64, f64)], scale: f64) -> Huber {
        let is_held_back = |pair: &&(f64, f64)| scale > 0.0 && self.weight(**pair, scale) < 1.0;
        Huber {
            count: pairs.len(),
            slope: self.slope,
            intercept: self.intercept,
            scale,
            held_back: pairs.iter().filter(is_held_back).count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_failed_fit_gives_the_reason() {
        assert_eq!(Huber::fit(&[(1.0, 1.0)]), Err(NoFit::TooFew { count: 1, needed: 2 }));
        assert_eq!(Huber::fit(&[(1.0, 1.0), (1.0, 2.0)]), Err(NoFit::Constant { regressor: 0 }));
        let level = Huber::fit(&[(1.0, 0.1), (2.0, 0.1), (4.0, 0.1)]).unwrap();
        assert_eq!((level.slope, level.scale, level.held_back), (0.0, 0.0, 0));
    }

    proptest! {
        #[test]
        fn one_outlier_hardly_moves_the_line(noise in prop::collection::vec(-1.0..1.0, 40), wild in -1e9..1e9, index in 5_usize..35) {
            let mut pairs: Vec<(f64, f64)> =
                noise.iter().enumerate().map(|(x, noise)| (x as f64, 7.0 + 0.5 * x as f64 + noise)).collect();
            let before = Huber::fit(&pairs).unwrap();
            pairs[index].1 = wild;
            let after = Huber::fit(&pairs).unwrap();
            prop_assert!((before.slope - after.slope).abs() < 0.1, "{:?} {:?}", before, after);
        }

        /// At the estimate, residuals clipped at 1.345 scales sum to zero, and so do their products with x.
        #[test]
        fn clipped_residuals_balance(pairs in prop::collection::vec((0_u32..100, -50.0..50.0), 5..60)) {
            let pairs: Vec<(f64, f64)> = pairs.into_iter().map(|(x, y)| (f64::from(x), y)).collect();
            if let Some(fit) = Huber::fit(&pairs).ok().filter(|fit| fit.scale > 1e-6) {
                let pull = |&(x, y): &(f64, f64)| ((y - fit.intercept - fit.slope * x) / fit.scale).clamp(-TUNING, TUNING);
                let sum: f64 = pairs.iter().map(pull).sum();
                let moment: f64 = pairs.iter().map(|pair| pull(pair) * pair.0).sum();
                prop_assert!(sum.abs() < 1e-6 && moment.abs() < 1e-4, "{} {}", sum, moment);
            }
        }

        #[test]
        fn no_input_panics(pairs in prop::collection::vec((any::<f64>(), any::<f64>()), 0..20)) {
            if let Ok(fit) = Huber::fit(&pairs) {
                prop_assert!(fit.slope.is_finite() && fit.intercept.is_finite());
            }
        }
    }
}
