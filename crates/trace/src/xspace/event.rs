//! Reads the events of a chunk of a line into columns, in one pass over the bytes that reads only the stats it needs.

use super::identity::{Identity, Interner, KnownStat, KnownStats, LocalKind, Tag};
use super::line::Events;
use crate::table::{Ids, KindId, Unplaced, UnplacedReason};
use crate::wire::{Damage, Fault, Field, Fields, Span, Value, varint};

/// The largest distance of a time from zero, so that a difference of two times never overflows.
pub(super) const FARTHEST_PS: i64 = (1 << 62) - 1;

/// The columns that the events of a chunk are written to.
pub(super) struct Columns<'a> {
    pub(super) start_ps: &'a mut [i64],
    pub(super) duration_ps: &'a mut [i64],
    pub(super) kind: &'a mut [KindId],
}

/// A chunk of the events of a line.
pub(super) struct Chunk<'a> {
    pub(super) file: &'a [u8],
    /// From the field of the first event to the end of the line.
    pub(super) bytes: Span,
    /// The time that offsets count from, from the zero of the trace; `None` if it does not fit into picoseconds.
    pub(super) base_ps: Option<i64>,
    pub(super) known_stats: &'a KnownStats,
    /// The highest number of an event description on the plane.
    pub(super) largest_metadata: i64,
}

/// The results of reading a chunk, besides its columns. Events are numbered from the first of the chunk.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) kinds: Vec<LocalKind>,
    pub(super) strings: Vec<Span>,
    pub(super) ids: Ids,
    pub(super) unplaced: Vec<Unplaced>,
    pub(super) negative_durations: u64,
    pub(super) first_damage: Option<Damage>,
}

/// Receives the kinds and ids of events.
struct Collector<'a, 'i> {
    kinds: Interner<'a>,
    ids: &'i mut Ids,
}

impl Collector<'_, '_> {
    /// Removes the ids of the last event.
    fn forget(&mut self, event: u32) {
        let Ids { run, scope, correlation, step } = &mut *self.ids;
        for column in [run, scope, correlation, step] {
            if column.event.last() == Some(&event) {
                column.event.pop();
                column.value.pop();
            }
        }
    }
}

/// The tags of the fields of an event: number and wire type in one byte.
const METADATA_ID: u8 = 0x08;
const OFFSET_PS: u8 = 0x10;
const DURATION_PS: u8 = 0x18;
const STAT: u8 = 0x22;

/// The tags of integer values of a stat.
const UNSIGNED: u8 = 0x18;
const SIGNED: u8 = 0x20;
const REFERENCE: u8 = 0x38;

/// The kind of an event that was read.
enum EventKind {
    /// A kind of the chunk that is already known.
    Known(u32),
    /// A kind to be interned. `tail` is the end of the event if that contains all identifying stats and nothing else;
    /// otherwise it is empty.
    New { tail: Span },
}

/// The use of a stat.
enum StatUse {
    /// It is not needed.
    Nothing,
    /// It identifies the event.
    Identity,
    /// It connects the event to others.
    Id,
}

/// The start of the end of an event that contains all identifying stats.
#[derive(PartialEq, Eq)]
enum Tail {
    None,
    From(usize),
    /// Other fields follow the identifying stats.
    Never,
}

/// Longer tails are rare, and not worth comparing.
const LONGEST_TAIL: usize = 256;

#[derive(Default)]
struct Raw {
    metadata_id: i64,
    offset_ps: i64,
    duration_ps: i64,
    occurrences: Option<i64>,
    identity: Identity,
}

