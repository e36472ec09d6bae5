//! Walks a line without reading its events: counts them, and records the offset of every sixteenth.

use crate::wire::{Damage, Field, Fields, Span, Value, varint};

/// The distance between events whose offset is recorded.
pub(super) const LANDMARK: usize = 16;

/// The tag of `events` of a line: field number and wire type in one byte.
const EVENT: u8 = 0x22;

/// The header of a line and the location of its events.
#[derive(Debug, Default)]
pub(super) struct Head {
    header: Header,
    /// Its events, in one or more runs.
    pub(super) runs: Vec<EventRun>,
    /// The first damage of the line, which ends the walk.
    pub(super) damage: Option<Damage>,
    /// The offset of the end of the undamaged part.
    pub(super) end: usize,
}

/// The fields of a line other than its events.
#[derive(Debug, Default, Clone, Copy)]
struct Header {
    id: Option<i64>,
    name: Option<Span>,
    display_name: Option<Span>,
    timestamp_ns: Option<i64>,
}

/// Consecutive events of a line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct EventRun {
    pub(super) events: usize,
    /// The offset of every sixteenth event, starting with the first.
    pub(super) landmarks: Vec<usize>,
    /// The offset of the end of the events.
    pub(super) end: usize,
}

/// Longer lines are walked from two offsets in parallel.
const LONG: usize = 4 << 20;
/// This many consecutive events are not a coincidence.
const IN_A_ROW: usize = 64;
/// How far an event is searched for.
const SEARCH: usize = 1 << 20;

impl Head {
    /// Walks a line. On a long line, a second walk starts at bytes in the middle that look like events. Its result
    /// counts only if the first walk ends exactly where the second started.
    pub(super) fn walk(file: &[u8], line: Span) -> Self {
        Self::walk_from_both(file, line, LONG)
    }

    fn walk_from_both(file: &[u8], line: Span, long: usize) -> Self {
        let middle = line.start + (line.end - line.start) / 2;
        let place = if line.end - line.start >= long { find_event(file, middle, line.end) } else { None };
        let Some(place) = place else {
            let mut head = Self::default();
            head.walk_until(file, line.start, line.end, line.end);
            return head;
        };
        let mut second = Self::default();
        let (mut head, reached) = rayon::join(
            || {
                let mut head = Self::default();
                let reached = head.walk_until(file, line.start, place, line.end);
                (head, reached)
            },
            || second.walk_until(file, place, line.end, line.end),
        )
        .0;
        if head.damage.is_some() {
            return head;
        }
        if reached == place {
            head.append(second);
        } else {
            let mut rest = Self::default();
            rest.walk_until(file, reached, line.end, line.end);
            head.append(rest);
        }
        head
    }

    /// Walks from a field until `until` or the first field after it, and returns the offset it reached.
    fn walk_until(&mut self, file: &[u8], start: usize, until: usize, line_end: usize) -> usize {
        let mut run = EventRun::default();
        let mut at = start;
        while at < until {
            if file.get(at) == Some(&EVENT) {
                let mut next = at + 1;
                let length = varint(file, &mut next).and_then(|length| usize::try_from(length).ok());
                if let Some(end) = length.and_then(|length| next.checked_add(length)).filter(|&end| end <= line_end) {
                    if run.events.is_multiple_of(LANDMARK) {
                        run.landmarks.push(at);
                    }
                    run.events += 1;
                    at = end;
                    continue;
                }
            }
            let mut fields = Fields::new(file, Span { start: at, end: line_end });
            match fields.next() {
                Some(Ok(field)) => {
                    self.take(field);
                    at = fields.offset();
                }
                Some(Err(damage)) => {
                    self.damage = Some(damage);
                    break;
                }
                None => break,
            }
        }
        self.end = at;
        run.end = at;
        self.runs.push(run);
        at
    }

    /// Appends a later part of the line, whose header fields take precedence.
    fn append(&mut self, later: Self) {
        let (header, other) = (&mut self.header, later.header);
        header.id = other.id.or(header.id);
        header.name = other.name.or(header.name);
        header.display_name = other.display_name.or(header.display_name);
        header.timestamp_ns = other.timestamp_ns.or(header.timestamp_ns);
        self.runs.extend(later.runs);
        (self.damage, self.end) = (later.damage, later.end);
    }

    pub(super) fn id(&self) -> i64 {
        self.header.id.unwrap_or(0)
    }

    pub(super) fn name(&self) -> Span {
        self.header.name.unwrap_or_default()
    }

    /// The display name, if there is one.
    pub(super) fn display_name(&self) -> Option<Span> {
        self.header.display_name.filter(|name| name.start < name.end)
    }

    pub(super) fn timestamp_ns(&self) -> i64 {
        self.header.timestamp_ns.unwrap_or(0)
    }

    /// The number of events.
    pub(super) fn events(&self) -> usize {
        self.runs.iter().map(|run| run.events).sum()
    }

    fn take(&mut self, field: Field) {
        match (field.number, field.value) {
            (1, Value::Varint(bits)) => self.header.id = Some(bits.cast_signed()),
            (2, Value::Span(span)) => self.header.name = Some(span),
            (3, Value::Varint(bits)) => self.header.timestamp_ns = Some(bits.cast_signed()),
            (11, Value::Span(span)) => self.header.display_name = Some(span),
            _ => {}
        }
    }
}

