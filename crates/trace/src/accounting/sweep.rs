//! One pass over a line: what each event's self time is, and how often events overlap without one holding the other.
//!
//! An event's parent is, of the events on its line that hold the whole of it, the one that starts last, then ends first,
//! then is later in the file; of two equal ones the earlier is the parent. Self is the duration less the union of the
//! direct children. In order of (start, longest first, file) the possible parents are a stack whose ends fall from bottom
//! to top: an event that another one starting later outlasts can hold nothing more. So after sorting, the pass is linear.

use std::collections::BTreeMap;

use super::interval::Interval;
use crate::table::Line;

/// The order of a pass.
pub(crate) enum Order {
    /// The file has them in order already, and all have a place in time.
    AsTheyAre(usize),
    /// These events, in this order.
    Sorted(Vec<u32>),
}

impl Order {
    pub(crate) fn of(line: &Line) -> Self {
        let key = |event: usize| (line.start_ps[event], std::cmp::Reverse(line.duration_ps[event]));
        if line.unplaced.is_empty() && (1..line.len()).all(|event| key(event - 1) <= key(event)) {
            return Self::AsTheyAre(line.len());
        }
        let mut events = placed(line);
        // Stable: equal ones stay in the order of the file.
        events.sort_by_key(|&event| key(event as usize));
        Self::Sorted(events)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        let (count, events) = match self {
            Self::AsTheyAre(count) => (*count, &[][..]),
            Self::Sorted(events) => (0, &events[..]),
        };
        (0..count).chain(events.iter().map(|&event| event as usize))
    }
}

fn placed(line: &Line) -> Vec<u32> {
    let mut unplaced = line.unplaced.iter().map(|unplaced| unplaced.event).peekable();
    (0..line.len() as u32).filter(|event| unplaced.next_if_eq(event).is_none()).collect()
}

/// An event whose children may still come.
struct Open {
    event: usize,
    start: i64,
    end: i64,
    /// Up to where children cover it, and how much of it they do.
    covered_to: i64,
    covered: i64,
}

/// Calls `found` with each event, its interval and its self time, once that is known, and returns how many events begin
/// inside an earlier one and end outside it.
pub(crate) fn sweep(line: &Line, order: &Order, mut found: impl FnMut(usize, Interval, i64)) -> u64 {
    let mut stack: Vec<Open> = Vec::new();
    let mut is_crossed = false;
    let mut close = |open: &Open| {
        found(open.event, Interval { start: open.start, end: open.end }, open.end - open.start - open.covered);
    };
    for event in order.iter() {
        let start = line.start_ps[event];
        let end = start + line.duration_ps[event];
        while let Some(open) = stack.pop_if(|open| open.end < end) {
            is_crossed |= open.end > start;
            close(&open);
        }
        if let Some(parent) = stack.last_mut() {
            parent.covered += (end - start.max(parent.covered_to)).max(0);
            parent.covered_to = parent.covered_to.max(end);
            // One that ends with it holds nothing more that it would not hold.
            if parent.end == end {
                if let Some(open) = stack.pop() {
                    close(&open);
                }
            }
        }
        stack.push(Open { event, start, end, covered_to: start, covered: 0 });
    }
    while let Some(open) = stack.pop() {
        close(&open);
    }
    if is_crossed { crossings(line, order) } else { 0 }
}

/// How many events begin inside an earlier one and end outside it: exact, and only counted where there are some.
fn crossings(line: &Line, order: &Order) -> u64 {
    let mut ends: BTreeMap<i64, i64> = BTreeMap::new();
    let mut crossings = 0;
    for event in order.iter() {
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
