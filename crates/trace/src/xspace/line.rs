//! A line, walked from event to event without looking into them: how many there are, and where every sixteenth begins.

use crate::wire::{Damage, Field, Fields, Span, Value, varint};

/// Every so many events their place is kept.
pub(super) const LANDMARK: usize = 16;

/// The field `events` of a line: number and type in one byte.
const EVENT: u8 = 0x22;

/// What a line says of itself, and where its events are.
#[derive(Debug, Default)]
pub(super) struct Head {
    said: Said,
    /// Its events, in one part or several.
    pub(super) parts: Vec<Part>,
    /// The line is damaged from here on; what stands before is whole.
    pub(super) damage: Option<Damage>,
    /// Where the whole part ends.
    pub(super) end: usize,
}

/// What a line says of itself, as far as it does.
#[derive(Debug, Default, Clone, Copy)]
struct Said {
    id: Option<i64>,
    name: Option<Span>,
    display_name: Option<Span>,
    timestamp_ns: Option<i64>,
}

/// Some of the events of a line, one behind the other.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) events: usize,
    /// Where every sixteenth begins, from the first of the part.
    pub(super) landmarks: Vec<usize>,
    /// Where their bytes end.
    pub(super) end: usize,
}

/// Longer lines are walked from two places at once.
const LONG: usize = 4 << 20;
/// So many events in a row are no chance.
const IN_A_ROW: usize = 64;
/// So far an event is looked for.
const SEARCH: usize = 1 << 20;

impl Head {
    /// Walks a line. A long one has a second walk from what looks like an event in its middle; it counts if the first one
    /// comes to stand exactly there.
    pub(super) fn walk(file: &[u8], line: Span) -> Self {
        Self::walk_from_both(file, line, LONG)
    }

    fn walk_from_both(file: &[u8], line: Span, long: usize) -> Self {
        let middle = line.start + (line.end - line.start) / 2;
        let place = if line.end - line.start >= long { find_event(file, middle, line.end) } else { None };
        let Some(place) = place else {
            let mut head = Self::default();
            head.go(file, line.start, line.end, line.end);
            return head;
        };
        let mut second = Self::default();
        let (mut head, stood) = rayon::join(
            || {
                let mut head = Self::default();
                let stood = head.go(file, line.start, place, line.end);
                (head, stood)
            },
            || second.go(file, place, line.end, line.end),
        )
        .0;
        if head.damage.is_some() {
            return head;
        }
        if stood == place {
            head.append(second);
        } else {
            let mut rest = Self::default();
            rest.go(file, stood, line.end, line.end);
            head.append(rest);
        }
        head
    }

