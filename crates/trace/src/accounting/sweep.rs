//! One pass over a line: what each event's self time is, and how often events overlap without one holding the other.
//!
//! An event's parent is, of the events on its line that hold the whole of it, the one that starts last, then ends first,
//! then is later in the file; of two equal ones the earlier is the parent. Self is the duration less the union of the
//! direct children. In order of (start, longest first, file) the possible parents are a stack whose ends fall from bottom
//! to top: an event that another one starting later outlasts can hold nothing more. So after sorting, the pass is linear.

use std::collections::BTreeMap;
use std::ops::Range;

use super::interval::Interval;
use crate::table::{Line, number};

/// The events of a line by start, the longest first of those that start together.
#[derive(Debug, Clone)]
pub enum Order {
    /// The file has them in order already, and all have a place in time.
    AsTheyAre(usize),
    /// These events, in this order.
    Sorted(Vec<u32>),
}

impl Order {
    /// The order of the events of a line that have a place in time.
    #[must_use]
    pub fn of(line: &Line) -> Self {
        let key = |event: usize| (line.start_ps[event], std::cmp::Reverse(line.duration_ps[event]));
        if line.unplaced.is_empty() && (1..line.len()).all(|event| key(event - 1) <= key(event)) {
            return Self::AsTheyAre(line.len());
        }
        let mut events = placed(line);
        // Stable: equal ones stay in the order of the file.
        events.sort_by_key(|&event| key(event as usize));
        Self::Sorted(events)
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::AsTheyAre(count) => *count,
            Self::Sorted(events) => events.len(),
        }
    }

    /// All events, in this order.
    pub fn all(&self) -> impl Iterator<Item = usize> {
        self.range(0..self.len())
    }

    /// The events of a range of this order.
    pub(crate) fn range(&self, range: Range<usize>) -> impl Iterator<Item = usize> {
        let (numbers, events) = match self {
            Self::AsTheyAre(_) => (range, &[][..]),
            Self::Sorted(events) => (0..0, events.get(range).unwrap_or_default()),
        };
        numbers.chain(events.iter().map(|&event| event as usize))
    }

    /// Cuts the order where nothing goes on, into ranges of about so many events. A pass over each gives what one pass
    /// over all does.
    pub(crate) fn cut(&self, line: &Line, about: usize) -> Vec<Range<usize>> {
        let (mut ranges, mut first, mut last_end) = (Vec::new(), 0, i64::MIN);
        for (place, event) in self.all().enumerate() {
            let start = line.start_ps[event];
            if place - first >= about && start > last_end {
                ranges.push(first..place);
                first = place;
            }
            last_end = last_end.max(start + line.duration_ps[event]);
        }
        ranges.push(first..self.len());
        ranges
    }
}

fn placed(line: &Line) -> Vec<u32> {
    let mut unplaced = line.unplaced.iter().map(|unplaced| unplaced.event).peekable();
    (0..number(line.len())).filter(|event| unplaced.next_if_eq(event).is_none()).collect()
}

/// What a pass tells.
pub(crate) trait Visitor {
    /// What is remembered of an event until its self time is known.
    type Note;
    /// An event, in order of start.
    fn open(&mut self, event: usize, interval: Interval) -> Self::Note;
    /// The self time of an event, once all its children are known.
    fn close(&mut self, note: Self::Note, self_ps: i64);
}

/// An event whose children may still come.
struct Open<N> {
    note: N,
    start: i64,
    end: i64,
    /// Up to where children cover it, and how much of it they do.
    covered_to: i64,
    covered: i64,
}

/// Visits the events of a line in their order, and returns whether any begins inside an earlier one and ends outside it.
pub(crate) fn sweep<V: Visitor>(line: &Line, events: impl Iterator<Item = usize>, visitor: &mut V) -> bool {
    let mut stack: Vec<Open<V::Note>> = Vec::new();
    let mut is_crossed = false;
    for event in events {
        let start = line.start_ps[event];
        let end = start + line.duration_ps[event];
        while let Some(open) = stack.pop_if(|open| open.end < end) {
            is_crossed |= open.end > start;
            close(visitor, open);
        }
        if let Some(parent) = stack.last_mut() {
            parent.covered += (end - start.max(parent.covered_to)).max(0);
            parent.covered_to = parent.covered_to.max(end);
            // One that ends with it holds nothing more that it would not hold.
            if let Some(open) = stack.pop_if(|parent| parent.end == end) {
                close(visitor, open);
            }
        }
        let note = visitor.open(event, Interval { start, end });
        stack.push(Open { note, start, end, covered_to: start, covered: 0 });
    }
    while let Some(open) = stack.pop() {
        close(visitor, open);
    }
    is_crossed
}

fn close<V: Visitor>(visitor: &mut V, open: Open<V::Note>) {
    visitor.close(open.note, open.end - open.start - open.covered);
}

