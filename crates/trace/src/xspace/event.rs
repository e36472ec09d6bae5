//! Events of a chunk of a line into their columns: one walk over the bytes, which stops only at the stats that are wanted.

use super::identity::{Identity, Interner, LocalKind, Tag, Wanted, WantedStats};
use super::line::Events;
use crate::table::{Ids, KindId, Unplaced, Why};
use crate::wire::{Damage, Fault, Field, Fields, Span, Value, varint};

/// Times are kept this far from zero, so that a difference of two never overflows.
pub(super) const FARTHEST_PS: i64 = (1 << 62) - 1;

/// What the events of a chunk are written to.
pub(super) struct Columns<'a> {
    pub(super) start_ps: &'a mut [i64],
    pub(super) duration_ps: &'a mut [i64],
    pub(super) kind: &'a mut [KindId],
}

/// What the reader has to know of a chunk.
pub(super) struct Chunk<'a> {
    pub(super) file: &'a [u8],
    /// From the first event's field to the end of the line.
    pub(super) bytes: Span,
    /// Where offsets begin, from the trace's zero; `None` where that is no number of picoseconds.
    pub(super) base_ps: Option<i64>,
    pub(super) wanted: &'a WantedStats,
    /// The highest number of a description on the plane.
    pub(super) largest_metadata: i64,
}

/// What a chunk gave beside its columns. Events are counted from its first.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) kinds: Vec<LocalKind>,
    pub(super) strings: Vec<Span>,
    pub(super) ids: Ids,
    pub(super) unplaced: Vec<Unplaced>,
    pub(super) negative_durations: u64,
    pub(super) first_damage: Option<Damage>,
}

/// Where what an event says goes.
struct Into<'a, 'i> {
    kinds: Interner<'a>,
    ids: &'i mut Ids,
}