    /// Walks from a field up to a place or the first behind it, and returns where it stands.
    fn go(&mut self, file: &[u8], start: usize, until: usize, line_end: usize) -> usize {
        let mut part = Part::default();
        let mut at = start;
        while at < until {
            if file.get(at) == Some(&EVENT) {
                let mut next = at + 1;
                let length = varint(file, &mut next).and_then(|length| usize::try_from(length).ok());
                if let Some(end) = length.and_then(|length| next.checked_add(length)).filter(|&end| end <= line_end) {
                    if part.events.is_multiple_of(LANDMARK) {
                        part.landmarks.push(at);
                    }
                    part.events += 1;
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
        part.end = at;
        self.parts.push(part);
        at
    }

    /// What stands behind: of what both say the later counts.
    fn append(&mut self, later: Self) {
        let (said, other) = (&mut self.said, later.said);
        said.id = other.id.or(said.id);
        said.name = other.name.or(said.name);
        said.display_name = other.display_name.or(said.display_name);
        said.timestamp_ns = other.timestamp_ns.or(said.timestamp_ns);
        self.parts.extend(later.parts);
        (self.damage, self.end) = (later.damage, later.end);
    }

    pub(super) fn id(&self) -> i64 {
        self.said.id.unwrap_or(0)
    }

    pub(super) fn name(&self) -> Span {
        self.said.name.unwrap_or_default()
    }

    /// A name for people, where there is one.
    pub(super) fn display_name(&self) -> Option<Span> {
        self.said.display_name.filter(|name| name.start < name.end)
    }

    pub(super) fn timestamp_ns(&self) -> i64 {
        self.said.timestamp_ns.unwrap_or(0)
    }

    /// How many events there are.
    pub(super) fn events(&self) -> usize {
        self.parts.iter().map(|part| part.events).sum()
    }

    fn take(&mut self, field: Field) {
        match (field.number, field.value) {
            (1, Value::Varint(bits)) => self.said.id = Some(bits.cast_signed()),
            (2, Value::Span(span)) => self.said.name = Some(span),
            (3, Value::Varint(bits)) => self.said.timestamp_ns = Some(bits.cast_signed()),
            (11, Value::Span(span)) => self.said.display_name = Some(span),
            _ => {}
        }
    }
}

/// The first place from which events follow each other.
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

/// The places of events, from one of them to the end of the line.
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

    /// Forty events of two bytes each, with the line's own fields before, between and behind them.
    fn line() -> Vec<u8> {
        let mut bytes = vec![0x08, 0x02, 0x12, 0x01, b'a'];
        bytes.extend([EVENT, 0x02, 0x08, 0x01].repeat(20));
        bytes.extend([0x18, 0x09, 0x5a, 0x00]);
        bytes.extend([EVENT, 0x02, 0x08, 0x01].repeat(20));
        bytes.extend([0x08, 0x05, 0x5a, 0x01, b'b']);
        bytes
    }

    #[test]
    fn what_a_line_says_of_itself_stands_anywhere() {
        let file = line();
        let head = Head::walk(&file, Span { start: 0, end: file.len() });
        assert_eq!((head.id(), head.timestamp_ns(), head.events(), head.end), (5, 9, 40, file.len()));
        assert_eq!(head.name().of(&file), b"a");
        assert_eq!(head.display_name().map(|name| name.of(&file)), Some(&b"b"[..]));
        assert_eq!(head.damage, None);
        // Every sixteenth, and from there on all that follow.
        assert_eq!(head.parts[0].landmarks.len(), 3);
        for (number, &start) in head.parts[0].landmarks.iter().enumerate() {
            let events = Events::new(&file, Span { start, end: head.end });
            assert_eq!(events.count(), 40 - number * LANDMARK);
        }
    }

    /// The places of all events, and what else is known of a line.
    fn seen(file: &[u8], head: &Head) -> (Vec<Span>, [i64; 2], Span, usize, Option<Damage>) {
        let mut places = Vec::new();
        for part in &head.parts {
            for (number, &start) in part.landmarks.iter().enumerate() {
                let left = (part.events - number * LANDMARK).min(LANDMARK);
                places.extend(Events::new(file, Span { start, end: part.end }).take(left));
            }
        }
        (places, [head.id(), head.timestamp_ns()], head.name(), head.end, head.damage)
    }

    proptest! {
        #[test]
        fn two_walks_see_what_one_does(
            lengths in prop::collection::vec(0_u8..20, 0..600),
            odd in 0_usize..600,
            inside in 0_usize..3,
            cut in 0_usize..40,
        ) {
            let mut file = vec![0x08, 0x02, 0x12, 0x01, b'a'];
            for (number, &length) in lengths.iter().enumerate() {
                if number == odd {
                    match inside {
                        // An event full of what looks like events: the second walk may begin in it.
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
            prop_assert_eq!(seen(&file, &both), seen(&file, &one));
            prop_assert_eq!(both.events(), one.events());
        }
    }

    #[test]
    fn a_long_line_is_walked_from_both_places() {
        let file = [EVENT, 0x02, 0x08, 0x01].repeat(400);
        let head = Head::walk_from_both(&file, Span { start: 0, end: file.len() }, 1);
        assert_eq!(head.parts.iter().map(|part| part.events).collect::<Vec<_>>(), [200, 200]);
    }

    #[test]
    fn a_damaged_line_ends_before_the_damage() {
        let mut file = line();
        let whole = file.len();
        file.extend([EVENT, 0x05, 0x08, 0x01]);
        // What follows the line is another's, and no part of the event.
        let end = file.len();
        file.extend([0; 20]);
        let head = Head::walk(&file, Span { start: 0, end });
        let damage = Damage { offset: whole as u64, fault: Fault::PastTheEnd { claimed: 5, left: 2 } };
        assert_eq!((head.events(), head.end, head.damage), (40, whole, Some(damage)));
        assert_eq!(Events::new(&file, Span { start: head.parts[0].landmarks[0], end: head.end }).count(), 40);
    }
}
