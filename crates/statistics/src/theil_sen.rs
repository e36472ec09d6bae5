//! Fits a line by the Theil-Sen estimator, the median of the slopes between all pairs, with Sen's 95 % interval.
//!
//! H. Theil, "A rank-invariant method of linear and polynomial regression analysis" (1950), and P. K. Sen, "Estimates
//! of the regression coefficient based on Kendall's tau" (Journal of the American Statistical Association 63, 1968). Up
//! to 29 % of the values may be outliers. Results are those of `scipy.stats.theilslopes(method="joint")`: the intercept
//! is the median of y - slope x.

use serde::Serialize;

use crate::Interval;
use crate::fit::NoFit;
use crate::percentile::median_in_place;

/// The most values used. Two thousand values have two million slopes: 16 MB and about ten milliseconds. Of more values,
/// an evenly spaced subset in the order of x is used.
pub const MOST_THEIL_SEN: usize = 2_000;

/// The normal quantile of 97.5 %.
const Z: f64 = 1.959_963_984_540_054;

/// `y = intercept + slope x`, by medians.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TheilSen {
    /// The number of pairs.
    pub count: usize,
    /// The number of pairs used: all, up to [`MOST_THEIL_SEN`].
    pub used: usize,
    /// The median of the slopes between all pairs of different x.
    pub slope: f64,
    /// The median of y - slope x.
    pub intercept: f64,
    /// Sen's 95 % interval of the slope; absent below five values, or if ties leave too few slopes.
    pub interval: Option<Interval>,
}

impl TheilSen {
    /// Fits the finite pairs (x, y). Pairs with NaN or infinities count as absent.
    ///
    /// # Errors
    /// Fewer than two pairs, constant x, or float overflow.
    ///
    /// ```
    /// # use ergometer_statistics::TheilSen;
    /// let fit = TheilSen::fit(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0), (3.0, 7.0), (4.0, 900.0)]).unwrap();
    /// assert_eq!((fit.slope, fit.intercept), (2.0, 1.0));
    /// ```
    pub fn fit(pairs: &[(f64, f64)]) -> Result<Self, NoFit> {
        let mut pairs: Vec<(f64, f64)> =
            pairs.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
        let count = pairs.len();
        if count < 2 {
            return Err(NoFit::TooFew { count, needed: 2 });
        }
        // A stable sort, so that the choice among equal x does not depend on y.
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        if count > MOST_THEIL_SEN {
            pairs = (0..MOST_THEIL_SEN).map(|place| pairs[place * (count - 1) / (MOST_THEIL_SEN - 1)]).collect();
        }
        let mut slopes = slopes(&pairs);
        if slopes.is_empty() {
            return Err(NoFit::Constant { regressor: 0 });
        }
        let slope = median_in_place(&mut slopes).unwrap_or(0.0);
        let mut rests: Vec<f64> = pairs.iter().map(|(x, y)| y - slope * x).collect();
        let intercept = median_in_place(&mut rests).unwrap_or(0.0);
        if !(slope.is_finite() && intercept.is_finite()) {
            return Err(NoFit::OutOfRange);
        }
        let interval = interval(&mut slopes, &pairs);
        Ok(Self { count, used: pairs.len(), slope, intercept, interval })
    }
}

/// The slopes between all pairs of different x; pairs are sorted by x.
fn slopes(pairs: &[(f64, f64)]) -> Vec<f64> {
    let mut slopes = Vec::with_capacity(pairs.len() * (pairs.len() - 1) / 2);
    for (place, &(x, y)) in pairs.iter().enumerate() {
        let further = pairs[place + 1..].iter().filter(|further| further.0 > x);
        slopes.extend(further.map(|further| (further.1 - y) / (further.0 - x)));
    }
    slopes
}

