//! Computes the time-weighted average, extremes and median of a column over a window.
//!
//! A value is valid from its time until the next reading, but at most for the gap threshold. So bursts of readings do
//! not get extra weight, and `avg * covered` of adjacent windows adds up.

use ergometer_units::{Seconds, Window};

use super::Column;

/// Time-weighted statistics of a channel over a window. `min <= median <= max` and `min <= avg <= max` always hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stats {
    /// The mean over the covered time.
    pub avg: f64,
    /// The largest valid value.
    pub max: f64,
    /// The median: values were lower for half of the covered time.
    pub median: f64,
    /// The smallest valid value.
    pub min: f64,
    /// The number of readings, including the one valid at the start of the window.
    pub count: usize,
    /// The part of the window with a valid value; shorter than the window if there is a gap.
    pub covered: Seconds,
}

/// A value and how long it was valid.
#[derive(Debug, Clone, Copy)]
struct WeightedValue {
    value: f64,
    length_ns: i64,
}

/// The statistics of a window, `None` if no value was valid. A value is valid for at most `hold_ns`. A window of zero
/// length has the value valid at that time.
pub(super) fn stats(column: &Column, window: Window, hold_ns: i64) -> Option<Stats> {
    if window.start() == window.end() {
        return stats_at(column, window, hold_ns);
    }
    let validities = validities(column, window, hold_ns);
    summarise(validities.map(|(from, until, value)| WeightedValue { value, length_ns: until - from }))
}

/// The statistics of the sum of several columns, over the time in which all of them had a valid value.
pub(super) fn stats_of_sum(columns: &[(&Column, i64)], window: Window) -> Option<Stats> {
    if let [(column, hold_ns)] = columns {
        return stats(column, window, *hold_ns);
    }
    let mut changes: Vec<(i64, i32, f64)> = columns
        .iter()
        .flat_map(|&(column, hold_ns)| validities(column, window, hold_ns))
        .flat_map(|(from, until, value)| [(from, 1, value), (until, -1, -value)])
        .collect();
    // Ends come before starts, so that no two values of one column are valid at once.
    changes.sort_unstable_by_key(|&(at, count, _)| (at, count));
    let (mut values, mut valid, mut sum, mut since) = (Vec::new(), 0, 0.0, 0);
    for (at, count, value) in changes {
        if usize::try_from(valid).is_ok_and(|valid| valid == columns.len()) && at > since {
            values.push(WeightedValue { value: sum, length_ns: at - since });
        }
        (valid, sum, since) = (valid + count, sum + value, at);
    }
    summarise(values.into_iter())
}

/// The time in a window for which each value was valid: from, until, value.
fn validities(column: &Column, window: Window, hold_ns: i64) -> impl Iterator<Item = (i64, i64, f64)> {
    let (start, end) = (window.start().nanos_since_epoch(), window.end().nanos_since_epoch());
    let readings = column.readings();
    let range = column.range(window);
    (range.start.saturating_sub(1)..range.end).filter_map(move |index| {
        let at = readings.at_ns[index];
        let next = readings.at_ns.get(index + 1).copied().unwrap_or(i64::MAX);
        let until = next.min(at.saturating_add(hold_ns)).min(end);
        let from = at.max(start);
        (until > from).then(|| (from, until, readings.values[index]))
    })
}

fn summarise(values: impl Iterator<Item = WeightedValue>) -> Option<Stats> {
    let mut values: Vec<WeightedValue> = values.collect();
    values.sort_unstable_by(|one, other| one.value.total_cmp(&other.value));
    let (min, max) = (values.first()?.value, values.last()?.value);
    let covered_ns: i64 = values.iter().fold(0, |sum, each| sum.saturating_add(each.length_ns));
    let avg = values.iter().map(|each| each.value * (each.length_ns as f64 / covered_ns as f64)).sum::<f64>();
    Some(Stats {
        // By rounding, the mean of equal values may differ from them by a unit in the last place.
        avg: avg.clamp(min, max),
        max,
        median: median(&values, covered_ns),
        min,
        count: values.len(),
        covered: Seconds::from_nanos(covered_ns),
    })
}

/// The weighted median of sorted values; the midpoint of two values if exactly half the time lies on each side.
fn median(values: &[WeightedValue], covered_ns: i64) -> f64 {
    let mut below_ns: i64 = 0;
    for (index, each) in values.iter().enumerate() {
        below_ns = each.length_ns.saturating_add(below_ns);
        // This compares `below` with `covered - below`, because `2 * below` may overflow.
        let above_ns = covered_ns - below_ns;
        if below_ns >= above_ns {
            let next = if below_ns == above_ns { values.get(index + 1) } else { None };
            return next.map_or(each.value, |next| f64::midpoint(each.value, next.value));
        }
    }
    f64::NAN
}

