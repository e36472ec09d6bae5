//! Fits a plane `y = a + b u + c v` by least squares, with 95 % intervals.
//!
//! The second regressor is first made orthogonal to the first (Gram and Schmidt), on differences from the means, which
//! avoids cancellation. Intervals are by Student's t with n - 3 degrees of freedom. Collinear regressors have no plane:
//! the variances of the coefficients grow by the variance inflation factor 1 / (1 - r²), and nonlinearity in the data
//! is amplified with them (D. A. Belsley, E. Kuh, R. E. Welsch, "Regression Diagnostics", 1980, chapter 3).

use serde::Serialize;

use super::fit::{Coefficient, NoFit, Noise, explained, is_constant, mean};

/// The variance inflation from which on there is no plane: intervals are ten times as wide (a correlation of 0.995).
pub const MOST_VARIANCE_INFLATION: f64 = 100.0;

/// `y = constant + first u + second v`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Plane {
    /// The number of triples.
    pub count: usize,
    /// The value at u = v = 0.
    pub constant: Coefficient,
    /// The increase of y per unit of u at constant v.
    pub first: Coefficient,
    /// The increase of y per unit of v at constant u.
    pub second: Coefficient,
    /// The share of the squares of y about its mean that the plane explains; 1 if y is constant.
    pub r2: f64,
    /// The standard deviation of the residuals, over n - 3; absent with three triples.
    pub residual_std: Option<f64>,
    /// The factor by which the correlation of u and v increases the variances of their coefficients; 1 if they are
    /// uncorrelated.
    pub variance_inflation: f64,
}