impl<'a> Chunk<'a> {
    /// Reads as many events as the columns have room for.
    pub(super) fn read(&self, columns: Columns<'_>) -> Gathered {
        let (mut gathered, mut ids) = (Gathered::default(), Ids::default());
        let mut places = Events::new(self.file, self.bytes);
        let Columns { start_ps, duration_ps, kind } = columns;
        let mut into = Collector { kinds: Interner::new(self.largest_metadata, kind.len()), ids: &mut ids };
        for (event, ((start_ps, duration_ps), kind)) in (0_u32..).zip(start_ps.iter_mut().zip(duration_ps).zip(kind)) {
            // The line was walked before, so there are as many events as there is room for.
            let Some(span) = places.next() else { break };
            let mut raw = Raw::default();
            let read = self.event(span, event, &mut raw, &mut into);
            if read.is_none() {
                gathered.first_damage.get_or_insert_with(|| diagnose(self.file, span));
                gathered.unplaced.push(Unplaced { event, why: UnplacedReason::Damaged });
                into.forget(event);
                raw.identity = Identity::default();
                raw.duration_ps = 0;
            } else {
                if raw.duration_ps < 0 {
                    gathered.negative_durations += 1;
                    raw.duration_ps = 0;
                }
                if let Some(occurrences) = raw.occurrences {
                    gathered.unplaced.push(Unplaced { event, why: UnplacedReason::Aggregated(occurrences) });
                } else {
                    match self.place(raw.offset_ps, raw.duration_ps) {
                        Some(start) => *start_ps = start,
                        None => gathered.unplaced.push(Unplaced { event, why: UnplacedReason::OutOfRange }),
                    }
                }
            }
            *duration_ps = raw.duration_ps;
            *kind = KindId(match read {
                Some(EventKind::Known(kind)) => kind,
                Some(EventKind::New { tail }) => into.kinds.intern_with(raw.metadata_id, &raw.identity, tail),
                None => into.kinds.intern(raw.metadata_id, &raw.identity),
            });
        }
        gathered.kinds = into.kinds.kinds;
        gathered.strings = into.kinds.strings;
        gathered.ids = ids;
        gathered
    }

    fn place(&self, offset_ps: i64, duration_ps: i64) -> Option<i64> {
        let start = self.base_ps?.checked_add(offset_ps)?;
        let end = start.checked_add(duration_ps)?;
        (start >= -FARTHEST_PS && end <= FARTHEST_PS).then_some(start)
    }

    /// Reads an event; `None` if it is damaged. Writers write fields in the order of their numbers, so each field is
    /// expected at its position: a predictable branch is free, a jump by the tag is not.
    ///
    /// The identifying stats of an event are at its end, after its ids. If its end has the same bytes as the end of the
    /// last event with the same description, it has the same kind, and its stats need not be parsed.
    #[inline]
    fn event(&self, span: Span, number: u32, raw: &mut Raw, into: &mut Collector<'a, '_>) -> Option<EventKind> {
        let (file, mut at) = (self.file.get(..span.end)?, span.start);
        if file.get(at) == Some(&METADATA_ID) {
            at += 1;
            raw.metadata_id = varint(file, &mut at)?.cast_signed();
        }
        if file.get(at) == Some(&OFFSET_PS) {
            at += 1;
            raw.offset_ps = varint(file, &mut at)?.cast_signed();
        }
        if file.get(at) == Some(&DURATION_PS) {
            at += 1;
            raw.duration_ps = varint(file, &mut at)?.cast_signed();
        }
        let (known, known_tail) = into.kinds.last(raw.metadata_id);
        let known_start = file.len().wrapping_sub(known_tail.end - known_tail.start);
        let mut tail = Tail::None;
        while at < file.len() {
            if at == known_start && tail == Tail::None && file[at..] == *known_tail.bytes(self.file) {
                return Some(EventKind::Known(known));
            }
            if file[at] == STAT {
                let start = at;
                let seen;
                (at, seen) = self.stat_field(file, at + 1, number, raw, into)?;
                tail = match (seen, tail) {
                    (StatUse::Identity, Tail::None) => Tail::From(start),
                    (StatUse::Id, Tail::From(_)) => Tail::Never,
                    (_, tail) => tail,
                };
            } else {
                at = Self::unusual(file, at, raw)?;
                tail = Tail::Never;
            }
        }
        let start = match tail {
            Tail::From(start) if file.len() - start <= LONGEST_TAIL => start,
            _ => file.len(),
        };
        Some(EventKind::New { tail: Span { start, end: file.len() } })
    }

    /// Reads a stat whose length is at `at`; returns the offset of the next field.
    #[inline]
    fn stat_field(
        &self,
        file: &[u8],
        mut at: usize,
        number: u32,
        raw: &mut Raw,
        into: &mut Collector<'a, '_>,
    ) -> Option<(usize, StatUse)> {
        // The usual case: a short stat with a small number that is not needed.
        if let Some(&[length, METADATA_ID, id]) = file.get(at..).and_then(<[u8]>::first_chunk) {
            let end = at + 1 + usize::from(length);
            if length < 0x80 && id < 0x80 && length >= 2 && end <= file.len() && self.known_stats.is_unknown(id) {
                return Some((end, StatUse::Nothing));
            }
        }
        let length = usize::try_from(varint(file, &mut at)?).ok()?;
        let end = at.checked_add(length).filter(|&end| end <= file.len())?;
        Some((end, self.stat(Span { start: at, end }, number, raw, into)?))
    }

