//! A line, walked from event to event without looking into them: how many there are, and where every sixteenth begins.

use crate::wire::{Damage, Fields, Span, Value, varint};

/// Every so many events their place is kept.
pub(super) const LANDMARK: usize = 16;

/// The field `events` of a line: number and type in one byte.
const EVENT: u8 = 0x22;

/// What a line says of itself, and where its events are.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) id: i64,
    pub(super) name: Span,
    pub(super) display_name: Option<Span>,
    pub(super) timestamp_ns: i64,
    pub(super) events: usize,
    pub(super) landmarks: Vec<usize>,
    /// The line is damaged from here on; what stands before is whole.
    pub(super) damage: Option<Damage>,
    /// Where the whole part ends.
    pub(super) end: usize,
}

impl Head {
    pub(super) fn walk(file: &[u8], line: Span) -> Self {
        let mut head = Self { end: line.end, ..Self::default() };
        let mut at = line.start;
        while at < line.end {
            if file.get(at) == Some(&EVENT) {
                let mut next = at + 1;
                let length = varint(file, &mut next).and_then(|length| usize::try_from(length).ok());
                if let Some(end) = length.and_then(|length| next.checked_add(length)).filter(|&end| end <= line.end) {
                    if head.events.is_multiple_of(LANDMARK) {
                        head.landmarks.push(at);
                    }
                    head.events += 1;
                    at = end;
                    continue;
                }
            }
            let mut fields = Fields::new(file, Span { start: at, end: line.end });
            match fields.next() {
                Some(Ok(field)) => {
                    match (field.number, field.value) {
                        (1, Value::Varint(bits)) => head.id = bits.cast_signed(),
                        (2, Value::Span(span)) => head.name = span,
                        (3, Value::Varint(bits)) => head.timestamp_ns = bits.cast_signed(),
                        (11, Value::Span(span)) => head.display_name = (span.start < span.end).then_some(span),
                        _ => {}
                    }
                    at = fields.offset();
                }
                Some(Err(damage)) => {
                    head.damage = Some(damage);
                    head.end = at;
                    break;
                }
                None => break,
            }
        }
        head
    }
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
        assert_eq!((head.id, head.timestamp_ns, head.events, head.end), (5, 9, 40, file.len()));
        assert_eq!((head.name.of(&file), head.display_name.map(|name| name.of(&file))), (&b"a"[..], Some(&b"b"[..])));
        assert_eq!(head.damage, None);
        // Every sixteenth, and from there on all that follow.
        assert_eq!(head.landmarks.len(), 3);
        for (number, &start) in head.landmarks.iter().enumerate() {
            let events = Events::new(&file, Span { start, end: head.end });
            assert_eq!(events.count(), 40 - number * LANDMARK);
        }
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
        assert_eq!((head.events, head.end, head.damage), (40, whole, Some(damage)));
        assert_eq!(Events::new(&file, Span { start: head.landmarks[0], end: head.end }).count(), 40);
    }
}