impl Into<'_, '_> {
    /// Takes back what the last event tied itself to.
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

/// The fields of an event as the format writes them: number and type in one byte.
const METADATA_ID: u8 = 0x08;
const OFFSET_PS: u8 = 0x10;
const DURATION_PS: u8 = 0x18;
const STAT: u8 = 0x22;

/// The numbers among the values of a stat.
const UNSIGNED: u8 = 0x18;
const SIGNED: u8 = 0x20;
const REFERENCE: u8 = 0x38;

/// An event that was read.
enum Read {
    /// It is of this kind of the chunk.
    Known(u32),
    /// Its stats were looked at. From here to its end they say what it is, and nothing else; empty where they do not.
    New { tail: Span },
}

/// What a stat was good for.
enum Seen {
    Nothing,
    /// It says what the event is.
    Identity,
    /// It ties the event to others.
    Id,
}

/// Where the end of an event begins that says what it is.
#[derive(PartialEq, Eq)]
enum Tail {
    None,
    From(usize),
    /// There is more in it.
    Never,
}

/// Longer ends are rare, and not worth comparing.
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
    /// Fills the columns; as many events are read as they have room for.
    pub(super) fn read(&self, columns: Columns<'_>) -> Gathered {
        let (mut gathered, mut ids) = (Gathered::default(), Ids::default());
        let mut places = Events::new(self.file, self.bytes);
        let Columns { start_ps, duration_ps, kind } = columns;
        let mut into = Into { kinds: Interner::new(self.largest_metadata, kind.len()), ids: &mut ids };
        for (event, ((start_ps, duration_ps), kind)) in (0_u32..).zip(start_ps.iter_mut().zip(duration_ps).zip(kind)) {
            // The line was walked before: as many events are there as there is room for.
            let Some(span) = places.next() else { break };
            let mut raw = Raw::default();
            let read = self.event(span, event, &mut raw, &mut into);
            if read.is_none() {
                gathered.first_damage.get_or_insert_with(|| diagnose(self.file, span));
                gathered.unplaced.push(Unplaced { event, why: Why::Damaged });
                into.forget(event);
                raw.identity = Identity::default();
                raw.duration_ps = 0;
            } else {
                if raw.duration_ps < 0 {
                    gathered.negative_durations += 1;
                    raw.duration_ps = 0;
                }
                if let Some(occurrences) = raw.occurrences {
                    gathered.unplaced.push(Unplaced { event, why: Why::Aggregated(occurrences) });
                } else {
                    match self.place(raw.offset_ps, raw.duration_ps) {
                        Some(start) => *start_ps = start,
                        None => gathered.unplaced.push(Unplaced { event, why: Why::OutOfRange }),
                    }
                }
            }
            *duration_ps = raw.duration_ps;
            *kind = KindId(match read {
                Some(Read::Known(kind)) => kind,
                Some(Read::New { tail }) => into.kinds.intern_with(raw.metadata_id, &raw.identity, tail),
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

    /// Reads an event; `None` where it is damaged. Writers put fields in the order of their numbers, so each is looked for
    /// where it should be: a branch that always goes the same way costs nothing, a jump by the tag does.
    ///
    /// What an event is stands at its end, behind the numbers that are its own. Where that end is the same, byte by byte, as
    /// that of the last event of its description, so is its kind, and the stats in it need no second look.
    #[inline]
    fn event(&self, span: Span, number: u32, raw: &mut Raw, into: &mut Into<'a, '_>) -> Option<Read> {
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
            if at == known_start && tail == Tail::None && file[at..] == *known_tail.of(self.file) {
                return Some(Read::Known(known));
            }
            if file[at] == STAT {
                let start = at;
                let seen;
                (at, seen) = self.stat_field(file, at + 1, number, raw, into)?;
                tail = match (seen, tail) {
                    (Seen::Identity, Tail::None) => Tail::From(start),
                    (Seen::Id, Tail::From(_)) => Tail::Never,
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
        Some(Read::New { tail: Span { start, end: file.len() } })
    }

    /// Reads a stat whose length is at this place; returns where the next field begins.
    #[inline]
    fn stat_field(
        &self,
        file: &[u8],
        mut at: usize,
        number: u32,
        raw: &mut Raw,
        into: &mut Into<'a, '_>,
    ) -> Option<(usize, Seen)> {
        // Nearly all: a short stat with a small number that nobody wants.
        if let Some(&[length, METADATA_ID, id]) = file.get(at..).and_then(<[u8]>::first_chunk) {
            let end = at + 1 + usize::from(length);
            if length < 0x80 && id < 0x80 && length >= 2 && end <= file.len() && self.wanted.is_unwanted(id) {
                return Some((end, Seen::Nothing));
            }
        }
        let length = usize::try_from(varint(file, &mut at)?).ok()?;
        let end = at.checked_add(length).filter(|&end| end <= file.len())?;
        Some((end, self.stat(Span { start: at, end }, number, raw, into)?))
    }

    /// Reads any other field that stands where a stat is usual; returns where the next one begins.
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
            // What later versions of the format may add.
            _ => {}
        }
        Some(fields.offset())
    }

    /// Reads a stat if it is wanted; `None` where it is damaged.
    #[inline]
    fn stat(&self, span: Span, number: u32, raw: &mut Raw, into: &mut Into<'a, '_>) -> Option<Seen> {
        let mut at = span.start;
        // An empty message is the stat zero without a value; a name that does not come first is unusual, not wrong.
        let id = if self.file.get(at) == Some(&METADATA_ID) && at < span.end {
            at += 1;
            varint(self.file, &mut at).filter(|_| at <= span.end)?
        } else {
            let fields = Fields::new(self.file, span).filter_map(Result::ok).filter(|field| field.number == 1);
            fields.filter_map(Field::signed).last().unwrap_or(0).cast_unsigned()
        };
        match self.wanted.get(id) {
            Some(wanted) => self.wanted_stat(wanted, Span { start: at, end: span.end }, number, raw, into),
            None => Some(Seen::Nothing),
        }
    }

    fn wanted_stat(
        &self,
        wanted: Wanted,
        rest: Span,
        number: u32,
        raw: &mut Raw,
        into: &mut Into<'a, '_>,
    ) -> Option<Seen> {
        let mut found = (Tag::Absent, 0);
        let mut at = rest.start + 1;
        // Nearly all: one number, and nothing behind it.
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
                (5 | 6, Value::Span(span)) if wanted.is_identity() => (Tag::Text, into.kinds.string(self.file, span)),
                (5 | 6, Value::Span(_)) => (Tag::Absent, 0),
                (7, Value::Varint(bits)) => (Tag::Reference, bits),
                _ => found,
            };
        }
        let (tag, bits) = found;
        let ids = &mut *into.ids;
        let column = match wanted {
            Wanted::Run => &mut ids.run,
            Wanted::Scope => &mut ids.scope,
            Wanted::Correlation => &mut ids.correlation,
            Wanted::Step => &mut ids.step,
            identity => {
                raw.identity.set(identity, tag, bits);
                return Some(Seen::Identity);
            }
        };
        if matches!(tag, Tag::Unsigned | Tag::Signed) {
            column.set(number, bits.cast_signed());
        }
        Some(Seen::Id)
    }
}

/// Why an event cannot be read.
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
