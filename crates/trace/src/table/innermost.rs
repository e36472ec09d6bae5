//! Finds the innermost of overlapping intervals at a time: the open interval that started last.

use std::collections::BTreeSet;

/// Intervals, cut into pieces that do not overlap.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Innermost {
    /// Start, end and index of the innermost interval, in order.
    pieces: Vec<(i64, i64, usize)>,
}

impl Innermost {
    /// From starts and ends, in any order. An interval includes its start and excludes its end.
    pub(crate) fn new(intervals: &[(i64, i64)]) -> Self {
        let mut edges: Vec<(i64, bool, usize)> = Vec::with_capacity(2 * intervals.len());
        for (place, &(start, end)) in intervals.iter().enumerate().filter(|(_, (start, end))| start < end) {
            edges.push((start, true, place));
            edges.push((end, false, place));
        }
        edges.sort_unstable();
        // By start, then the longest first, so that the last one is the innermost.
        let key = |place: usize| (intervals[place].0, std::cmp::Reverse(intervals[place].1), place);
        let mut open: BTreeSet<(i64, std::cmp::Reverse<i64>, usize)> = BTreeSet::new();
        let mut pieces: Vec<(i64, i64, usize)> = Vec::new();
        let mut from = i64::MIN;
        for (time, opens, place) in edges {
            if let Some(&(.., innermost)) = open.last()
                && from < time
            {
                match pieces.last_mut() {
                    Some((_, end, last)) if *last == innermost && *end == from => *end = time,
                    _ => pieces.push((from, time, innermost)),
                }
            }
            from = time;
            if opens {
                open.insert(key(place));
            } else {
                open.remove(&key(place));
            }
        }
        Self { pieces }
    }

    /// The index of the innermost interval at a time.
    pub(crate) fn at(&self, time: i64) -> Option<usize> {
        let before = self.pieces.partition_point(|&(start, ..)| start <= time);
        let &(_, end, place) = self.pieces.get(before.checked_sub(1)?)?;
        (time < end).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_interval_that_started_last_is_found(intervals in prop::collection::vec((0_i64..30, 0_i64..30), 0..20)) {
            let intervals: Vec<(i64, i64)> = intervals.into_iter().map(|(start, length)| (start, start + length)).collect();
            let innermost = Innermost::new(&intervals);
            for time in -1..62 {
                let open = (0..intervals.len()).filter(|&place| intervals[place].0 <= time && time < intervals[place].1);
                let last = open.max_by_key(|&place| (intervals[place].0, std::cmp::Reverse(intervals[place].1), place));
                prop_assert_eq!(innermost.at(time), last);
            }
        }
    }
}
