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
