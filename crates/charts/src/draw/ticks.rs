//! Chooses tick values at steps of 1, 2 or 5 times a power of ten.
//!
//! Ticks are between the ends of the axis, sorted and distinct.

use super::number::{exponent, whole};

/// The step of 1, 2 or 5 times a power of ten that gives about this many ticks.
pub(super) fn step(low: f64, high: f64, about: f64) -> f64 {
    let raw = (high - low) / about.max(1.0);
    let power = exponent(raw);
    let rest = raw / 10f64.powi(power);
    // The limits are the geometric means of 1, 2, 5 and 10.
    let digit = match rest {
        rest if rest < 2f64.sqrt() => 1.0,
        rest if rest < 10f64.sqrt() => 2.0,
        rest if rest < 50f64.sqrt() => 5.0,
        _ => 10.0,
    };
    digit * 10f64.powi(power)
}

/// A multiple of a step. For steps below one it divides by a whole number, so that 3 × 0.1 is exactly 0.3.
fn multiple(times: f64, step: f64) -> f64 {
    let inverse = (1.0 / step).round();
    if step < 1.0 && inverse < 1e15 { times / inverse } else { times * step }
}

/// The multiples of a step between two ends.
pub(super) fn multiples(low: f64, high: f64, step: f64) -> Vec<f64> {
    // A tick within the rounding error of an end counts as inside.
    let slack = 1e-9;
    let first = (low / step - slack).ceil();
    let last = (high / step + slack).floor();
    if !(first.is_finite() && last.is_finite()) || first.abs().max(last.abs()) > 1e15 {
        return Vec::new();
    }
    let count = whole(last - first + 1.0).min(200);
    let mut out: Vec<f64> =
        (0..count).map(|number| multiple(first + number as f64, step).clamp(low, high) + 0.0).collect();
    out.dedup();
    out
}

/// Ticks of a logarithmic axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct LogTicks {
    /// Ticks with a label.
    pub(super) major: Vec<f64>,
    /// Ticks without a label.
    pub(super) minor: Vec<f64>,
}

/// Ticks at powers of ten; at 1, 2 and 5 times powers of ten if those are too few; or at linear steps on a short axis.
pub(super) fn logarithmic(low: f64, high: f64, about: f64) -> LogTicks {
    let (first, last) = (exponent(low), exponent(high));
    let inside = |value: &f64| *value >= low * (1.0 - 1e-12) && *value <= high * (1.0 + 1e-12);
    let digits = |digits: &[f64]| -> Vec<f64> {
        (first..=last)
            .flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)))
            .filter(inside)
            .map(|value| value.clamp(low, high))
            .collect()
    };
    let decades = digits(&[1.0]);
    let every = whole((decades.len() as f64 / about.max(1.0)).ceil()).max(1);
    let few = digits(&[1.0, 2.0, 5.0]);
    let major: Vec<f64> = if every > 1 {
        decades
            .into_iter()
            .filter(|value| exponent(*value).rem_euclid(i32::try_from(every).unwrap_or(1)) == 0)
            .collect()
    } else if decades.len() >= 4 || (decades.len() >= 2 && few.len() as f64 > about * 1.5) {
        decades
    } else if few.len() >= 3 {
        few
    } else {
        multiples(low, high, step(low, high, about)).into_iter().filter(|value| *value > 0.0).collect()
    };
    let minor = if last - first <= 7 { digits(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]) } else { digits(&[1.0]) };
    let minor = minor.into_iter().filter(|value| !major.contains(value)).collect();
    LogTicks { major, minor }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::draw::number::Style;

    #[test]
    fn steps_are_1_2_or_5() {
        assert_eq!(step(0.0, 10.0, 5.0), 2.0);
        assert_eq!(step(0.0, 0.73, 6.0), 0.1);
        assert_eq!(multiples(0.0, 0.5, 0.1), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]);
        assert_eq!(multiples(-3.0, 3.0, 2.0), [-2.0, 0.0, 2.0]);
    }

    #[test]
    fn logarithmic_ticks_suit_the_length_of_the_axis() {
        assert_eq!(logarithmic(0.9, 1100.0, 6.0).major, [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(logarithmic(0.9, 30.0, 6.0).major, [1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(logarithmic(31.0, 39.0, 5.0).major, [32.0, 34.0, 36.0, 38.0]);
        assert_eq!(logarithmic(0.9, 11.0, 6.0).minor, [0.9, 3.0, 4.0, 6.0, 7.0, 8.0, 9.0]);
        let wide = logarithmic(1e-300, 1e300, 6.0);
        assert!((3..=8).contains(&wide.major.len()), "{:?}", wide.major);
    }

    fn ends() -> impl Strategy<Value = (f64, f64)> {
        // A ruler makes ranges at least 1e-11 of the larger end wide.
        (-1e300..1e300f64, -300i32..300, 1e-10..4.0f64).prop_map(|(middle, power, width)| {
            let middle = middle / 1e300 * 10f64.powi(power);
            let half = (middle.abs() * width).max(1e-300);
            (middle - half, middle + half)
        })
    }

    proptest! {
        #[test]
        fn ticks_are_inside_in_order_and_read_differently((low, high) in ends(), about in 2.0..12.0f64) {
            let step = step(low, high, about);
            let ticks = multiples(low, high, step);
            prop_assert!(!ticks.is_empty());
            prop_assert!(ticks.len() <= 40);
            prop_assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(ticks.iter().all(|tick| (low..=high).contains(tick)));
            let largest = ticks.iter().fold(0f64, |most, tick| most.max(tick.abs()));
            let style = Style::new(step, largest);
            let mut texts: Vec<_> = ticks.iter().map(|tick| style.write(*tick)).collect();
            texts.sort_unstable();
            texts.dedup();
            prop_assert_eq!(texts.len(), ticks.len());
        }

        #[test]
        fn logarithmic_ticks_are_inside_and_in_order(low in -300.0..299.0f64, wide in 1e-6..600.0f64, about in 2.0..12.0f64) {
            let (low, high) = (10f64.powf(low), 10f64.powf((low + wide).min(300.0)));
            let ticks = logarithmic(low, high, about);
            for ticks in [&ticks.major, &ticks.minor] {
                prop_assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]));
                prop_assert!(ticks.iter().all(|tick| (low..=high).contains(tick)));
            }
            prop_assert!(!ticks.major.is_empty());
            prop_assert!(ticks.major.len() <= 40);
        }
    }
}
