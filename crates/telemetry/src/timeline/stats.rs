//! Computes the time-weighted average, extremes and median of a column over a window.
//!
//! A value holds from its time until the next reading, and across a gap for no longer than the gap's threshold. So
//! readings that came in bunches weigh no more than their time, and `avg * covered` of adjacent windows adds up.

use ergometer_units::{Seconds, Window};

use super::Column;

/// A channel over a window, weighted by time. `min <= median <= max` and `min <= avg <= max` always hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stats {
    /// The mean over the time covered.
    pub avg: f64,
    /// The largest value in force.
    pub max: f64,
    /// The value that half of the time covered was below, and half above.
    pub median: f64,
    /// The smallest value in force.
    pub min: f64,
    /// How many readings it rests on, the one in force at the window's start included.
    pub count: usize,
    /// How much of the window had a value in force; less than its length where there was a gap.
    pub covered: Seconds,
}

/// A value and how long it was in force.
#[derive(Debug, Clone, Copy)]
struct Held {
    value: f64,
    length_ns: i64,
}

/// The stats of a window, `None` where no value was in force. A value holds for `hold_ns` at most. A window of no
/// length has the value in force at that moment.
pub(super) fn stats(column: &Column, window: Window, hold_ns: i64) -> Option<Stats> {
    if window.start() == window.end() {
        return moment(column, window, hold_ns);
    }
    summarise(stretches(column, window, hold_ns).map(|(from, until, value)| Held { value, length_ns: until - from }))
}

/// The stats of the sum of several columns, over the time in which all of them had a value in force.
pub(super) fn stats_of_sum(columns: &[(&Column, i64)], window: Window) -> Option<Stats> {
    if let [(column, hold_ns)] = columns {
        return stats(column, window, *hold_ns);
    }
    let mut changes: Vec<(i64, i32, f64)> = columns
        .iter()
        .flat_map(|&(column, hold_ns)| stretches(column, window, hold_ns))
        .flat_map(|(from, until, value)| [(from, 1, value), (until, -1, -value)])
        .collect();
    // Ends come before starts, so that no two values of one column are in force at once.
    changes.sort_unstable_by_key(|&(at, count, _)| (at, count));
    let (mut held, mut in_force, mut sum, mut since) = (Vec::new(), 0, 0.0, 0);
    for (at, count, value) in changes {
        if usize::try_from(in_force).is_ok_and(|in_force| in_force == columns.len()) && at > since {
            held.push(Held { value: sum, length_ns: at - since });
        }
        (in_force, sum, since) = (in_force + count, sum + value, at);
    }
    summarise(held.into_iter())
}

/// The stretches of a window in which each value was in force: from, until, value.
fn stretches(column: &Column, window: Window, hold_ns: i64) -> impl Iterator<Item = (i64, i64, f64)> {
    let (start, end) = (window.start().nanos_since_epoch(), window.end().nanos_since_epoch());
    let readings = column.readings();
    let range = column.range(window);
    (range.start.saturating_sub(1)..range.end).filter_map(move |place| {
        let at = readings.at_ns[place];
        let next = readings.at_ns.get(place + 1).copied().unwrap_or(i64::MAX);
        let until = next.min(at.saturating_add(hold_ns)).min(end);
        let from = at.max(start);
        (until > from).then(|| (from, until, readings.values[place]))
    })
}

fn summarise(held: impl Iterator<Item = Held>) -> Option<Stats> {
    let mut held: Vec<Held> = held.collect();
    held.sort_unstable_by(|one, other| one.value.total_cmp(&other.value));
    let (min, max) = (held.first()?.value, held.last()?.value);
    let covered_ns: i64 = held.iter().fold(0, |sum, each| sum.saturating_add(each.length_ns));
    let avg = held.iter().map(|each| each.value * (each.length_ns as f64 / covered_ns as f64)).sum::<f64>();
    Some(Stats {
        // Rounding may carry the mean of equal values past them by a unit in the last place.
        avg: avg.clamp(min, max),
        max,
        median: median(&held, covered_ns),
        min,
        count: held.len(),
        covered: Seconds::from_nanos(covered_ns),
    })
}

/// The weighted median of values in ascending order; halfway between two where exactly half the time lies on each side.
fn median(held: &[Held], covered_ns: i64) -> f64 {
    let mut below_ns: i64 = 0;
    for (place, each) in held.iter().enumerate() {
        below_ns = each.length_ns.saturating_add(below_ns);
        // `below >= covered - below` and not `2 * below`, which may overflow.
        let above_ns = covered_ns - below_ns;
        if below_ns >= above_ns {
            let next = if below_ns == above_ns { held.get(place + 1) } else { None };
            return next.map_or(each.value, |next| f64::midpoint(each.value, next.value));
        }
    }
    f64::NAN
}

fn moment(column: &Column, window: Window, hold_ns: i64) -> Option<Stats> {
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
    fn each_value_weighs_its_time() {
        let column = column(&[(0, 10.0), (10, 20.0), (11, 90.0), (12, 30.0)]);
        let found = stats(&column, window(0, 20), 1000).unwrap();
        assert!((found.avg - (10.0 * 10.0 + 20.0 + 90.0 + 8.0 * 30.0) / 20.0).abs() < 1e-12);
        assert_eq!((found.min, found.max, found.count), (10.0, 90.0, 4));
        assert_eq!(found.median, 15.0, "10 holds for exactly half of the time, 20 is next");
        assert_eq!(found.covered.as_nanos(), 20);
    }

    #[test]
    fn the_value_in_force_at_the_start_counts() {
        let column = column(&[(0, 10.0), (100, 20.0)]);
        let found = stats(&column, window(40, 60), 1000).unwrap();
        assert_eq!((found.avg, found.count), (10.0, 1));
        assert_eq!(stats(&column, window(50, 50), 1000).map(|found| found.avg), Some(10.0));
        assert_eq!(stats(&column, window(100, 100), 1000).map(|found| found.avg), Some(20.0));
    }

    #[test]
    fn a_value_does_not_outlive_a_gap() {
        let column = column(&[(0, 10.0), (1000, 20.0)]);
        let found = stats(&column, window(0, 1050), 50).unwrap();
        assert_eq!((found.avg, found.covered.as_nanos()), (15.0, 100));
        assert_eq!(stats(&column, window(500, 600), 50), None);
        assert_eq!(stats(&column, window(500, 500), 50), None);
        assert_eq!(stats(&column, window(-10, 0), 50), None, "nothing before the first reading");
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
    fn of_two_readings_at_one_time_the_later_holds() {
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
