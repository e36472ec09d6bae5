//! Unions of intervals: their length, gaps and differences.

/// An interval in picoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval {
    /// The start.
    pub start: i64,
    /// The end.
    pub end: i64,
}

impl Interval {
    /// The end less the start.
    #[must_use]
    pub fn length(self) -> i64 {
        self.end - self.start
    }
}

/// The union of intervals, as disjoint intervals in order. Intervals that touch are joined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Union {
    parts: Vec<Interval>,
}

impl Union {
    /// The union of intervals in any order.
    #[must_use]
    pub fn from_intervals(mut intervals: Vec<Interval>) -> Self {
        if !intervals.is_sorted() {
            intervals.sort();
        }
        let mut union = Self::default();
        for interval in intervals {
            union.push(interval);
        }
        union
    }

    /// Adds an interval that starts no earlier than those before.
    pub(crate) fn push(&mut self, interval: Interval) {
        match self.parts.last_mut() {
            Some(last) if interval.start <= last.end => last.end = last.end.max(interval.end),
            _ => self.parts.push(interval),
        }
    }

    pub(crate) fn parts(&self) -> &[Interval] {
        &self.parts
    }

    /// The sum of the lengths of its parts.
    #[must_use]
    pub fn length(&self) -> i64 {
        self.parts.iter().map(|part| part.length()).sum()
    }

    /// From the first start to the last end.
    pub(crate) fn hull(&self) -> Option<Interval> {
        Some(Interval { start: self.parts.first()?.start, end: self.parts.last()?.end })
    }

    /// The gaps between the parts.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = Interval> {
        self.parts.windows(2).map(|pair| Interval { start: pair[0].end, end: pair[1].start })
    }

    /// The length of this union outside `other`.
    pub(crate) fn length_outside(&self, other: &Self) -> i64 {
        let mut covered = 0;
        let mut others = other.parts.iter().peekable();
        for part in &self.parts {
            while others.next_if(|other| other.end <= part.start).is_some() {}
            for other in others.clone() {
                if other.start >= part.end {
                    break;
                }
                covered += other.end.min(part.end) - other.start.max(part.start);
            }
        }
        self.length() - covered
    }

    /// The union of several unions.
    pub(crate) fn merged(unions: Vec<Self>) -> Self {
        let mut filled = unions.into_iter().filter(|union| !union.parts.is_empty());
        let Some(first) = filled.next() else { return Self::default() };
        let rest: Vec<Self> = filled.collect();
        if rest.is_empty() {
            return first;
        }
        // The parts are sorted runs, which a stable sort only merges.
        let mut all = first.parts;
        for union in rest {
            all.extend(union.parts);
        }
        all.sort_by_key(|part| part.start);
        let mut union = Self::default();
        for part in all {
            union.push(part);
        }
        union
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn union(parts: &[(i64, i64)]) -> Union {
        Union::from_intervals(parts.iter().map(|&(start, end)| Interval { start, end }).collect())
    }

    #[test]
    fn touching_intervals_join() {
        let parts = union(&[(5, 9), (0, 3), (3, 4), (20, 20), (8, 12)]);
        assert_eq!(parts, union(&[(0, 4), (5, 12), (20, 20)]));
        assert_eq!((parts.length(), parts.hull()), (11, Some(Interval { start: 0, end: 20 })));
        assert_eq!(parts.gaps().map(Interval::length).collect::<Vec<_>>(), [1, 8]);
        assert_eq!(parts.length_outside(&union(&[(2, 6), (11, 30)])), 7);
    }

    fn intervals() -> impl Strategy<Value = Vec<(i64, i64)>> {
        prop::collection::vec((0_i64..60, 0_i64..12).prop_map(|(start, length)| (start, start + length)), 0..30)
    }

    fn covers(parts: &[(i64, i64)], tick: i64) -> bool {
        parts.iter().any(|&(start, end)| start <= tick && tick < end)
    }

    proptest! {
        #[test]
        fn lengths_are_those_of_the_ticks_covered(ones in intervals(), others in intervals()) {
            let (first, second) = (union(&ones), union(&others));
            let ticks = |holds: &dyn Fn(i64) -> bool| (0..80).filter(|&tick| holds(tick)).map(|_| 1).sum::<i64>();
            prop_assert_eq!(first.length(), ticks(&|tick| covers(&ones, tick)));
            let outside = ticks(&|tick| covers(&ones, tick) && !covers(&others, tick));
            prop_assert_eq!(first.length_outside(&second), outside);
            let both = Union::merged(vec![first.clone(), Union::default(), second.clone()]);
            prop_assert_eq!(both.length(), ticks(&|tick| covers(&ones, tick) || covers(&others, tick)));
            prop_assert_eq!(both.length(), second.length() + outside);
        }

        #[test]
        fn a_union_is_its_own_union(ones in intervals()) {
            let first = union(&ones);
            prop_assert_eq!(Union::from_intervals(first.parts().to_vec()), first.clone());
            let hull = first.hull().map_or(0, Interval::length);
            prop_assert_eq!(first.length() + first.gaps().map(Interval::length).sum::<i64>(), hull);
        }
    }
}