/// Sen's interval: the slopes with ranks (N ± z σ) / 2, where σ² is the variance of Kendall's statistic with ties (his
/// formula 2.6), rounded as in scipy.
fn interval(slopes: &mut [f64], pairs: &[(f64, f64)]) -> Option<Interval> {
    let ties = |mut values: Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        values.chunk_by(|a, b| a == b).map(|equal| kendall(equal.len() as f64)).sum::<f64>()
    };
    let (xs, ys) = (pairs.iter().map(|pair| pair.0).collect(), pairs.iter().map(|pair| pair.1).collect());
    let variance = (kendall(pairs.len() as f64) - ties(xs) - ties(ys)) / 18.0;
    let margin = Z * Some(variance).filter(|&variance| variance > 0.0)?.sqrt();
    let number = slopes.len() as f64;
    let low = ((number - margin) / 2.0).round_ties_even() - 1.0;
    let high = number.midpoint(margin).round_ties_even();
    if low < 0.0 || high > number - 1.0 {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "places between 0 and the length")]
    let mut at = |place: f64| *slopes.select_nth_unstable_by(place as usize, f64::total_cmp).1;
    let interval = Interval { low: at(low), high: at(high) };
    (interval.low.is_finite() && interval.high.is_finite()).then_some(interval)
}

fn kendall(count: f64) -> f64 {
    count * (count - 1.0) * (2.0 * count + 5.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sen's own example (1968, section 6): seven values, slope 4.
    #[test]
    fn the_slope_is_the_median_of_all_slopes() {
        let pairs = [(1.0, 9.0), (2.0, 15.0), (3.0, 19.0), (4.0, 20.0), (10.0, 45.0), (12.0, 55.0), (18.0, 78.0)];
        let fit = TheilSen::fit(&pairs).unwrap();
        assert_eq!((fit.count, fit.used), (7, 7));
        assert!((fit.slope - 4.0).abs() < 1e-12, "{fit:?}");
        // Kendall's σ² = 7·6·19/18 = 44.33 puts the ends of the interval at indices 3 and 17 of the 21 sorted slopes.
        let mut slopes = slopes(&pairs);
        slopes.sort_unstable_by(f64::total_cmp);
        assert_eq!(fit.interval, Some(Interval { low: slopes[3], high: slopes[17] }));
        assert!((fit.intercept - 6.0).abs() < 1e-9, "{fit:?}");
    }

    #[test]
    fn a_failed_fit_gives_the_reason() {
        assert_eq!(TheilSen::fit(&[(1.0, 1.0)]), Err(NoFit::TooFew { count: 1, needed: 2 }));
        assert_eq!(TheilSen::fit(&[(1.0, 1.0), (1.0, 2.0)]), Err(NoFit::Constant { regressor: 0 }));
        let four: Vec<(f64, f64)> = (0..4).map(|i| (f64::from(i), f64::from(i * i))).collect();
        assert_eq!(TheilSen::fit(&four).unwrap().interval, None, "four values have six slopes, too few for 95 %");
    }

    #[test]
    fn many_values_are_thinned_evenly() {
        let pairs: Vec<(f64, f64)> =
            (0..50_000).rev().map(|i| (f64::from(i), 3.0 * f64::from(i) + f64::from(i % 7))).collect();
        let fit = TheilSen::fit(&pairs).unwrap();
        assert_eq!((fit.count, fit.used), (50_000, MOST_THEIL_SEN));
        assert!((fit.slope - 3.0).abs() < 1e-4, "{fit:?}");
        assert_eq!(TheilSen::fit(&pairs), Ok(fit), "the same every time");
    }

    proptest! {
        #[test]
        fn one_outlier_in_five_hardly_moves_the_line(
            noise in prop::collection::vec(-0.5..0.5, 25), wild in prop::collection::vec(-1e9..1e9, 5))
        {
            let mut pairs: Vec<(f64, f64)> =
                noise.iter().enumerate().map(|(x, noise)| (x as f64, 2.0 * x as f64 + noise)).collect();
            for (place, wild) in wild.into_iter().enumerate() {
                pairs[place * 5].1 = wild;
            }
            let fit = TheilSen::fit(&pairs).unwrap();
            prop_assert!((fit.slope - 2.0).abs() < 0.6, "{:?}", fit);
            prop_assert!(fit.interval.is_some_and(|interval| interval.contains(fit.slope)));
        }

        #[test]
        fn no_input_panics(pairs in prop::collection::vec((any::<f64>(), any::<f64>()), 0..30)) {
            if let Ok(fit) = TheilSen::fit(&pairs) {
                prop_assert!(fit.slope.is_finite() && fit.intercept.is_finite());
            }
        }
    }
}
