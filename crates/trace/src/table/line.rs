//! Stores the events of one timeline by column, in the order of the file.

use std::ops::Range;

use ergometer_units::Picos;

use super::{KindId, Text};

/// An index as `u32`. The reader accepts at most `u32::MAX` events, and there are no more kinds, labels or executions
/// than events.
pub(crate) fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// One timeline of a plane: a stream of a GPU, a unit of a TPU, a thread of a host.
#[derive(Debug)]
pub struct Line {
    /// Its number, unique on the plane.
    pub id: i64,
    /// Its name.
    pub name: Text,
    /// The display name, if the trace has one.
    pub display_name: Option<Text>,
    pub(crate) start_ps: Vec<i64>,
    pub(crate) duration_ps: Vec<i64>,
    pub(crate) kind: Vec<KindId>,
    /// The events without a start time, in order.
    pub(crate) unplaced: Vec<Unplaced>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) ids: Ids,
}

/// An event without a start time. It is counted, but is not part of busy time or gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unplaced {
    /// Its index on the line.
    pub(crate) event: u32,
    /// Why it has no start time.
    pub(crate) why: UnplacedReason,
}

/// The reason why an event has no start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnplacedReason {
    /// It aggregates this many events; its duration is their sum.
    Aggregated(i64),
    /// It is more than 53 days from the other events.
    OutOfRange,
    /// Its bytes are damaged. Only traces that are read leniently have such events.
    Damaged,
}

/// The part of a line that one session wrote.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    /// The session, because some numbers are unique only within a session.
    pub(crate) session: u32,
    /// The index of its plane in the files.
    pub(crate) plane: u32,
    pub(crate) events: Range<usize>,
    /// The offset of every sixteenth event in the file.
    pub(crate) landmarks: Vec<usize>,
    /// The offset of the end of the line.
    pub(crate) end: usize,
    /// The time that the offsets of its events count from.
    pub(crate) timestamp_ns: i64,
}

/// Numbers that connect events. They are read only if executions or steps are needed.
#[derive(Debug, Default, Clone)]
pub(crate) struct Ids {
    /// `run_id`: the run of a program, on CPU and TPU.
    pub(crate) run: Sparse,
    /// `scope_range_id`: the scope on the host that launched the kernel.
    pub(crate) scope: Sparse,
    /// `correlation_id`: the launch of a kernel, the same on host and device.
    pub(crate) correlation: Sparse,
    /// `step_num`: a step that the user annotated.
    pub(crate) step: Sparse,
}

/// A column in which most events have no value.
#[derive(Debug, Default, Clone)]
pub(crate) struct Sparse {
    pub(crate) event: Vec<u32>,
    pub(crate) value: Vec<i64>,
}

impl Sparse {
    pub(crate) fn is_empty(&self) -> bool {
        self.event.is_empty()
    }

    pub(crate) fn push(&mut self, event: u32, value: i64) {
        self.event.push(event);
        self.value.push(value);
    }

    /// Like `push`, but replaces the value of the last event.
    pub(crate) fn set(&mut self, event: u32, value: i64) {
        if self.event.last() == Some(&event) {
            self.event.pop();
            self.value.pop();
        }
        self.push(event, value);
    }

    pub(crate) fn get(&self, event: u32) -> Option<i64> {
        // If every event so far has a value, its index is the index of the event.
        if self.event.get(event as usize) == Some(&event) {
            return Some(self.value[event as usize]);
        }
        self.event.binary_search(&event).ok().map(|place| self.value[place])
    }

    /// Appends another column whose events begin at `offset`.
    pub(crate) fn extend_from(&mut self, other: &Self, offset: u32) {
        self.event.extend(other.event.iter().map(|event| event + offset));
        self.value.extend_from_slice(&other.value);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, i64)> {
        self.event.iter().copied().zip(self.value.iter().copied())
    }
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Its kind.
    pub kind: KindId,
    /// The start, from the zero of the trace; `None` if it has no start time.
    pub start: Option<Picos>,
    /// How long it took.
    pub duration: Picos,
}

impl Line {
    /// The number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.start_ps.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start_ps.is_empty()
    }

    /// The event at an index.
    #[must_use]
    pub fn event(&self, event: usize) -> Option<Event> {
        let duration = Picos::new(*self.duration_ps.get(event)?);
        let start = self.why_unplaced(event).is_none().then(|| Picos::new(self.start_ps[event]));
        Some(Event { kind: self.kind[event], start, duration })
    }

    /// Every event, in the order of the file.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        (0..self.len()).filter_map(|event| self.event(event))
    }

    /// Why an event has no start time; `None` if it has one.
    #[must_use]
    pub fn why_unplaced(&self, event: usize) -> Option<UnplacedReason> {
        if self.unplaced.is_empty() {
            return None;
        }
        let event = number(event);
        self.unplaced.binary_search_by_key(&event, |unplaced| unplaced.event).ok().map(|place| self.unplaced[place].why)
    }

    /// The `run_id` of an event: one run of a program, on CPU and TPU.
    #[must_use]
    pub fn run_id(&self, event: usize) -> Option<i64> {
        self.ids.run.get(number(event))
    }

    /// The `scope_range_id` of an event: the scope on the host that launched a kernel.
    #[must_use]
    pub fn scope_range_id(&self, event: usize) -> Option<i64> {
        self.ids.scope.get(number(event))
    }

    /// The start of an event in picoseconds, from the zero of the trace; `None` if it has no start time.
    pub(crate) fn start(&self, event: usize) -> Option<i64> {
        self.why_unplaced(event).is_none().then(|| self.start_ps[event])
    }

    /// The start and the end of an event; `None` if it has no start time.
    pub(crate) fn interval(&self, event: usize) -> Option<(i64, i64)> {
        self.start(event).map(|start| (start, start + self.duration_ps[event]))
    }

    /// The segment of an event.
    pub(crate) fn segment(&self, event: usize) -> Option<&Segment> {
        let place = self.segments.partition_point(|segment| segment.events.end <= event);
        self.segments.get(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_dense_and_sparse_columns() {
        let (mut dense, mut sparse) = (Sparse::default(), Sparse::default());
        for event in 0..5 {
            dense.push(event, i64::from(event) * 10);
        }
        sparse.push(2, 7);
        sparse.extend_from(&dense, 3);
        assert_eq!((dense.get(4), dense.get(5)), (Some(40), None));
        assert_eq!((sparse.get(0), sparse.get(2), sparse.get(3), sparse.get(7)), (None, Some(7), Some(0), Some(40)));
    }
}
