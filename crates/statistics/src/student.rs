//! Probabilities and quantiles of Student's t distribution.
//!
//! Degrees of freedom are any positive number, as in B. L. Welch, "The generalization of Student's problem when several
//! different population variances are involved" (1947); for infinity it is the normal distribution. Computed by the
//! regularised incomplete beta function: `P(|T| > t) = I_x(ν/2, 1/2)`, `x = ν/(ν + t²)` (Abramowitz and Stegun 26.7.1).

use std::f64::consts::PI;

use super::normal::{self, Tails};

/// From these degrees of freedom on, t is converted to a normal value, because the fraction loses precision as x nears
/// 1.
const CONVERTED_FROM: f64 = 1e5;

/// From these degrees of freedom on, the distribution is normal to the precision of a float.
const NORMAL_FROM: f64 = 1e30;

/// The search range of quantiles: the logarithms of the smallest and the largest float.
const LOGARITHMS: (f64, f64) = (-745.0, 709.7);

/// P(T ≤ t). `None` if `t` is NaN or `freedom` is not positive.
#[must_use]
pub fn t_cumulative(t: f64, freedom: f64) -> Option<f64> {
    let tails = checked_tails(t, freedom)?;
    Some(if t < 0.0 { tails.outside / 2.0 } else { 0.5 + tails.inside / 2.0 })
}

/// The two-sided p value, P(|T| ≥ |t|). `None` if `t` is NaN or `freedom` is not positive.
///
/// ```
/// # use ergometer_statistics::t_p_value;
/// assert!((t_p_value(2.228_138_851_986_27, 10.0).unwrap() - 0.05).abs() < 1e-12);
/// ```
#[must_use]
pub fn t_p_value(t: f64, freedom: f64) -> Option<f64> {
    checked_tails(t, freedom).map(|tails| tails.outside)
}

/// The `t` with P(T ≤ t) = `p`. `None` if `p` is not between 0 and 1 (both excluded), if `freedom` is not positive, or
/// if `t` overflows a float.
///
/// ```
/// # use ergometer_statistics::t_quantile;
/// assert!((t_quantile(0.975, 10.0).unwrap() - 2.228_138_851_986_27).abs() < 1e-12);
/// ```
#[must_use]
pub fn t_quantile(p: f64, freedom: f64) -> Option<f64> {
    if !(p > 0.0 && p < 1.0 && freedom > 0.0) {
        return None;
    }
    if p == 0.5 {
        return Some(0.0);
    }
    // 1 - p and 2 p - 1 are exact if p is above one half.
    let (outside, inside) = if p < 0.5 { (2.0 * p, 1.0 - 2.0 * p) } else { (2.0 * (1.0 - p), 2.0 * p - 1.0) };
    let t = solve(Tails { outside, inside }, freedom)?;
    Some(if p < 0.5 { -t } else { t })
}

/// The positive `t` with these tails. Newton's method on the logarithm of the smaller tail over the logarithm of `t`,
/// which is nearly linear, with bisection if a step leaves the interval that contains the root.
fn solve(wanted: Tails, freedom: f64) -> Option<f64> {
    let (mut low, mut high) = LOGARITHMS;
    let mut logarithm = 0.0_f64;
    for _ in 0..200 {
        let t = logarithm.exp();
        let found = tails(t, freedom);
        let (error, probability) = if wanted.outside < wanted.inside {
            (wanted.outside.ln() - found.outside.ln(), found.outside)
        } else {
            (found.inside.ln() - wanted.inside.ln(), found.inside)
        };
        if error > 0.0 {
            high = logarithm;
        } else {
            low = logarithm;
        }
        let newton = logarithm - error * probability / (2.0 * t * density(t, freedom));
        let next = if (low..=high).contains(&newton) { newton } else { low.midpoint(high) };
        let step = (next - logarithm).abs();
        logarithm = next;
        if step <= 4.0 * f64::EPSILON * logarithm.abs().max(0.25) {
            break;
        }
    }
    (logarithm < LOGARITHMS.1 - 0.1).then(|| logarithm.exp())
}

fn checked_tails(t: f64, freedom: f64) -> Option<Tails> {
    (!t.is_nan() && freedom > 0.0).then(|| tails(t.abs(), freedom))
}

