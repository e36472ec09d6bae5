//! What tells one kind of event from another on a plane, as raw numbers; names are looked up once a kind, not once an event.

use foldhash::HashMap;

use crate::table::number;
use crate::wire::Span;

/// The stats that are looked at while events are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Wanted {
    Module = 0,
    Op = 1,
    Program = 2,
    Path = 3,
    FrameworkOp = 4,
    DeviceOrdinal = 5,
    Run = 6,
    Scope = 7,
    Correlation = 8,
    Step = 9,
}

/// How many of them are part of what an event is. The others tie events together.
const IDENTITY_STATS: usize = 6;
/// How many there are.
const WANTED_STATS: usize = 10;

impl Wanted {
    const ALL: [(Self, &[u8]); WANTED_STATS] = [
        (Self::Module, b"hlo_module"),
        (Self::Op, b"hlo_op"),
        (Self::Program, b"program_id"),
        (Self::Path, b"name"),
        (Self::FrameworkOp, b"tf_op"),
        (Self::DeviceOrdinal, b"device_ordinal"),
        (Self::Run, b"run_id"),
        (Self::Scope, b"scope_range_id"),
        (Self::Correlation, b"correlation_id"),
        (Self::Step, b"step_num"),
    ];

    pub(super) fn of(name: &[u8]) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|&(wanted, _)| wanted)
    }

    pub(super) fn name(self) -> &'static [u8] {
        Self::ALL[self as usize].1
    }

    pub(super) fn is_identity(self) -> bool {
        (self as usize) < IDENTITY_STATS
    }
}

/// The type of a raw value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    Absent,
    Double,
    Unsigned,
    Signed,
    /// The number of a string of the chunk.
    Text,
    Reference,
}

impl Tag {
    const ALL: [Self; 6] = [Self::Absent, Self::Double, Self::Unsigned, Self::Signed, Self::Text, Self::Reference];
}

/// The stats of an event that say what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Identity {
    /// A byte for the type of each.
    tags: u64,
    bits: [u64; IDENTITY_STATS],
}

impl Identity {
    /// Equality without a branch a word: it is asked of every event.
    #[inline]
    fn is(&self, other: &Self) -> bool {
        let words = self.bits.iter().zip(&other.bits);
        words.fold(self.tags ^ other.tags, |differences, (left, right)| differences | (left ^ right)) == 0
    }

    pub(super) fn set(&mut self, wanted: Wanted, tag: Tag, bits: u64) {
        let place = wanted as usize;
        self.tags = (self.tags & !(0xff << (8 * place))) | ((tag as u64) << (8 * place));
        self.bits[place] = bits;
    }

    pub(super) fn get(&self, wanted: Wanted) -> (Tag, u64) {
        let place = wanted as usize;
        let tag = (self.tags >> (8 * place)) & 0xff;
        (Tag::ALL.get(tag as usize).copied().unwrap_or(Tag::Absent), self.bits[place])
    }
}

/// A kind as one chunk of events knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct LocalKind {
    pub(super) metadata_id: i64,
    pub(super) identity: Identity,
}

/// Which stats of a plane are wanted, by their number there. Most numbers are small.
#[derive(Debug, Default)]
pub(super) struct WantedStats {
    dense: Vec<Option<Wanted>>,
    sparse: HashMap<i64, Wanted>,
}

/// Numbers below this are looked up in a table.
const DENSE: i64 = 1 << 12;

impl WantedStats {
    pub(super) fn new(wanted: impl Iterator<Item = (i64, Wanted)>) -> Self {
        let mut stats = Self::default();
        for (id, wanted) in wanted {
            match usize::try_from(id) {
                Ok(place) if id < DENSE => {
                    if place >= stats.dense.len() {
                        stats.dense.resize(place + 1, None);
                    }
                    stats.dense[place] = Some(wanted);
                }
                _ => {
                    stats.sparse.insert(id, wanted);
                }
            }
        }
        stats
    }

    /// Whether a small number is surely none of them.
    #[inline]
    pub(super) fn is_unwanted(&self, id: u8) -> bool {
        match self.dense.get(usize::from(id)) {
            Some(wanted) => wanted.is_none(),
            None => self.sparse.is_empty() || !self.sparse.contains_key(&i64::from(id)),
        }
    }

    #[inline]
    pub(super) fn get(&self, id: u64) -> Option<Wanted> {
        match usize::try_from(id).ok().and_then(|place| self.dense.get(place)) {
            Some(&wanted) => wanted,
            None if self.sparse.is_empty() => None,
            None => self.sparse.get(&id.cast_signed()).copied(),
        }
    }
}

/// The kinds of a chunk, each once.
#[derive(Debug)]
pub(super) struct Interner<'a> {
    pub(super) kinds: Vec<LocalKind>,
    places: HashMap<LocalKind, u32>,
    /// The kind that events of this metadata had last: it is nearly always the next one's too.
    last: Vec<u32>,
    /// Of every kind the bytes of an event that say so.
    tails: Vec<Span>,
    pub(super) strings: Vec<Span>,
    string_places: HashMap<&'a [u8], u32>,
}

const NONE: u32 = u32::MAX;

