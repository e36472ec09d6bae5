//! Probabilities of the standard normal distribution outside and inside `±z`, with a small relative error.
//!
//! References are to Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964).

use std::f64::consts::TAU;

/// The probabilities of a symmetric distribution outside and inside `±t`, which sum to one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tails {
    pub(crate) outside: f64,
    pub(crate) inside: f64,
}

impl Tails {
    pub(crate) fn from_outside(outside: f64) -> Self {
        let outside = outside.clamp(0.0, 1.0);
        Self { outside, inside: 1.0 - outside }
    }

    pub(crate) fn from_inside(inside: f64) -> Self {
        let inside = inside.clamp(0.0, 1.0);
        Self { outside: 1.0 - inside, inside }
    }
}

/// The density at `z`.
pub(crate) fn density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / TAU.sqrt()
}

/// The two-sided p value of a value of the standard normal distribution, P(|Z| ≥ |z|). `None` for NaN.
///
/// ```
/// # use ergometer_statistics::normal_p_value;
/// assert!((normal_p_value(1.959_963_984_540_054).unwrap() - 0.05).abs() < 1e-12);
/// ```
#[must_use]
pub fn normal_p_value(z: f64) -> Option<f64> {
    (!z.is_nan()).then(|| tails(z.abs()).outside)
}

/// The tails at `z`, which is not negative.
pub(crate) fn tails(z: f64) -> Tails {
    // The series has few terms near zero, the continued fraction few far from it.
    if z < 2.5 { Tails::from_inside(2.0 * density(z) * series(z)) } else { Tails::from_outside(2.0 * mills(z)) }
}

/// The sum of z^(2n+1) / (1·3·5·…·(2n+1)) (26.2.11).
fn series(z: f64) -> f64 {
    let (mut term, mut sum, mut odd) = (z, z, 1.0);
    while term > sum * f64::EPSILON / 4.0 {
        odd += 2.0;
        term *= z * z / odd;
        sum += term;
    }
    sum
}

/// The upper tail: the density times 1/(z+ 1/(z+ 2/(z+ 3/(z+ …)))) (26.2.14), evaluated from the innermost term. At
/// 2.5, the smallest `z` it is used for, 120 terms exceed the precision of a float; larger `z` need fewer.
fn mills(z: f64) -> f64 {
    let fraction = (1..=120).rev().fold(z, |rest, term| z + f64::from(term) / rest);
    density(z) / fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values have 15 digits, computed with 40.
    #[test]
    fn the_tails_match_the_tables() {
        for (z, outside) in [
            (0.5, 0.617_075_077_451_974),
            (2.0, 0.045_500_263_896_358_4),
            (5.0, 5.733_031_437_583_88e-7),
            (10.0, 1.523_970_604_832_11e-23),
        ] {
            let found = tails(z);
            assert!((found.outside / outside - 1.0).abs() < 1e-13, "{z}: {found:?}");
            assert_eq!(found.inside, 1.0 - found.outside);
        }
        assert_eq!(tails(0.0).inside, 0.0);
        assert_eq!(tails(f64::INFINITY).outside, 0.0);
        assert!((tails(1e-9).inside / (2e-9 * density(0.0)) - 1.0).abs() < 1e-14);
    }

    #[test]
    fn series_and_fraction_agree_where_they_meet() {
        let (low, high) = (tails(2.5 - 1e-12), tails(2.5));
        assert!((low.outside / high.outside - 1.0).abs() < 1e-11, "{low:?} {high:?}");
    }
}