/// The first offset from which events follow each other.
fn find_event(file: &[u8], from: usize, end: usize) -> Option<usize> {
    let is_event = |&place: &usize| {
        let mut at = place;
        (0..IN_A_ROW).all(|_| {
            let is_tag = file.get(at) == Some(&EVENT);
            at += 1;
            let length = varint(file, &mut at).and_then(|length| usize::try_from(length).ok());
            match length.and_then(|length| at.checked_add(length)) {
                Some(next) if is_tag && next < end => {
                    at = next;
                    true
                }
                _ => false,
            }
        })
    };
    (from..end.min(from.saturating_add(SEARCH))).find(is_event)
}

/// An iterator over the spans of events, from one of them to the end of the line.
pub(super) struct Events<'a> {
    file: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Events<'a> {
    pub(super) fn new(file: &'a [u8], bytes: Span) -> Self {
        Self { file, at: bytes.start, end: bytes.end }
    }
}

impl Iterator for Events<'_> {
    type Item = Span;

    #[inline]
    fn next(&mut self) -> Option<Span> {
        while self.at < self.end {
            if self.file.get(self.at) == Some(&EVENT) {
                let mut start = self.at + 1;
                let length = usize::try_from(varint(self.file, &mut start)?).ok()?;
                let end = start.checked_add(length).filter(|&end| end <= self.end)?;
                self.at = end;
                return Some(Span { start, end });
            }
            let mut fields = Fields::new(self.file, Span { start: self.at, end: self.end });
            fields.next()?.ok()?;
            self.at = fields.offset();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Fault;
    use proptest::prelude::*;

    /// Forty events of two bytes each, with other fields of the line before, between and after them.
    fn line() -> Vec<u8> {
        let mut bytes = vec![0x08, 0x02, 0x12, 0x01, b'a'];
        bytes.extend([EVENT, 0x02, 0x08, 0x01].repeat(20));
        bytes.extend([0x18, 0x09, 0x5a, 0x00]);
        bytes.extend([EVENT, 0x02, 0x08, 0x01].repeat(20));
        bytes.extend([0x08, 0x05, 0x5a, 0x01, b'b']);
        bytes
    }

    #[test]
    fn header_fields_may_be_anywhere() {
        let file = line();
        let head = Head::walk(&file, Span { start: 0, end: file.len() });
        assert_eq!((head.id(), head.timestamp_ns(), head.events(), head.end), (5, 9, 40, file.len()));
        assert_eq!(head.name().bytes(&file), b"a");
        assert_eq!(head.display_name().map(|name| name.bytes(&file)), Some(&b"b"[..]));
        assert_eq!(head.damage, None);
        // From every sixteenth event, all later ones are found.
        assert_eq!(head.runs[0].landmarks.len(), 3);
        for (number, &start) in head.runs[0].landmarks.iter().enumerate() {
            let events = Events::new(&file, Span { start, end: head.end });
            assert_eq!(events.count(), 40 - number * LANDMARK);
        }
    }

    /// The spans of all events, and the header of a line.
    fn walked(file: &[u8], head: &Head) -> (Vec<Span>, [i64; 2], Span, usize, Option<Damage>) {
        let mut places = Vec::new();
        for run in &head.runs {
            for (number, &start) in run.landmarks.iter().enumerate() {
                let left = (run.events - number * LANDMARK).min(LANDMARK);
                places.extend(Events::new(file, Span { start, end: run.end }).take(left));
            }
        }
        (places, [head.id(), head.timestamp_ns()], head.name(), head.end, head.damage)
    }

    proptest! {
        #[test]
        fn two_walks_find_what_one_does(
            lengths in prop::collection::vec(0_u8..20, 0..600),
            odd in 0_usize..600,
            inside in 0_usize..3,
            cut in 0_usize..40,
        ) {
            let mut file = vec![0x08, 0x02, 0x12, 0x01, b'a'];
            for (number, &length) in lengths.iter().enumerate() {
                if number == odd {
                    match inside {
                        // An event whose content looks like events, in which the second walk may begin.
                        0 => file.extend([&[EVENT, 0x80, 0x08][..], &[EVENT, 0x02, 0x08, 0x01].repeat(256)].concat()),
                        1 => file.extend([0x18, 0x09, 0x12, 0x01, b'b']),
                        _ => file.push(0x07),
                    }
                }
                file.extend([EVENT, length]);
                file.extend(std::iter::repeat_n(EVENT, usize::from(length)));
            }
            let end = file.len().saturating_sub(cut).max(5);
            let line = Span { start: 0, end };
            let (one, both) = (Head::walk_from_both(&file, line, usize::MAX), Head::walk_from_both(&file, line, 1));
            prop_assert_eq!(walked(&file, &both), walked(&file, &one));
            prop_assert_eq!(both.events(), one.events());
        }
    }

    #[test]
    fn a_long_line_is_walked_from_two_offsets() {
        let file = [EVENT, 0x02, 0x08, 0x01].repeat(400);
        let head = Head::walk_from_both(&file, Span { start: 0, end: file.len() }, 1);
        assert_eq!(head.runs.iter().map(|run| run.events).collect::<Vec<_>>(), [200, 200]);
    }

    #[test]
    fn a_damaged_line_ends_before_the_damage() {
        let mut file = line();
        let whole = file.len();
        file.extend([EVENT, 0x05, 0x08, 0x01]);
        // The bytes after the line do not belong to the event.
        let end = file.len();
        file.extend([0; 20]);
        let head = Head::walk(&file, Span { start: 0, end });
        let damage = Damage { offset: whole as u64, fault: Fault::PastTheEnd { claimed: 5, left: 2 } };
        assert_eq!((head.events(), head.end, head.damage), (40, whole, Some(damage)));
        assert_eq!(Events::new(&file, Span { start: head.runs[0].landmarks[0], end: head.end }).count(), 40);
    }
}
