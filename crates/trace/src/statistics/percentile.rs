//! Percentiles of whole numbers (picoseconds): values go in; linear between order statistics, they come out as floats
//! that were rounded once.
//!
//! Type 7 of Hyndman and Fan, "Sample Quantiles in Statistical Packages" (The American Statistician 50, 1996), the
//! default of numpy and R.

/// Up to this many values a sort is quicker than selections.
const SORT_UP_TO: usize = 64;

/// A percentile (0 to 100) of sorted values. `None` for no values, or a percentile out of range.
///
/// ```
/// # use ergometer_trace::statistics::percentile;
/// assert_eq!(percentile(&[10, 20, 35], 75.0), Some(27.5));
/// ```
#[must_use]
pub fn percentile(sorted: &[i64], percent: f64) -> Option<f64> {
    let place = Place::of(percent, sorted.len())?;
    let low = *sorted.get(place.below)?;
    Some(between(low, *sorted.get(place.below + 1).unwrap_or(&low), place.part))
}

/// Percentiles (0 to 100, in any order) of values in any order, which are left in another one. In linear time: each
/// selection looks only at what the one before left above it. `None` for no values, or a percentile out of range.
///
/// ```
/// # use ergometer_trace::statistics::percentiles;
/// let [median, p90] = percentiles(&mut [30, 10, 20, 50, 40, 60], [50.0, 90.0]).unwrap();
/// assert_eq!((median, p90), (35.0, 55.0));
/// ```
#[must_use]
pub fn percentiles<const N: usize>(values: &mut [i64], percents: [f64; N]) -> Option<[f64; N]> {
    let mut found = [0.0; N];
    if values.len() <= SORT_UP_TO {
        values.sort_unstable();
        for (found, percent) in found.iter_mut().zip(percents) {
            *found = percentile(values, percent)?;
        }
        return Some(found);
    }
    let mut ascending: [usize; N] = std::array::from_fn(|index| index);
    ascending.sort_unstable_by(|&one, &other| percents[one].total_cmp(&percents[other]));
    let (count, mut rest, mut passed) = (values.len(), values, 0);
    for index in ascending {
        let place = Place::of(percents[index], count)?;
        let (_, &mut low, above) = rest.select_nth_unstable(place.below - passed);
        let high = if place.part > 0.0 { above.iter().copied().min().unwrap_or(low) } else { low };
        found[index] = between(low, high, place.part);
        // The value itself stays: the next percentile may lie in the same gap.
        rest = &mut rest[place.below - passed..];
        passed = place.below;
    }
    Some(found)
}

/// Between which two of the sorted values a percentile lies, and how far.
struct Place {
    below: usize,
    part: f64,
}

impl Place {
    fn of(percent: f64, count: usize) -> Option<Self> {
        let last = count.checked_sub(1)?;
        if !(0.0..=100.0).contains(&percent) {
            return None;
        }
        // Multiplied first: the place of a whole percentile that is a whole number is exact.
        let place = percent * last as f64 / 100.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the last place")]
        let below = (place.floor() as usize).min(last);
        Some(Self { below, part: place - below as f64 })
    }
}

/// The number that lies `part` of the way from one to the other. The whole numbers are added as such: a float has no
/// room for both the picoseconds of months and a half.
fn between(low: i64, high: i64, part: f64) -> f64 {
    if part == 0.5 {
        return (i128::from(low) + i128::from(high)) as f64 / 2.0;
    }
    let offset = (i128::from(high) - i128::from(low)) as f64 * part;
    #[expect(clippy::cast_possible_truncation, reason = "a difference of two i64 fits")]
    let whole = offset.floor() as i128;
    (i128::from(low) + whole) as f64 + offset.fract()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each is numpy's `percentile(values, q)`, computed by hand: place q/100 x (n - 1), linear between.
    #[test]
    fn percentiles_are_those_of_numpy() {
        let values = [15, 20, 35, 40, 50];
        for (percent, expected) in
            [(0.0, 15.0), (5.0, 16.0), (25.0, 20.0), (40.0, 29.0), (50.0, 35.0), (90.0, 46.0), (100.0, 50.0)]
        {
            assert_eq!(percentile(&values, percent), Some(expected), "p{percent}");
        }
        assert_eq!(percentile(&[], 50.0), None);
        assert_eq!(percentile(&[7], 99.0), Some(7.0));
        assert_eq!(percentile(&values, -1.0), None);
        assert_eq!(percentiles(&mut [1, 2], [50.0, f64::NAN]), None);
        assert_eq!(percentiles(&mut [0; 100], [101.0]), None);
        assert_eq!(percentiles(&mut [], [50.0]), None);
    }

    #[test]
    fn large_values_are_rounded_once() {
        let large = 1_i64 << 53;
        // In floats 2^53 + 1 is 2^53 already, and the middle of this and 2^53 + 3 too low.
        assert_eq!(percentile(&[large + 1, large + 3], 50.0), Some((large + 2) as f64));
        assert_eq!(percentile(&[-3, 4], 50.0), Some(0.5));
        assert_eq!(percentile(&[i64::MIN, i64::MAX], 50.0), Some(-0.5));
        assert_eq!(percentile(&[i64::MIN, i64::MAX], 100.0), Some(i64::MAX as f64));
    }

    proptest! {
        #[test]
        fn selecting_and_sorting_agree(
            mut values in prop::collection::vec(prop_oneof![any::<i64>(), 0_i64..20], 1..300),
            percents in prop::array::uniform4(prop_oneof![0.0..=100.0, Just(50.0), Just(90.0), 49.9..50.1]),
        ) {
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let found = percentiles(&mut values, percents).unwrap();
            for (found, percent) in found.into_iter().zip(percents) {
                prop_assert_eq!(Some(found), percentile(&sorted, percent));
                prop_assert!(found >= sorted[0] as f64 && found <= sorted[sorted.len() - 1] as f64);
            }
            values.sort_unstable();
            prop_assert_eq!(values, sorted, "nothing is lost");
        }
    }
}