    /// Reads a field other than a stat; returns the offset of the next one.
    #[cold]
    fn unusual(file: &[u8], at: usize, raw: &mut Raw) -> Option<usize> {
        let mut fields = Fields::new(file, Span { start: at, end: file.len() });
        let field = fields.next()?.ok()?;
        match (field.number, field.signed()) {
            (1, Some(id)) => raw.metadata_id = id,
            (2, Some(offset_ps)) => {
                raw.offset_ps = offset_ps;
                raw.occurrences = None;
            }
            (3, Some(duration_ps)) => raw.duration_ps = duration_ps,
            (5, Some(occurrences)) => raw.occurrences = Some(occurrences),
            // Fields of later versions of the format.
            _ => {}
        }
        Some(fields.offset())
    }

    /// Reads a stat if it is needed; `None` if it is damaged.
    #[inline]
    fn stat(&self, span: Span, number: u32, raw: &mut Raw, into: &mut Collector<'a, '_>) -> Option<StatUse> {
        let mut at = span.start;
        // An empty message is stat zero without a value. The number of a stat need not come first.
        let id = if self.file.get(at) == Some(&METADATA_ID) && at < span.end {
            at += 1;
            varint(self.file, &mut at).filter(|_| at <= span.end)?
        } else {
            let fields = Fields::new(self.file, span).filter_map(Result::ok).filter(|field| field.number == 1);
            fields.filter_map(Field::signed).last().unwrap_or(0).cast_unsigned()
        };
        match self.known_stats.get(id) {
            Some(known) => self.known_stat(known, Span { start: at, end: span.end }, number, raw, into),
            None => Some(StatUse::Nothing),
        }
    }

    fn known_stat(
        &self,
        known: KnownStat,
        rest: Span,
        number: u32,
        raw: &mut Raw,
        into: &mut Collector<'a, '_>,
    ) -> Option<StatUse> {
        let mut found = (Tag::Absent, 0);
        let mut at = rest.start + 1;
        // The usual case: a single integer.
        let number_tag = match self.file.get(rest.start) {
            Some(&UNSIGNED) => Some(Tag::Unsigned),
            Some(&SIGNED) => Some(Tag::Signed),
            Some(&REFERENCE) => Some(Tag::Reference),
            _ => None,
        };
        let one = number_tag.and_then(|tag| Some((tag, varint(self.file, &mut at)?))).filter(|_| at == rest.end);
        let fields = if one.is_some() { Span { start: rest.end, end: rest.end } } else { rest };
        found = one.unwrap_or(found);
        for field in Fields::new(self.file, fields) {
            let field = field.ok()?;
            found = match (field.number, field.value) {
                (2, Value::Fixed64(bits)) => (Tag::Double, bits),
                (3, Value::Varint(bits)) => (Tag::Unsigned, bits),
                (4, Value::Varint(bits)) => (Tag::Signed, bits),
                (5 | 6, Value::Span(span)) if known.is_identity() => (Tag::Text, into.kinds.string(self.file, span)),
                (5 | 6, Value::Span(_)) => (Tag::Absent, 0),
                (7, Value::Varint(bits)) => (Tag::Reference, bits),
                _ => found,
            };
        }
        let (tag, bits) = found;
        let ids = &mut *into.ids;
        let column = match known {
            KnownStat::Run => &mut ids.run,
            KnownStat::Scope => &mut ids.scope,
            KnownStat::Correlation => &mut ids.correlation,
            KnownStat::Step => &mut ids.step,
            identity => {
                raw.identity.set(identity, tag, bits);
                return Some(StatUse::Identity);
            }
        };
        if matches!(tag, Tag::Unsigned | Tag::Signed) {
            column.set(number, bits.cast_signed());
        }
        Some(StatUse::Id)
    }
}

/// Finds the damage of an event that cannot be read.
fn diagnose(file: &[u8], event: Span) -> Damage {
    let mut inner = None;
    for field in Fields::new(file, event) {
        match field {
            Err(damage) => return damage,
            Ok(field) if field.number == 4 && inner.is_none() => {
                let stat = field.span().map(|stat| Fields::new(file, stat).find_map(Result::err));
                inner = stat.flatten();
            }
            Ok(_) => {}
        }
    }
    let left = (event.end - event.start) as u64;
    inner.unwrap_or(Damage { offset: event.start as u64, fault: Fault::PastTheEnd { claimed: left + 1, left } })
}
