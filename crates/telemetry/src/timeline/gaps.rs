//! Finds the gaps in a column: the stretches of a window without readings.
//!
//! Readings that repeat a value are not a gap. Gaps are disjoint, sorted by time and inside the window, and contain no
//! reading.

use ergometer_units::{Timestamp, Window};

use super::Column;

/// The shortest silence that is a gap. A scheduler or a blocking driver call holds a sampler up for tens of
/// milliseconds (counter reads on an H200 block for up to 35 ms), so a fast source needs a floor.
const SHORTEST_GAP_NS: i64 = 250_000_000;

/// How many usual spacings of silence are a gap: one or two missed updates are everyday jitter (power on an H200 is
/// updated every 100 ms, and 200 ms between two new values are common).
const MISSED_UPDATES: i64 = 5;

/// How long silence has to be to count as a gap, for a source that speaks this often.
pub(super) fn threshold_ns(usual_spacing_ns: i64) -> i64 {
    usual_spacing_ns.saturating_mul(MISSED_UPDATES).max(SHORTEST_GAP_NS)
}

/// The silences longer than the threshold, cut to the window. A silence is judged by its whole length, so a short
/// window in the middle of a long one is a gap all through. Before the first reading and after the last one, silence
/// counts from and to the edge of the window; a column without a reading is one gap.
pub(super) fn gaps(column: &Column, window: Window, threshold_ns: i64) -> Vec<Window> {
    if column.is_empty() {
        return cut(window, window.start().nanos_since_epoch(), window.end().nanos_since_epoch()).into_iter().collect();
    }
    let times = column.readings().at_ns;
    let range = column.range(window);
    let before = range.start.checked_sub(1).map_or(window.start().nanos_since_epoch(), |place| times[place]);
    let after = times.get(range.end).copied().unwrap_or(window.end().nanos_since_epoch());
    let mut from = before;
    let mut found = Vec::new();
    for to in times[range].iter().copied().chain([after]) {
        if to.saturating_sub(from) > threshold_ns {
            found.extend(cut(window, from, to));
        }
        from = to;
    }
    found
}

/// The part of a stretch that lies in the window.
fn cut(window: Window, from_ns: i64, to_ns: i64) -> Option<Window> {
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
    fn steady_is_no_gap_and_silence_is_one() {
        let steady = column(&[(0, 7.0), (100, 7.0), (200, 7.0), (300, 7.0)]);
        assert_eq!(gaps(&steady, window(0, 400), 150), []);
        let stalled = column(&[(0, 7.0), (100, 7.0), (300, 7.0)]);
        assert_eq!(gaps(&stalled, window(0, 400), 150), [window(100, 300)]);
        assert_eq!(gaps(&stalled, window(150, 160), 150), [window(150, 160)], "judged by its whole length");
        assert_eq!(gaps(&stalled, window(0, 1000), 150), [window(100, 300), window(300, 1000)]);
        assert_eq!(gaps(&stalled, window(-500, 50), 150), [window(-500, 0)]);
    }

    #[test]
    fn nothing_read_is_one_gap() {
        assert_eq!(gaps(&Column::default(), window(3, 9), 150), [window(3, 9)]);
        assert_eq!(gaps(&Column::default(), window(3, 3), 150), []);
    }

    #[test]
    fn the_threshold_follows_the_source_above_a_floor() {
        assert_eq!(threshold_ns(20_000_000), SHORTEST_GAP_NS);
        assert_eq!(threshold_ns(100_000_000), 500_000_000);
        assert_eq!(threshold_ns(i64::MAX), i64::MAX);
    }

    proptest! {
        #[test]
        fn gaps_are_apart_inside_the_window_and_empty(
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