impl<'a> Interner<'a> {
    /// `largest` is the highest number of a description on the plane. Few events do not pay for a long table.
    pub(super) fn new(largest: i64, events: usize) -> Self {
        let length = usize::try_from(largest.clamp(-1, 1 << 16) + 1).unwrap_or(0).min(events.saturating_mul(4));
        Self {
            kinds: Vec::new(),
            places: HashMap::default(),
            last: vec![NONE; length],
            tails: Vec::new(),
            strings: Vec::new(),
            string_places: HashMap::default(),
        }
    }

    #[inline]
    pub(super) fn intern(&mut self, metadata_id: i64, identity: &Identity) -> u32 {
        let place = usize::try_from(metadata_id).unwrap_or(usize::MAX);
        if let Some(&last) = self.last.get(place)
            && let Some(kind) = self.kinds.get(last as usize)
            && kind.identity.is(identity)
        {
            return last;
        }
        self.intern_new(metadata_id, identity)
    }

    /// As `intern`, and remembers the bytes that say what the kind is.
    #[inline]
    pub(super) fn intern_with(&mut self, metadata_id: i64, identity: &Identity, tail: Span) -> u32 {
        let kind = self.intern(metadata_id, identity);
        if tail.start < tail.end {
            self.tails[kind as usize] = tail;
        }
        kind
    }

    /// The kind that events of this metadata had last, and the bytes that say so; no bytes where there is none.
    #[inline]
    pub(super) fn last(&self, metadata_id: i64) -> (u32, Span) {
        let last = usize::try_from(metadata_id).ok().and_then(|place| self.last.get(place)).copied().unwrap_or(NONE);
        (last, self.tails.get(last as usize).copied().unwrap_or_default())
    }

    fn intern_new(&mut self, metadata_id: i64, identity: &Identity) -> u32 {
        let kind = LocalKind { metadata_id, identity: *identity };
        let next = number(self.kinds.len());
        let id = *self.places.entry(kind).or_insert(next);
        if id == next {
            self.kinds.push(kind);
            self.tails.push(Span::default());
        }
        if let Some(last) = usize::try_from(metadata_id).ok().and_then(|place| self.last.get_mut(place)) {
            *last = id;
        }
        id
    }

    pub(super) fn string(&mut self, file: &'a [u8], span: Span) -> u64 {
        let next = number(self.strings.len());
        let id = *self.string_places.entry(span.of(file)).or_insert(next);
        if id == next {
            self.strings.push(span);
        }
        u64::from(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wanted_stat_has_its_place() {
        for (place, (wanted, name)) in Wanted::ALL.into_iter().enumerate() {
            assert_eq!((wanted as usize, Wanted::of(name)), (place, Some(wanted)));
            assert_eq!(wanted.is_identity(), place < IDENTITY_STATS);
        }
        assert_eq!(Wanted::of(b"hlo_modul"), None);
        for (place, tag) in Tag::ALL.into_iter().enumerate() {
            assert_eq!(tag as usize, place);
        }
    }

    #[test]
    fn values_of_an_identity_do_not_touch_each_other() {
        let mut identity = Identity::default();
        identity.set(Wanted::Module, Tag::Reference, 7);
        identity.set(Wanted::DeviceOrdinal, Tag::Signed, u64::MAX);
        identity.set(Wanted::Module, Tag::Text, 1);
        assert_eq!(identity.get(Wanted::Module), (Tag::Text, 1));
        assert_eq!(identity.get(Wanted::Op), (Tag::Absent, 0));
        assert_eq!(identity.get(Wanted::DeviceOrdinal), (Tag::Signed, u64::MAX));
    }

    #[test]
    fn stats_are_found_by_any_number() {
        let ids = [(0, Wanted::Module), (DENSE - 1, Wanted::Op), (DENSE, Wanted::Run), (-1, Wanted::Step)];
        let stats = WantedStats::new(ids.into_iter());
        for (id, wanted) in ids {
            assert_eq!(stats.get(id.cast_unsigned()), Some(wanted), "{id}");
        }
        for id in [1, DENSE + 1, -2, i64::MIN, i64::MAX] {
            assert_eq!(stats.get(id.cast_unsigned()), None, "{id}");
        }
    }

    #[test]
    fn a_kind_has_one_number_in_the_table_or_beyond_it() {
        let mut interner = Interner::new(10, 1);
        let mut other = Identity::default();
        other.set(Wanted::Program, Tag::Unsigned, 3);
        // With one event the table has four places: three is in it, the others are not.
        let ids = [3, 10, -1, i64::MAX];
        let first: Vec<u32> = ids.iter().map(|&id| interner.intern(id, &Identity::default())).collect();
        let second: Vec<u32> = ids.iter().map(|&id| interner.intern(id, &other)).collect();
        assert_eq!((&first[..], &second[..]), (&[0, 1, 2, 3][..], &[4, 5, 6, 7][..]));
        assert_eq!(ids.map(|id| interner.intern(id, &Identity::default())), first[..]);
        assert_eq!(interner.kinds.len(), 8);
        let file = b"abab";
        let spans = [0, 1, 2].map(|start| Span { start, end: start + 2 });
        assert_eq!(spans.map(|span| interner.string(file, span)), [0, 1, 0]);
    }
}