/// How many events begin inside an earlier one and end outside it.
pub(crate) fn crossings(line: &Line, order: &Order) -> u64 {
    let mut ends: BTreeMap<i64, i64> = BTreeMap::new();
    let mut crossings = 0;
    for event in order.all() {
        let start = line.start_ps[event];
        let end = start + line.duration_ps[event];
        while let Some(first) = ends.first_entry().filter(|first| *first.key() <= start) {
            first.remove();
        }
        // Of those that end at one time the first to start decides; one that starts together is no crossing, it is held.
        if ends.range(..end).any(|(_, &first_start)| first_start < start) {
            crossings += 1;
        }
        ends.entry(end).or_insert(start);
    }
    crossings
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::table::{Ids, KindId, Strings, Unplaced, Why};
    use proptest::prelude::*;

    /// A line of events with these starts and lengths.
    pub(crate) fn line_of(events: &[(i64, i64)]) -> Line {
        Line {
            id: 1,
            name: Strings::default().intern("line"),
            display_name: None,
            start_ps: events.iter().map(|&(start, _)| start).collect(),
            duration_ps: events.iter().map(|&(_, length)| length).collect(),
            kind: vec![KindId(0); events.len()],
            unplaced: Vec::new(),
            segments: Vec::new(),
            ids: Ids::default(),
        }
    }

    #[derive(Default)]
    struct Selfs(Vec<Option<i64>>);

    impl Visitor for Selfs {
        type Note = usize;

        fn open(&mut self, event: usize, _: Interval) -> usize {
            event
        }

        fn close(&mut self, event: usize, self_ps: i64) {
            assert_eq!(self.0[event].replace(self_ps), None, "an event has one self time");
        }
    }

    fn selfs(line: &Line) -> Vec<Option<i64>> {
        let order = Order::of(line);
        let mut selfs = Selfs(vec![None; line.len()]);
        let is_crossed = sweep(line, order.all(), &mut selfs);
        assert_eq!(is_crossed, crossings(line, &order) > 0);
        selfs.0
    }

    /// The formula by its words: every event against every other, every tick against every child.
    fn plainly(events: &[(i64, i64)]) -> (Vec<i64>, u64) {
        let end = |event: usize| events[event].0 + events[event].1;
        let holds = |outer: usize, inner: usize| {
            outer != inner
                && events[outer].0 <= events[inner].0
                && end(inner) <= end(outer)
                && (events[outer] != events[inner] || outer < inner)
        };
        let parent = |inner: usize| {
            let outers = (0..events.len()).filter(|&outer| holds(outer, inner));
            outers.max_by_key(|&outer| (events[outer].0, std::cmp::Reverse(end(outer)), outer))
        };
        let parents: Vec<Option<usize>> = (0..events.len()).map(parent).collect();
        let of = |event: usize| {
            let children: Vec<usize> = (0..events.len()).filter(|&child| parents[child] == Some(event)).collect();
            let is_covered = |tick: i64| children.iter().any(|&child| events[child].0 <= tick && tick < end(child));
            (events[event].0..end(event)).filter(|&tick| !is_covered(tick)).map(|_| 1).sum()
        };
        let crosses = |event: usize| {
            let (start, stop) = (events[event].0, end(event));
            (0..events.len()).any(|other| events[other].0 < start && start < end(other) && end(other) < stop)
        };
        ((0..events.len()).map(of).collect(), (0..events.len()).filter(|&event| crosses(event)).count() as u64)
    }

    fn events() -> impl Strategy<Value = Vec<(i64, i64)>> {
        prop::collection::vec((0_i64..24, 0_i64..12), 0..24)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn self_times_are_those_of_the_formula(events in events()) {
            let line = line_of(&events);
            let (expected, crossed) = plainly(&events);
            prop_assert_eq!(selfs(&line), expected.into_iter().map(Some).collect::<Vec<_>>());
            prop_assert_eq!(crossings(&line, &Order::of(&line)), crossed);
        }

        #[test]
        fn self_times_sum_to_busy_where_nothing_overlaps_in_part(events in events()) {
            let line = line_of(&events);
            let order = Order::of(&line);
            let sum: i64 = selfs(&line).into_iter().flatten().sum();
            let intervals = events.iter().map(|&(start, length)| Interval { start, end: start + length }).collect();
            let busy = super::super::interval::Union::of(intervals).length();
            if crossings(&line, &order) == 0 {
                prop_assert_eq!(sum, busy);
            } else {
                prop_assert!(sum >= busy);
            }
        }

        #[test]
        fn parts_together_are_the_whole(events in events(), about in 1_usize..10) {
            let line = line_of(&events);
            let order = Order::of(&line);
            let mut in_parts = Selfs(vec![None; line.len()]);
            let ranges = order.cut(&line, about);
            for range in ranges.iter().cloned() {
                sweep(&line, order.range(range), &mut in_parts);
            }
            prop_assert_eq!(in_parts.0, selfs(&line));
            prop_assert_eq!(ranges.iter().map(ExactSizeIterator::len).sum::<usize>(), events.len());
        }
    }

    #[test]
    fn the_nearest_that_holds_the_whole_is_the_parent() {
        // A crosses B; C is in both, and B started last; D is in B only; E equals D and is its child.
        let line = line_of(&[(0, 10), (5, 10), (6, 3), (12, 2), (12, 2)]);
        assert_eq!(selfs(&line), [10, 5, 3, 0, 2].map(Some));
        assert_eq!(crossings(&line, &Order::of(&line)), 1);
    }

    #[test]
    fn what_has_no_place_in_time_takes_no_part() {
        let mut line = line_of(&[(0, 10), (2, 3), (4, 1)]);
        line.unplaced.push(Unplaced { event: 1, why: Why::OutOfRange });
        assert_eq!(selfs(&line), [Some(9), None, Some(1)]);
    }
}
