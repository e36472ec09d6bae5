//! Computes the self time of each event of a line in one pass, and counts events that overlap without nesting.
//!
//! The parent of an event is the event of its line that contains it and starts last, then ends first, then is later in
//! the file; of two equal events the earlier is the parent. The self time is the duration less the union of the direct
//! children. In the order (start, longest first, file), the possible parents form a stack whose ends decrease from
//! bottom to top: an event cannot contain anything more once a later event has outlasted it. After sorting, the pass is
//! linear.

use std::collections::BTreeMap;
use std::ops::Range;

use super::interval::Interval;
use crate::table::{Line, number};

/// The events of a line by start, the longest first of those that start together.
#[derive(Debug, Clone)]
pub enum Order {
    /// The file has them in this order, and all have a start time.
    AsTheyAre(usize),
    /// These events, in this order.
    Sorted(Vec<u32>),
}

impl Order {
    /// The events of a line with start times, in this order.
    #[must_use]
    pub fn by_start(line: &Line) -> Self {
        let key = |event: usize| (line.start_ps[event], std::cmp::Reverse(line.duration_ps[event]));
        if line.unplaced.is_empty() && (1..line.len()).all(|event| key(event - 1) <= key(event)) {
            return Self::AsTheyAre(line.len());
        }
        let mut events = placed(line);
        // A stable sort keeps equal events in the order of the file.
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

    /// Cuts the order into ranges of about `about` events, at times without events. Passes over the ranges give the
    /// same result as one pass over all events.
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

/// Receives the events of a pass.
pub(crate) trait Visitor {
    /// Data about an event that is passed back with its self time.
    type Note;
    /// Called for each event, in order of start.
    fn open(&mut self, event: usize, interval: Interval) -> Self::Note;
    /// Called with the self time of an event after all its children.
    fn close(&mut self, note: Self::Note, self_ps: i64);
}

/// An event that may have more children.
struct Open<N> {
    note: N,
    start: i64,
    end: i64,
    /// The end of the part covered by children, and the covered time.
    covered_to: i64,
    covered: i64,
}

/// Visits the events of a line in their order, and returns whether any begins inside an earlier one and ends outside
/// it.
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
            // The new event ends with its parent, so it contains all that could follow in the parent.
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

/// The number of events that begin inside an earlier event and end outside it.
pub(crate) fn crossings(line: &Line, order: &Order) -> u64 {
    let mut ends: BTreeMap<i64, i64> = BTreeMap::new();
    let mut crossings = 0;
    for event in order.all() {
        let start = line.start_ps[event];
        let end = start + line.duration_ps[event];
        while let Some(first) = ends.first_entry().filter(|first| *first.key() <= start) {
            first.remove();
        }
        // Of events with the same end, the first to start decides. Events with the same start are nested, not crossing.
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
    use crate::table::{Ids, KindId, Strings, Unplaced, UnplacedReason};
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
    struct SelfTimes(Vec<Option<i64>>);

    impl Visitor for SelfTimes {
        type Note = usize;

        fn open(&mut self, event: usize, _: Interval) -> usize {
            event
        }

        fn close(&mut self, event: usize, self_ps: i64) {
            assert_eq!(self.0[event].replace(self_ps), None, "an event has one self time");
        }
    }

    fn self_times(line: &Line) -> Vec<Option<i64>> {
        let order = Order::by_start(line);
        let mut self_times = SelfTimes(vec![None; line.len()]);
        let is_crossed = sweep(line, order.all(), &mut self_times);
        assert_eq!(is_crossed, crossings(line, &order) > 0);
        self_times.0
    }

    /// The definition, computed directly: compares every event with every other, and every tick with every child.
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
            prop_assert_eq!(self_times(&line), expected.into_iter().map(Some).collect::<Vec<_>>());
            prop_assert_eq!(crossings(&line, &Order::by_start(&line)), crossed);
        }

        #[test]
        fn self_times_sum_to_busy_without_partial_overlaps(events in events()) {
            let line = line_of(&events);
            let order = Order::by_start(&line);
            let sum: i64 = self_times(&line).into_iter().flatten().sum();
            let intervals = events.iter().map(|&(start, length)| Interval { start, end: start + length }).collect();
            let busy = super::super::interval::Union::from_intervals(intervals).length();
            if crossings(&line, &order) == 0 {
                prop_assert_eq!(sum, busy);
            } else {
                prop_assert!(sum >= busy);
            }
        }

        #[test]
        fn passes_over_parts_give_the_same_as_one_pass(events in events(), about in 1_usize..10) {
            let line = line_of(&events);
            let order = Order::by_start(&line);
            let mut in_parts = SelfTimes(vec![None; line.len()]);
            let ranges = order.cut(&line, about);
            for range in ranges.iter().cloned() {
                sweep(&line, order.range(range), &mut in_parts);
            }
            prop_assert_eq!(in_parts.0, self_times(&line));
            prop_assert_eq!(ranges.iter().map(ExactSizeIterator::len).sum::<usize>(), events.len());
        }
    }

    #[test]
    fn the_innermost_enclosing_event_is_the_parent() {
        // A crosses B. C is in both, and B started last. D is in B only. E equals D and is its child.
        let line = line_of(&[(0, 10), (5, 10), (6, 3), (12, 2), (12, 2)]);
        assert_eq!(self_times(&line), [10, 5, 3, 0, 2].map(Some));
        assert_eq!(crossings(&line, &Order::by_start(&line)), 1);
    }

    #[test]
    fn events_without_a_start_time_are_skipped() {
        let mut line = line_of(&[(0, 10), (2, 3), (4, 1)]);
        line.unplaced.push(Unplaced { event: 1, why: UnplacedReason::OutOfRange });
        assert_eq!(self_times(&line), [Some(9), None, Some(1)]);
    }
}
