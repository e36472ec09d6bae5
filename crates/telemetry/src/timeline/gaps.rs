//! Finds the gaps in a column: the parts of a window without readings for a long time.
//!
//! Readings that repeat a value are not a gap. Gaps are disjoint, sorted by time and inside the window, and contain no
//! reading.

use ergometer_units::{Timestamp, Window};

use super::Column;

/// The minimum length of a gap. The scheduler or a blocking driver call can delay a sampler by tens of milliseconds
/// (counter reads on an H200 block for up to 35 ms), so a fast sensor needs a minimum.
const SHORTEST_GAP_NS: i64 = 250_000_000;

/// The minimum length of a gap as a multiple of the usual spacing. One or two missed updates are normal jitter: power
/// on an H200 is updated every 100 ms, and 200 ms between two new values are common.
const MISSED_UPDATES: i64 = 5;

/// The minimum length of a gap for a sensor with this usual spacing.
pub(super) fn threshold_ns(usual_spacing_ns: i64) -> i64 {
    usual_spacing_ns.saturating_mul(MISSED_UPDATES).max(SHORTEST_GAP_NS)
}

/// The times without readings that are longer than the threshold, clipped to the window. Their whole length counts, so
/// a short window in the middle of a long gap is entirely a gap. Before the first and after the last reading, the
/// length counts from and to the edge of the window. A column without readings is one gap.
pub(super) fn gaps(column: &Column, window: Window, threshold_ns: i64) -> Vec<Window> {
    if column.is_empty() {
        return if window.start() < window.end() { vec![window] } else { Vec::new() };
    }
    let times = column.readings().at_ns;
    let range = column.range(window);
    let before = range.start.checked_sub(1).map_or(window.start().nanos_since_epoch(), |index| times[index]);
    let after = times.get(range.end).copied().unwrap_or(window.end().nanos_since_epoch());
    let mut from = before;
    let mut found = Vec::new();
    for to in times[range].iter().copied().chain([after]) {
        if to.saturating_sub(from) > threshold_ns {
            found.extend(clip(window, from, to));
        }
        from = to;
    }
    found
}

/// The part of an interval that lies in the window.
fn clip(window: Window, from_ns: i64, to_ns: i64) -> Option<Window> {
    let start = Timestamp::from_nanos_since_epoch(from_ns).max(window.start());
    let end = Timestamp::from_nanos_since_epoch(to_ns).min(window.end());
    if start < end { Window::new(start, end).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::example::{column, window};
    use super::*;

    #[test]
    fn repeated_values_are_no_gap_and_missing_readings_are_one() {
        let steady = column(&[(0, 7.0), (100, 7.0), (200, 7.0), (300, 7.0)]);
        assert_eq!(gaps(&steady, window(0, 400), 150), []);
        let stalled = column(&[(0, 7.0), (100, 7.0), (300, 7.0)]);
        assert_eq!(gaps(&stalled, window(0, 400), 150), [window(100, 300)]);
        assert_eq!(gaps(&stalled, window(150, 160), 150), [window(150, 160)], "its whole length counts");
        assert_eq!(gaps(&stalled, window(0, 1000), 150), [window(100, 300), window(300, 1000)]);
        assert_eq!(gaps(&stalled, window(-500, 50), 150), [window(-500, 0)]);
    }

    #[test]
    fn an_empty_column_is_one_gap() {
        assert_eq!(gaps(&Column::default(), window(3, 9), 150), [window(3, 9)]);
        assert_eq!(gaps(&Column::default(), window(3, 3), 150), []);
    }

    #[test]
    fn the_threshold_is_five_spacings_with_a_minimum() {
        assert_eq!(threshold_ns(20_000_000), SHORTEST_GAP_NS);
        assert_eq!(threshold_ns(100_000_000), 500_000_000);
        assert_eq!(threshold_ns(i64::MAX), i64::MAX);
    }

    proptest! {
        #[test]
        fn gaps_are_disjoint_inside_the_window_and_without_readings(
            times in prop::collection::vec(0_i64..2000, 0..40),
            (start, end) in (-100_i64..2100, -100_i64..2100),
            threshold in 1_i64..500,
        ) {
            let rows: Vec<_> = times.iter().map(|&time| (time, 1.0)).collect();
            let (column, window) = (column(&rows), window(start.min(end), start.max(end)));
            let mut last = window.start();
            for gap in gaps(&column, window, threshold) {
                prop_assert!(last <= gap.start() && gap.start() < gap.end() && gap.end() <= window.end());
                prop_assert!(column.within(gap).at_ns.iter().all(|&at| at == gap.start().nanos_since_epoch()));
                last = gap.end();
            }
        }
    }
}
