//! Distinguishes kinds of events on a plane by raw numbers, so that names are looked up once per kind, not once per
//! event.

use foldhash::HashMap;

use crate::table::number;
use crate::wire::Span;

/// The stats that are read with the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum KnownStat {
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

/// The number of stats that identify an event. The others connect events.
const IDENTITY_STATS: usize = 6;
/// The number of known stats.
const KNOWN_STATS: usize = 10;

impl KnownStat {
    const ALL: [(Self, &[u8]); KNOWN_STATS] = [
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

    pub(super) fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|&(stat, _)| stat)
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
    /// A string of the chunk, by its number.
    Text,
    Reference,
}

impl Tag {
    const ALL: [Self; 6] = [Self::Absent, Self::Double, Self::Unsigned, Self::Signed, Self::Text, Self::Reference];
}

/// The stats that identify an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Identity {
    /// One byte for the type of each stat.
    tags: u64,
    bits: [u64; IDENTITY_STATS],
}

impl Identity {
    /// Equality without a branch per word, because it is checked for every event.
    #[inline]
    fn equals(&self, other: &Self) -> bool {
        let words = self.bits.iter().zip(&other.bits);
        words.fold(self.tags ^ other.tags, |differences, (left, right)| differences | (left ^ right)) == 0
    }

    pub(super) fn set(&mut self, stat: KnownStat, tag: Tag, bits: u64) {
        let place = stat as usize;
        self.tags = (self.tags & !(0xff << (8 * place))) | ((tag as u64) << (8 * place));
        self.bits[place] = bits;
    }

    pub(super) fn get(&self, stat: KnownStat) -> (Tag, u64) {
        let place = stat as usize;
        let tag = (self.tags >> (8 * place)) & 0xff;
        (Tag::ALL.get(tag as usize).copied().unwrap_or(Tag::Absent), self.bits[place])
    }
}

/// A kind with the numbers of one chunk of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct LocalKind {
    pub(super) metadata_id: i64,
    pub(super) identity: Identity,
}

/// The known stats of a plane, by their number. Most numbers are small.
#[derive(Debug, Default)]
pub(super) struct KnownStats {
    dense: Vec<Option<KnownStat>>,
    sparse: HashMap<i64, KnownStat>,
}

/// Numbers below this are in the dense table.
const DENSE: i64 = 1 << 12;

impl KnownStats {
    pub(super) fn new(known: impl Iterator<Item = (i64, KnownStat)>) -> Self {
        let mut stats = Self::default();
        for (id, stat) in known {
            match usize::try_from(id) {
                Ok(place) if id < DENSE => {
                    if place >= stats.dense.len() {
                        stats.dense.resize(place + 1, None);
                    }
                    stats.dense[place] = Some(stat);
                }
                _ => {
                    stats.sparse.insert(id, stat);
                }
            }
        }
        stats
    }

    /// Whether a small number is not one of the known stats.
    #[inline]
    pub(super) fn is_unknown(&self, id: u8) -> bool {
        match self.dense.get(usize::from(id)) {
            Some(stat) => stat.is_none(),
            None => self.sparse.is_empty() || !self.sparse.contains_key(&i64::from(id)),
        }
    }

    #[inline]
    pub(super) fn get(&self, id: u64) -> Option<KnownStat> {
        match usize::try_from(id).ok().and_then(|place| self.dense.get(place)) {
            Some(&stat) => stat,
            None if self.sparse.is_empty() => None,
            None => self.sparse.get(&id.cast_signed()).copied(),
        }
    }
}

/// The distinct kinds of a chunk.
#[derive(Debug)]
pub(super) struct Interner<'a> {
    pub(super) kinds: Vec<LocalKind>,
    places: HashMap<LocalKind, u32>,
    /// The last kind with each description number, which is usually the kind of the next event, too.
    last: Vec<u32>,
    /// For each kind, the end of an event with its identifying stats.
    tails: Vec<Span>,
    pub(super) strings: Vec<Span>,
    string_places: HashMap<&'a [u8], u32>,
}

const NONE: u32 = u32::MAX;

impl<'a> Interner<'a> {
    /// `largest` is the highest number of a description on the plane. A long table does not pay off for few events.
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
            && kind.identity.equals(identity)
        {
            return last;
        }
        self.intern_new(metadata_id, identity)
    }

    /// Like `intern`, and stores the end of the event with its identifying stats.
    #[inline]
    pub(super) fn intern_with(&mut self, metadata_id: i64, identity: &Identity, tail: Span) -> u32 {
        let kind = self.intern(metadata_id, identity);
        if tail.start < tail.end {
            self.tails[kind as usize] = tail;
        }
        kind
    }

    /// The last kind with this description number, and the end of an event of that kind; an empty span if there is
    /// none.
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
        let id = *self.string_places.entry(span.bytes(file)).or_insert(next);
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
    fn every_known_stat_has_its_index() {
        for (place, (stat, name)) in KnownStat::ALL.into_iter().enumerate() {
            assert_eq!((stat as usize, KnownStat::from_name(name)), (place, Some(stat)));
            assert_eq!(stat.is_identity(), place < IDENTITY_STATS);
        }
        assert_eq!(KnownStat::from_name(b"hlo_modul"), None);
        for (place, tag) in Tag::ALL.into_iter().enumerate() {
            assert_eq!(tag as usize, place);
        }
    }

    #[test]
    fn values_of_an_identity_are_independent() {
        let mut identity = Identity::default();
        identity.set(KnownStat::Module, Tag::Reference, 7);
        identity.set(KnownStat::DeviceOrdinal, Tag::Signed, u64::MAX);
        identity.set(KnownStat::Module, Tag::Text, 1);
        assert_eq!(identity.get(KnownStat::Module), (Tag::Text, 1));
        assert_eq!(identity.get(KnownStat::Op), (Tag::Absent, 0));
        assert_eq!(identity.get(KnownStat::DeviceOrdinal), (Tag::Signed, u64::MAX));
    }

    #[test]
    fn stats_are_found_by_any_number() {
        let ids = [(0, KnownStat::Module), (DENSE - 1, KnownStat::Op), (DENSE, KnownStat::Run), (-1, KnownStat::Step)];
        let stats = KnownStats::new(ids.into_iter());
        for (id, stat) in ids {
            assert_eq!(stats.get(id.cast_unsigned()), Some(stat), "{id}");
        }
        for id in [1, DENSE + 1, -2, i64::MIN, i64::MAX] {
            assert_eq!(stats.get(id.cast_unsigned()), None, "{id}");
        }
    }

    #[test]
    fn a_kind_has_one_number_in_the_table_or_beyond_it() {
        let mut interner = Interner::new(10, 1);
        let mut other = Identity::default();
        other.set(KnownStat::Program, Tag::Unsigned, 3);
        // With one event, the table has four entries: 3 is in it, the others are not.
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