/// The tails at `t`, which is not negative.
fn tails(t: f64, freedom: f64) -> Tails {
    if freedom >= CONVERTED_FROM {
        return normal::tails(to_normal(t, freedom));
    }
    if t.is_infinite() {
        return Tails::from_outside(0.0);
    }
    // With r = t/√ν, x = 1/(1 + r²), computed by the hypotenuse of 1 and r, because r² may overflow.
    let scaled = (t / freedom.sqrt()).min(f64::MAX / 2.0);
    let hypotenuse = scaled.hypot(1.0);
    let (x, rest) = (hypotenuse.powi(-2), (scaled / hypotenuse).powi(2));
    let a = freedom / 2.0;
    // x^a (1 - x)^½ / B(a, ½)
    let front = (-freedom * logarithm_of_hypotenuse(scaled)).exp() * (scaled / hypotenuse) * gamma_ratio(a) / PI.sqrt();
    if x < (a + 1.0) / (a + 2.5) {
        Tails::from_outside(front / a * beta_fraction(a, 0.5, x))
    } else {
        Tails::from_inside(front / 0.5 * beta_fraction(0.5, a, rest))
    }
}

/// The normal value with the same tails as `t` for many degrees of freedom, by the first terms of G. W. Hill,
/// "Algorithm 395: Student's t-distribution" (1970). The next one is below 1e-20.
fn to_normal(t: f64, freedom: f64) -> f64 {
    if freedom >= NORMAL_FROM {
        return t;
    }
    let a = freedom - 0.5;
    let y = a * (t * t / freedom).ln_1p();
    y.sqrt() * (1.0 + (y + 3.0) / (48.0 * a * a))
}

/// The density at `t`.
fn density(t: f64, freedom: f64) -> f64 {
    if freedom >= NORMAL_FROM {
        return normal::density(t);
    }
    let power = -(freedom + 1.0) * logarithm_of_hypotenuse(t / freedom.sqrt());
    gamma_ratio(freedom / 2.0) / (PI * freedom).sqrt() * power.exp()
}

/// ln √(1 + r²), exact for small `r` and without overflow for large `r`.
fn logarithm_of_hypotenuse(r: f64) -> f64 {
    if r < 1.0 { (r * r).ln_1p() / 2.0 } else { r.hypot(1.0).ln() }
}

/// Γ(a + ½) / Γ(a). The logarithms of the two would cancel for large `a`; the expansion of their difference in 1/a
/// (from Abramowitz and Stegun 6.1.40) has an error of 4e-15 at 20, and below 20 the recurrence of Γ leads there.
fn gamma_ratio(a: f64) -> f64 {
    let (mut shifted, mut factor) = (a, 1.0);
    while shifted < 20.0 {
        factor *= shifted / (shifted + 0.5);
        shifted += 1.0;
    }
    let inverse = 1.0 / shifted;
    let square = inverse * inverse;
    let series = -1.0 / 8.0 + square * (1.0 / 192.0 + square * (-1.0 / 640.0 + square * (17.0 / 14336.0)));
    factor * shifted.sqrt() * (inverse * series).exp()
}

