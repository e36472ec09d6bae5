//! Which of several stretches of time is open at a moment: of those that are, the one that started last.

use std::collections::BTreeSet;

/// Stretches of time, cut into pieces that do not overlap.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Innermost {
    /// Start, end, and the place of the stretch in what was given; in order.
    pieces: Vec<(i64, i64, usize)>,
}

impl Innermost {
    /// From starts and ends, in any order. A stretch has its start and not its end.
    pub(crate) fn of(stretches: &[(i64, i64)]) -> Self {
        let mut edges: Vec<(i64, bool, usize)> = Vec::with_capacity(2 * stretches.len());
        for (place, &(start, end)) in stretches.iter().enumerate().filter(|(_, (start, end))| start < end) {
            edges.push((start, true, place));
            edges.push((end, false, place));
        }
        edges.sort_unstable();
        // By start, then the longest first: the last one is the innermost.
        let key = |place: usize| (stretches[place].0, std::cmp::Reverse(stretches[place].1), place);
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

    /// The place of the stretch that is open at a time.
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
        fn the_one_that_started_last_is_found(stretches in prop::collection::vec((0_i64..30, 0_i64..30), 0..20)) {
            let stretches: Vec<(i64, i64)> = stretches.into_iter().map(|(start, length)| (start, start + length)).collect();
            let innermost = Innermost::of(&stretches);
            for time in -1..62 {
                let open = (0..stretches.len()).filter(|&place| stretches[place].0 <= time && time < stretches[place].1);
                let last = open.max_by_key(|&place| (stretches[place].0, std::cmp::Reverse(stretches[place].1), place));
                prop_assert_eq!(innermost.at(time), last);
            }
        }
    }
}