/// The statistics of a window of zero length.
fn stats_at(column: &Column, window: Window, hold_ns: i64) -> Option<Stats> {
    let point = column.at_or_before(window.start())?;
    let age_ns = window.start().nanos_since_epoch().saturating_sub(point.at.nanos_since_epoch());
    let value = point.value;
    (age_ns < hold_ns).then_some(Stats {
        avg: value,
        max: value,
        median: value,
        min: value,
        count: 1,
        covered: Seconds::ZERO,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::example::{column, window};
    use super::*;

    #[test]
    fn values_are_weighted_by_time() {
        let column = column(&[(0, 10.0), (10, 20.0), (11, 90.0), (12, 30.0)]);
        let found = stats(&column, window(0, 20), 1000).unwrap();
        assert!((found.avg - (10.0 * 10.0 + 20.0 + 90.0 + 8.0 * 30.0) / 20.0).abs() < 1e-12);
        assert_eq!((found.min, found.max, found.count), (10.0, 90.0, 4));
        assert_eq!(found.median, 15.0, "10 is valid for exactly half of the time, 20 is next");
        assert_eq!(found.covered.as_nanos(), 20);
    }

    #[test]
    fn the_value_valid_at_the_start_counts() {
        let column = column(&[(0, 10.0), (100, 20.0)]);
        let found = stats(&column, window(40, 60), 1000).unwrap();
        assert_eq!((found.avg, found.count), (10.0, 1));
        assert_eq!(stats(&column, window(50, 50), 1000).map(|found| found.avg), Some(10.0));
        assert_eq!(stats(&column, window(100, 100), 1000).map(|found| found.avg), Some(20.0));
    }

    #[test]
    fn a_value_is_valid_for_at_most_the_gap_threshold() {
        let column = column(&[(0, 10.0), (1000, 20.0)]);
        let found = stats(&column, window(0, 1050), 50).unwrap();
        assert_eq!((found.avg, found.covered.as_nanos()), (15.0, 100));
        assert_eq!(stats(&column, window(500, 600), 50), None);
        assert_eq!(stats(&column, window(500, 500), 50), None);
        assert_eq!(stats(&column, window(-10, 0), 50), None, "no value before the first reading");
        assert_eq!(stats(&Column::default(), window(0, 10), 50), None);
    }

    #[test]
    fn the_sum_of_two_columns_has_its_own_extremes() {
        let (one, other) = (column(&[(0, 100.0), (10, 200.0)]), column(&[(5, 10.0), (15, 1.0)]));
        let found = stats_of_sum(&[(&one, 1000), (&other, 1000)], window(0, 20)).unwrap();
        assert_eq!((found.min, found.max, found.median), (110.0, 210.0, 201.0), "110, 210, 201 for 5 each from 5 on");
        assert_eq!(found.covered.as_nanos(), 15);
        assert!((found.avg - (110.0 + 210.0 + 201.0) / 3.0).abs() < 1e-9);
        assert_eq!(stats_of_sum(&[], window(0, 20)), None);
        assert_eq!(stats_of_sum(&[(&one, 1000)], window(0, 20)), stats(&one, window(0, 20), 1000));
    }

    #[test]
    fn the_last_of_two_readings_at_one_time_is_valid() {
        let column = column(&[(0, 10.0), (0, 20.0)]);
        let found = stats(&column, window(0, 10), 50).unwrap();
        assert_eq!((found.min, found.count), (20.0, 1));
    }

    proptest! {
        #[test]
        fn stats_lie_between_the_extremes_and_windows_add_up(
            rows in prop::collection::vec((0_i64..1000, -1e6_f64..1e6), 0..60),
            mut edges in [-100_i64..1200, -100_i64..1200, -100_i64..1200],
            hold in 1_i64..300,
        ) {
            let column = column(&rows);
            edges.sort_unstable();
            let [start, middle, end] = edges;
            let area = |from, to| {
                stats(&column, window(from, to), hold).map_or(0.0, |found| found.avg * found.covered.as_nanos() as f64)
            };
            let (parts, whole) = (area(start, middle) + area(middle, end), area(start, end));
            prop_assert!((parts - whole).abs() <= 1e-6 * (1.0 + whole.abs()) + 1e-3, "{parts} {whole}");
            if let Some(found) = stats(&column, window(start, end), hold) {
                prop_assert!(found.min <= found.avg && found.avg <= found.max);
                prop_assert!(found.min <= found.median && found.median <= found.max);
                prop_assert!(found.count >= 1 && found.covered <= window(start, end).length());
            }
        }
    }
}