impl Plane {
    /// Fits the finite triples (u, v, y). Triples with NaN or infinities count as absent.
    ///
    /// # Errors
    /// Fewer than three triples, constant u or v, collinear u and v (from [`MOST_VARIANCE_INFLATION`] on), or float
    /// overflow.
    ///
    /// ```
    /// # use ergometer_statistics::Plane;
    /// let triples = [(1.0, 1.0, 6.0), (2.0, 1.0, 8.0), (1.0, 2.0, 9.0), (2.0, 2.0, 11.0)];
    /// let plane = Plane::fit(&triples).unwrap();
    /// assert!((plane.first.value - 2.0).abs() < 1e-12 && (plane.second.value - 3.0).abs() < 1e-12);
    /// assert!((plane.constant.value - 1.0).abs() < 1e-12);
    /// ```
    pub fn fit(triples: &[(f64, f64, f64)]) -> Result<Self, NoFit> {
        let is_finite = |(u, v, y): &(f64, f64, f64)| u.is_finite() && v.is_finite() && y.is_finite();
        let triples: Vec<(f64, f64, f64)> = triples.iter().copied().filter(is_finite).collect();
        let count = triples.len();
        if count < 3 {
            return Err(NoFit::TooFew { count, needed: 3 });
        }
        let (us, vs, ys) = (triples.iter().map(|t| t.0), triples.iter().map(|t| t.1), triples.iter().map(|t| t.2));
        for (regressor, is_constant) in [is_constant(us.clone()), is_constant(vs.clone())].into_iter().enumerate() {
            if is_constant {
                return Err(NoFit::Constant { regressor });
            }
        }
        let is_level = is_constant(ys.clone());
        let (mean_u, mean_v, mean_y) = (mean(us), mean(vs), mean(ys));
        let centred = triples.iter().map(|(u, v, y)| (u - mean_u, v - mean_v, if is_level { 0.0 } else { y - mean_y }));
        let sum = |term: &dyn Fn((f64, f64, f64)) -> f64| centred.clone().map(term).sum::<f64>();
        let (uu, vv) = (sum(&|(u, _, _)| u * u), sum(&|(_, v, _)| v * v));
        let (uy, yy) = (sum(&|(u, _, y)| u * y), sum(&|(_, _, y)| y * y));
        // The slope of v over u, and the part of v that is orthogonal to u.
        let shared = sum(&|(u, v, _)| u * v) / uu;
        let own = |u: f64, v: f64| v - shared * u;
        let own_squares = sum(&|(u, v, _)| own(u, v).powi(2));
        let inflation = vv / own_squares;
        if ![uu, vv, uy, yy, shared].iter().all(|number| number.is_finite()) || uu == 0.0 || vv == 0.0 {
            return Err(NoFit::OutOfRange);
        }
        if inflation.is_nan() || inflation >= MOST_VARIANCE_INFLATION {
            // Beyond 1e12 it reflects rounding more than the data.
            let variance_inflation = Some(inflation).filter(|&inflation| inflation < 1e12);
            return Err(NoFit::Collinear { variance_inflation });
        }
        let second = sum(&|(u, v, y)| own(u, v) * y) / own_squares;
        let along = uy / uu;
        let first = along - shared * second;
        let mean_own = own(mean_u, mean_v);
        let constant = mean_y - along * mean_u - second * mean_own;
        let residuals = sum(&|(u, v, y)| (y - along * u - second * own(u, v)).powi(2));
        if ![second, first, constant, residuals].iter().all(|number| number.is_finite()) {
            return Err(NoFit::OutOfRange);
        }
        let noise = Noise::new(residuals, count, 3);
        let constant_variance = 1.0 / count as f64 + mean_u / uu * mean_u + mean_own / own_squares * mean_own;
        Ok(Self {
            count,
            constant: noise.coefficient(constant, constant_variance),
            first: noise.coefficient(first, 1.0 / uu + shared / own_squares * shared),
            second: noise.coefficient(second, 1.0 / own_squares),
            r2: explained(residuals, yy),
            residual_std: noise.std,
            variance_inflation: inflation.max(1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_failed_fit_gives_the_reason() {
        let of =
            |v: &dyn Fn(f64) -> f64| Plane::fit(&(0..20).map(f64::from).map(|u| (u, v(u), u * u)).collect::<Vec<_>>());
        assert_eq!(Plane::fit(&[(1.0, 2.0, 3.0); 2]), Err(NoFit::TooFew { count: 2, needed: 3 }));
        assert_eq!(of(&|_| 0.1), Err(NoFit::Constant { regressor: 1 }));
        let flipped: Vec<(f64, f64, f64)> = (0..9).map(|i| (0.1, f64::from(i), 2.0)).collect();
        assert_eq!(Plane::fit(&flipped), Err(NoFit::Constant { regressor: 0 }));
        assert_eq!(of(&|u| 3.0 * u + 0.1), Err(NoFit::Collinear { variance_inflation: None }));
        let Err(NoFit::Collinear { variance_inflation: Some(inflation) }) = of(&|u| u + 0.5 * (u % 2.0)) else {
            panic!("a correlation of 0.999");
        };
        assert!(inflation > 100.0, "{inflation}");
        assert!(of(&|u| u + 2.0 * (u % 2.0)).is_ok());
        assert_eq!(Plane::fit(&[(1e200, 0.0, 1.0), (-1e200, 1.0, 2.0), (0.0, 2.0, 1.0)]), Err(NoFit::OutOfRange));
    }

    #[test]
    fn intervals_contain_the_truth_19_times_in_20() {
        let mut held = [0; 3];
        for seed in 0..1000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let triples: Vec<(f64, f64, f64)> = (0..20)
                .map(|_| {
                    let u = random.f64();
                    let v = u + random.f64();
                    let noise = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
                    (u, v, 5.0 + 2.0 * u - 3.0 * v + noise)
                })
                .collect();
            let plane = Plane::fit(&triples).unwrap();
            for (place, (found, truth)) in
                [(plane.constant, 5.0), (plane.first, 2.0), (plane.second, -3.0)].into_iter().enumerate()
            {
                held[place] += usize::from(found.interval.unwrap().contains(truth));
            }
        }
        assert!(held.iter().all(|held| (930..=970).contains(held)), "{held:?}");
    }

    proptest! {
        #[test]
        fn the_order_of_the_regressors_does_not_matter(
            triples in prop::collection::vec((0_u32..500, 0_u32..500, -100.0..100.0), 3..50))
        {
            let one: Vec<(f64, f64, f64)> = triples.iter().map(|&(u, v, y)| (f64::from(u), f64::from(v), y)).collect();
            let other: Vec<(f64, f64, f64)> = one.iter().map(|&(u, v, y)| (v, u, y)).collect();
            if let (Ok(one), Ok(other)) = (Plane::fit(&one), Plane::fit(&other)) {
                let alike = |a: f64, b: f64| (a - b).abs() <= 1e-7 * a.abs().max(b.abs()).max(1e-3);
                prop_assert!(alike(one.first.value, other.second.value) && alike(one.second.value, other.first.value));
                prop_assert!(alike(one.constant.value, other.constant.value));
                prop_assert!((one.variance_inflation / other.variance_inflation - 1.0).abs() < 1e-6);
                if let (Some(a), Some(b)) = (one.first.standard_error, other.second.standard_error) {
                    prop_assert!(alike(a, b), "{} {}", a, b);
                }
            }
        }

        #[test]
        fn no_input_panics(triples in prop::collection::vec((any::<f64>(), any::<f64>(), any::<f64>()), 0..12)) {
            if let Ok(plane) = Plane::fit(&triples) {
                prop_assert!(plane.first.value.is_finite() && plane.constant.value.is_finite());
            }
        }
    }
}
