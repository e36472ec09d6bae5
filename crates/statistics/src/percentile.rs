//! Percentiles and the median: linear between order statistics.
//!
//! This is type 7 of Hyndman and Fan, "Sample Quantiles in Statistical Packages" (The American Statistician 50, 1996),
//! the default of numpy and R. Percentiles of integers (picoseconds) are exact up to one rounding to a float.

/// Up to this many values, one sort is faster than several selections.
const SORT_UP_TO: usize = 64;

/// A number that can be interpolated for percentiles.
pub trait Interpolate: Copy {
    /// The number that lies `part` (0 to 1) of the way from `low` to `high`.
    fn between(low: Self, high: Self, part: f64) -> f64;
}

impl Interpolate for f64 {
    fn between(low: Self, high: Self, part: f64) -> f64 {
        // This form is exact for equal neighbours, and a difference beyond f64::MAX does not overflow.
        if low == high { low } else { low * (1.0 - part) + high * part }.clamp(low, high)
    }
}

impl Interpolate for i64 {
    /// Adds integers, because a float cannot represent months in half picoseconds.
    fn between(low: Self, high: Self, part: f64) -> f64 {
        if part == 0.5 {
            return (i128::from(low) + i128::from(high)) as f64 / 2.0;
        }
        let offset = (i128::from(high) - i128::from(low)) as f64 * part;
        #[expect(clippy::cast_possible_truncation, reason = "a difference of two i64 fits")]
        let whole = offset.floor() as i128;
        (i128::from(low) + whole) as f64 + offset.fract()
    }
}

/// A percentile (0 to 100) of sorted values; floats must be finite. `None` without values, or if `percent` is out of
/// range.
///
/// ```
/// # use ergometer_statistics::percentile;
/// assert_eq!(percentile(&[10, 20, 35], 75.0), Some(27.5));
/// assert_eq!(percentile(&[0.5, 1.0], 50.0), Some(0.75));
/// ```
#[must_use]
pub fn percentile<T: Interpolate>(sorted: &[T], percent: f64) -> Option<f64> {
    percentile_by(sorted.len(), percent, |index| sorted.get(index).copied())
}

/// A percentile of `count` values that `at` returns by their index in sorted order.
pub(crate) fn percentile_by<T: Interpolate>(
    count: usize,
    percent: f64,
    at: impl Fn(usize) -> Option<T>,
) -> Option<f64> {
    let position = Position::new(percent, count)?;
    let low = at(position.below)?;
    let high = if position.below + 1 < count { at(position.below + 1)? } else { low };
    Some(T::between(low, high, position.part))
}

/// The median of finite values in any order; halfway between the middle two if their number is even. `None` without
/// values.
///
/// ```
/// # use ergometer_statistics::median;
/// assert_eq!(median([5.0, 1.0, 2.0, 4.0]), Some(3.0));
/// ```
#[must_use]
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    median_in_place(&mut values.into_iter().collect::<Vec<f64>>())
}

/// The same median in linear time and without allocating. It reorders `values`.
pub(crate) fn median_in_place(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let is_even = values.len().is_multiple_of(2);
    let (below, &mut high, _) = values.select_nth_unstable_by(values.len() / 2, f64::total_cmp);
    let low = below.iter().copied().max_by(f64::total_cmp).filter(|_| is_even);
    Some(low.map_or(high, |low| low.midpoint(high)))
}

/// Several percentiles (0 to 100, in any order) of unsorted integers, in linear time. It reorders `values`. `None`
/// without values, or if a percentile is out of range.
///
/// ```
/// # use ergometer_statistics::percentiles;
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
        let position = Position::new(percents[index], count)?;
        let (_, &mut low, above) = rest.select_nth_unstable(position.below - passed);
        let high = if position.part > 0.0 { above.iter().copied().min().unwrap_or(low) } else { low };
        found[index] = i64::between(low, high, position.part);
        // Each selection searches only the values above the previous one. The value itself stays, because the next
        // percentile may lie between the same two values.
        rest = &mut rest[position.below - passed..];
        passed = position.below;
    }
    Some(found)
}

/// The position of a percentile among sorted values: `part` of the way from the value at `below` to the next one.
struct Position {
    below: usize,
    part: f64,
}

impl Position {
    fn new(percent: f64, count: usize) -> Option<Self> {
        let last = count.checked_sub(1)?;
        if !(0.0..=100.0).contains(&percent) {
            return None;
        }
        // Multiplying first keeps integer positions exact.
        let position = percent * last as f64 / 100.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the last index")]
        let below = (position.floor() as usize).min(last);
        Some(Self { below, part: position - below as f64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each value is numpy's `percentile(values, q)`, computed by hand: position q/100 x (n - 1), linear between
    /// values.
    #[test]
    fn percentiles_of_floats_match_numpy() {
        let values = [15.0, 20.0, 35.0, 40.0, 50.0];
        for (percent, expected) in
            [(0.0, 15.0), (5.0, 16.0), (25.0, 20.0), (40.0, 29.0), (50.0, 35.0), (90.0, 46.0), (100.0, 50.0)]
        {
            let found = percentile(&values, percent).unwrap();
            assert!((found - expected).abs() < 1e-12, "p{percent}: {found}, not {expected}");
        }
        assert_eq!(percentile::<f64>(&[], 50.0), None);
        assert_eq!(percentile(&[7.0], 99.0), Some(7.0));
        assert_eq!(percentile(&values, -1.0), None);
        assert_eq!(percentile(&values, f64::NAN), None);
    }

    /// Each is numpy's `percentile(values, q)`, computed by hand: position q/100 x (n - 1), linear between values.
    #[test]
    fn percentiles_of_integers_match_numpy() {
        let values = [15, 20, 35, 40, 50];
        for (percent, expected) in
            [(0.0, 15.0), (5.0, 16.0), (25.0, 20.0), (40.0, 29.0), (50.0, 35.0), (90.0, 46.0), (100.0, 50.0)]
        {
            assert_eq!(percentile(&values, percent), Some(expected), "p{percent}");
        }
        assert_eq!(percentile::<i64>(&[], 50.0), None);
        assert_eq!(percentile(&[7], 99.0), Some(7.0));
        assert_eq!(percentile(&values, -1.0), None);
        assert_eq!(percentiles(&mut [1, 2], [50.0, f64::NAN]), None);
        assert_eq!(percentiles(&mut [0; 100], [101.0]), None);
        assert_eq!(percentiles(&mut [], [50.0]), None);
    }

    #[test]
    fn large_values_are_rounded_once() {
        let large = 1_i64 << 53;
        // As a float 2^53 + 1 is rounded to 2^53, and the mean with 2^53 + 3 would be too low.
        assert_eq!(percentile(&[large + 1, large + 3], 50.0), Some((large + 2) as f64));
        assert_eq!(percentile(&[-3, 4], 50.0), Some(0.5));
        assert_eq!(percentile(&[i64::MIN, i64::MAX], 50.0), Some(-0.5));
        assert_eq!(percentile(&[i64::MIN, i64::MAX], 100.0), Some(i64::MAX as f64));
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 9.0]), Some(3.0));
        assert_eq!((median([]), median([7.0])), (None, Some(7.0)));
        assert_eq!(median([f64::MAX, f64::MAX]), Some(f64::MAX));
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
            prop_assert_eq!(values, sorted, "values are only reordered");
        }
    }
}
