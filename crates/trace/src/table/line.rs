//! The events of one timeline, by column, in the order of the file.

use std::ops::Range;

use ergometer_units::Picos;

use super::{KindId, Text};

/// An index as a number of four bytes. The reader takes no more events than those count, and kinds, labels and executions
/// are no more than events.
pub(crate) fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// One timeline of a plane: a stream of a GPU, a unit of a TPU, a thread of a host.
#[derive(Debug)]
pub struct Line {
    /// The number that makes it one timeline.
    pub id: i64,
    /// Its name.
    pub name: Text,
    /// A name for people, where the trace has one.
    pub display_name: Option<Text>,
    pub(crate) start_ps: Vec<i64>,
    pub(crate) duration_ps: Vec<i64>,
    pub(crate) kind: Vec<KindId>,
    /// Events without a place in time, by their number.
    pub(crate) unplaced: Vec<Unplaced>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) ids: Ids,
}

/// An event without a place in time. It counts, but takes no part in busy or gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unplaced {
    /// Its number on the line.
    pub(crate) event: u32,
    /// Why.
    pub(crate) why: Why,
}

/// Why an event has no place in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It stands for this many, whose times together are its duration.
    Aggregated(i64),
    /// Its times are more than 53 days from the others.
    OutOfRange,
    /// Its bytes are damaged, and `--lenient` went on.
    Damaged,
}

/// A part of a line: what one session wrote.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    /// The session, for numbers that are unique in it only.
    pub(crate) session: u32,
    /// The reader's number of the plane it came from.
    pub(crate) plane: u32,
    pub(crate) events: Range<usize>,
    /// Where every sixteenth event begins, for the reader.
    pub(crate) landmarks: Vec<usize>,
    /// Where the bytes of the line end.
    pub(crate) end: usize,
    /// What the line says its offsets count from.
    pub(crate) timestamp_ns: i64,
}

/// Numbers that tie events together; read where executions and steps are asked for.
#[derive(Debug, Default, Clone)]
pub(crate) struct Ids {
    /// `run_id`: one run of a program, on CPU and TPU.
    pub(crate) run: Sparse,
    /// `scope_range_id`: what the host was doing when it launched the kernel.
    pub(crate) scope: Sparse,
    /// `correlation_id`: the launch of a kernel, on host and device.
    pub(crate) correlation: Sparse,
    /// `step_num`: a step the user annotated.
    pub(crate) step: Sparse,
}

/// Values of those events that have one.
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

    /// As `push`; of an event that has one already the last counts.
    pub(crate) fn set(&mut self, event: u32, value: i64) {
        if self.event.last() == Some(&event) {
            self.event.pop();
            self.value.pop();
        }
        self.push(event, value);
    }

    pub(crate) fn get(&self, event: u32) -> Option<i64> {
        // Where every event has one its place is its number.
        if self.event.get(event as usize) == Some(&event) {
            return Some(self.value[event as usize]);
        }
        self.event.binary_search(&event).ok().map(|place| self.value[place])
    }

    /// The events of another, further on.
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
    /// What it is.
    pub kind: KindId,
    /// From the trace's zero; `None` where it has no place in time.
    pub start: Option<Picos>,
    /// How long.
    pub duration: Picos,
}

impl Line {
    /// How many events there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.start_ps.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start_ps.is_empty()
    }

    /// One event, by its number.
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

    /// Why an event has no place in time, where it has none.
    #[must_use]
    pub fn why_unplaced(&self, event: usize) -> Option<Why> {
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

    /// Where an event starts, in picoseconds from the trace's zero, if it has a place in time.
    pub(crate) fn start(&self, event: usize) -> Option<i64> {
        self.why_unplaced(event).is_none().then(|| self.start_ps[event])
    }

    /// From where to where an event goes, if it has a place in time.
    pub(crate) fn stretch(&self, event: usize) -> Option<(i64, i64)> {
        self.start(event).map(|start| (start, start + self.duration_ps[event]))
    }

    /// The segment an event is in.
    pub(crate) fn segment(&self, event: usize) -> Option<&Segment> {
        let place = self.segments.partition_point(|segment| segment.events.end <= event);
        self.segments.get(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_values_are_found_dense_or_not() {
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