/// The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), by W. J. Lentz's method
/// ("Generating Bessel functions in Mie scattering calculations using continued fractions", 1976) in the form of
/// Thompson and Barnett (1986). The number of terms grows with the root of the larger parameter.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut fraction, mut forward, mut backward) = (1.0, 1.0, 0.0);
    for pair in 0..200_000 {
        let m = f64::from(pair);
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let even = (m + 1.0) * (b - m - 1.0) * x / ((a + 2.0 * m + 1.0) * (a + 2.0 * m + 2.0));
        let mut change = 1.0;
        for term in [odd, even] {
            backward = 1.0 / away_from_zero(1.0 + term * backward);
            forward = away_from_zero(1.0 + term / forward);
            change *= forward * backward;
        }
        fraction *= change;
        if (change - 1.0).abs() <= f64::EPSILON {
            break;
        }
    }
    1.0 / fraction
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Degrees of freedom, and the quantiles of 60, 90, 95, 97.5, 99.5 and 99.9999 %, to 15 digits, computed with 40.
    const QUANTILES: &str = "\
        0.5 0.397975426784791 10.2703244102345 41.1360000928783 164.557673480489 4113.96458880418 102849115631.634
        1 0.324919696232906 3.07768353717525 6.31375151467504 12.7062047361747 63.6567411628716 318309.886182743
        2 0.288675134594813 1.88561808316413 2.91998558035373 4.30265272974946 9.92484320091829 707.105720525934
        3.7 0.27216446429207 1.55756583886151 2.1824938039146 2.86752070719119 4.86925225322783 51.6400502744427
        10 0.26018482949208 1.37218364111034 1.81246112281168 2.22813885198627 3.16927267261695 9.75199549094058
        30 0.255605364951913 1.3104150253914 1.69726088659396 2.04227245630124 2.74999565356723 5.87111712041888
        1000 0.253414515839499 1.28239872146092 1.64637881728546 1.96233908082641 2.58075469806595 4.78160862045835
        50000 0.253348451180696 1.2815684974683 1.64488410290251 1.96001143109368 2.57592763803488 4.75398515285194
        100000 0.25334777715718 1.28156003144936 1.64486886478497 1.95998770753461 2.57587846990838 4.75370471639129
        10000000 0.253347109876003 1.28155165020308 1.6448537793284 1.95996422176721 2.57582979520375 4.75342711275558
        1000000000 0.253347103203202 1.28155156639119 1.64485362847524 1.95996398691233 2.57582930846545 4.75342433686221
        inf 0.2533471031358 1.2815515655446 1.64485362695147 1.95996398454005 2.5758293035489 4.7534243088229";

    #[test]
    fn quantiles_match_the_tables() {
        for line in QUANTILES.lines() {
            let numbers: Vec<f64> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
            assert_eq!(numbers.len(), 7);
            for (p, expected) in [0.6, 0.9, 0.95, 0.975, 0.995, 0.999_999].into_iter().zip(&numbers[1..]) {
                let found = t_quantile(p, numbers[0]).unwrap();
                // As a float, 0.999999 is off by 5e-11 of the tail, which is squared for half a degree of freedom.
                let limit = if p > 0.999 { 2e-10 } else { 1e-12 };
                assert!((found / expected - 1.0).abs() < limit, "p {p}, freedom {}: {found}", numbers[0]);
                assert!((t_quantile(1.0 - p, numbers[0]).unwrap() / -expected - 1.0).abs() < 2e-10);
            }
        }
    }

    #[test]
    fn p_values_match_the_tables() {
        for (t, freedom, expected) in [
            (1.0, 1.0, 0.5),
            (2.5, 3.7, 0.071_822_022_911_826_8),
            (-0.1, 10.0, 0.922_320_718_564_408),
            (6.0, 30.0, 1.394_276_876_720_47e-6),
            (1e-5, 5.0, 0.999_992_407_866_204),
            (40.0, 1000.0, 1.047_885_215_517_34e-209),
        ] {
            let found = t_p_value(t, freedom).unwrap();
            assert!((found / expected - 1.0).abs() < 1e-11, "t {t}, freedom {freedom}: {found}, not {expected}");
        }
    }

    #[test]
    fn invalid_arguments_have_no_result() {
        for p in [f64::NAN, 0.0, 1.0, -0.1, 1.1, f64::INFINITY] {
            assert_eq!(t_quantile(p, 5.0), None, "{p}");
        }
        for freedom in [f64::NAN, 0.0, -1.0, f64::NEG_INFINITY] {
            assert_eq!((t_quantile(0.9, freedom), t_p_value(1.0, freedom)), (None, None), "{freedom}");
        }
        assert_eq!((t_p_value(f64::NAN, 5.0), t_cumulative(f64::NAN, 5.0)), (None, None));
        assert_eq!((t_p_value(f64::NEG_INFINITY, 5.0), t_cumulative(f64::NEG_INFINITY, 5.0)), (Some(0.0), Some(0.0)));
        assert_eq!((t_cumulative(f64::INFINITY, 0.1), t_p_value(0.0, 3.0)), (Some(1.0), Some(1.0)));
        assert_eq!((t_quantile(0.5, 3.0), t_quantile(0.999, 0.005)), (Some(0.0), None));
    }

    proptest! {
        #[test]
        fn the_quantile_inverts_the_cumulative_probability(p in 1e-9..0.999_999, freedom in (-1.0..5.0).prop_map(|power| 10_f64.powf(power))) {
            let t = t_quantile(p, freedom).unwrap();
            let back = t_cumulative(t, freedom).unwrap();
            prop_assert!((back / p - 1.0).abs() < 1e-10, "p {p}, freedom {freedom}: t {t}, back {back}");
        }

        #[test]
        fn no_input_panics(t in any::<f64>(), freedom in any::<f64>()) {
            for found in [t_p_value(t, freedom), t_cumulative(t, freedom)].into_iter().flatten() {
                prop_assert!((0.0..=1.0).contains(&found), "{found}");
            }
            if let Some(found) = t_quantile(t.fract().abs(), freedom) {
                prop_assert!(found.is_finite());
            }
        }
    }
}
