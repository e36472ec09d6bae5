//! Fits a line by least squares, with 95 % intervals.
//!
//! Sums are over differences from the means, so that a large offset loses no precision. Intervals are by Student's t
//! with n - 2 degrees of freedom (Draper and Smith, "Applied Regression Analysis", 3rd edition, 1998, chapter 1); they
//! assume independent residuals of constant variance.

use serde::Serialize;

use super::fit::{Coefficient, NoFit, Noise, explained, is_constant, mean};

/// `y = intercept + slope x`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LeastSquares {
    /// The number of pairs.
    pub count: usize,
    /// The increase of y per unit of x.
    pub slope: Coefficient,
    /// The value at x = 0.
    pub intercept: Coefficient,
    /// 1 - (squares of the residuals) / (squares of y about its mean); 1 if y is constant.
    pub r2: f64,
    /// The standard deviation of the residuals, over n - 2; absent with two pairs.
    pub residual_std: Option<f64>,
}

impl LeastSquares {
    /// Fits the finite pairs (x, y). Pairs with NaN or infinities count as absent.
    ///
    /// # Errors
    /// Fewer than two pairs, constant x, or float overflow.
    ///
    /// ```
    /// # use ergometer_statistics::LeastSquares;
    /// let fit = LeastSquares::fit(&[(1.0, 5.0), (2.0, 7.0), (3.0, 9.0)]).unwrap();
    /// assert_eq!((fit.slope.value, fit.intercept.value, fit.r2), (2.0, 3.0, 1.0));
    /// ```
    pub fn fit(pairs: &[(f64, f64)]) -> Result<Self, NoFit> {
        let pairs: Vec<(f64, f64)> = pairs.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
        let count = pairs.len();
        if count < 2 {
            return Err(NoFit::TooFew { count, needed: 2 });
        }
        let (xs, ys) = (pairs.iter().map(|pair| pair.0), pairs.iter().map(|pair| pair.1));
        if is_constant(xs.clone()) {
            return Err(NoFit::Constant { regressor: 0 });
        }
        let (mean_x, mean_y) = (mean(xs), mean(ys.clone()));
        let centred = pairs.iter().map(|(x, y)| (x - mean_x, y - mean_y));
        let (xx, xy) = centred.clone().fold((0.0, 0.0), |(xx, xy), (x, y)| (xx + x * x, xy + x * y));
        // Rounding of the mean would give constant values a tiny slope.
        let slope = if is_constant(ys.clone()) { 0.0 } else { xy / xx };
        let intercept = mean_y - slope * mean_x;
        let residuals: f64 = centred.clone().map(|(x, y)| (y - slope * x).powi(2)).sum();
        let total: f64 = if is_constant(ys) { 0.0 } else { centred.map(|(_, y)| y * y).sum() };
        if !(xx > 0.0 && [xx, slope, intercept, residuals, total].iter().all(|number| number.is_finite())) {
            return Err(NoFit::OutOfRange);
        }
        let noise = Noise::new(if total == 0.0 { 0.0 } else { residuals }, count, 2);
        Ok(Self {
            count,
            slope: noise.coefficient(slope, 1.0 / xx),
            intercept: noise.coefficient(intercept, 1.0 / count as f64 + mean_x / xx * mean_x),
            r2: explained(residuals, total),
            residual_std: noise.std,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Forbes' boiling points (degrees Fahrenheit) and 100 log10 of pressure, from S. Weisberg, "Applied Linear
    /// Regression" (1980), table 1.1; slope, intercept, their standard errors and r² as he prints them.
    #[test]
    fn a_published_line_is_found() {
        let boiling = [
            (194.5, 131.79),
            (194.3, 131.79),
            (197.9, 135.02),
            (198.4, 135.55),
            (199.4, 136.46),
            (199.9, 136.83),
            (200.9, 137.82),
            (201.1, 138.00),
            (201.4, 138.06),
            (201.3, 138.04),
            (203.6, 140.04),
            (204.6, 142.44),
            (209.5, 145.47),
            (208.6, 144.34),
            (210.7, 146.30),
            (211.9, 147.54),
            (212.2, 147.80),
        ];
        let fit = LeastSquares::fit(&boiling).unwrap();
        let near =
            |found: f64, wanted: f64, limit: f64| assert!((found - wanted).abs() < limit, "{found} is not {wanted}");
        near(fit.slope.value, 0.895, 0.0006);
        near(fit.intercept.value, -42.131, 0.02);
        near(fit.slope.standard_error.unwrap(), 0.0164, 0.000_06);
        near(fit.intercept.standard_error.unwrap(), 3.339, 0.01);
        near(fit.residual_std.unwrap(), 0.379, 0.0006);
        near(fit.r2, 0.995, 0.0006);
        // t with 15 degrees of freedom is 2.131.
        near(fit.slope.interval.unwrap().width() / fit.slope.standard_error.unwrap(), 2.0 * 2.131_449_5, 1e-6);
    }

    #[test]
    fn a_failed_fit_gives_the_reason() {
        assert_eq!(LeastSquares::fit(&[]), Err(NoFit::TooFew { count: 0, needed: 2 }));
        assert_eq!(LeastSquares::fit(&[(1.0, f64::NAN), (2.0, 3.0)]), Err(NoFit::TooFew { count: 1, needed: 2 }));
        assert_eq!(LeastSquares::fit(&[(0.1, 1.0), (0.1, 2.0), (0.1, 2.0)]), Err(NoFit::Constant { regressor: 0 }));
        assert_eq!(LeastSquares::fit(&[(-1e200, 1.0), (1e200, 2.0)]), Err(NoFit::OutOfRange));
        let two = LeastSquares::fit(&[(1.0, 1.0), (2.0, 3.0)]).unwrap();
        assert_eq!((two.slope.value, two.slope.interval, two.residual_std), (2.0, None, None));
        let level = LeastSquares::fit(&[(1.0, 0.1), (2.0, 0.1), (4.0, 0.1)]).unwrap();
        assert_eq!((level.slope.value, level.intercept.value, level.r2), (0.0, 0.1, 1.0));
    }

    #[test]
    fn intervals_contain_the_truth_19_times_in_20() {
        let held = (0..1000).filter(|&seed| {
            let mut random = fastrand::Rng::with_seed(seed);
            // A sum of twelve uniform numbers is nearly normal.
            let mut normal = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
            let pairs: Vec<(f64, f64)> = (0..15).map(f64::from).map(|x| (x, 4.0 + 0.3 * x + normal())).collect();
            let fit = LeastSquares::fit(&pairs).unwrap();
            fit.slope.interval.unwrap().contains(0.3) && fit.intercept.interval.unwrap().width() > 0.0
        });
        let share = held.count() as f64 / 1000.0;
        assert!((0.93..=0.97).contains(&share), "{share}");
    }

    proptest! {
        #[test]
        fn an_offset_shifts_only_the_intercept(
            pairs in prop::collection::vec((0_i32..1000, -1000_i32..1000), 3..60), x_offset in 0_i32..1_000_000, y_offset in 0_i32..1_000_000)
        {
            let at = |dx: i32, dy: i32| pairs.iter().map(|(x, y)| (f64::from(x + dx), f64::from(y + dy))).collect::<Vec<_>>();
            let (near, far) = (LeastSquares::fit(&at(0, 0)), LeastSquares::fit(&at(x_offset, y_offset)));
            match (near, far) {
                (Ok(near), Ok(far)) => {
                    prop_assert!((near.slope.value - far.slope.value).abs() <= 1e-9 * near.slope.value.abs().max(1e-3));
                    prop_assert!((near.r2 - far.r2).abs() < 1e-9);
                    let moved = near.intercept.value + f64::from(y_offset) - near.slope.value * f64::from(x_offset);
                    prop_assert!((far.intercept.value - moved).abs() <= 1e-8 * moved.abs().max(1.0));
                }
                (near, far) => prop_assert_eq!(near.map(|fit| fit.count), far.map(|fit| fit.count)),
            }
        }

        #[test]
        fn no_input_panics(pairs in prop::collection::vec((any::<f64>(), any::<f64>()), 0..20)) {
            if let Ok(fit) = LeastSquares::fit(&pairs) {
                prop_assert!(fit.slope.value.is_finite() && fit.intercept.value.is_finite() && fit.r2 <= 1.0);
            }
        }
    }
}
