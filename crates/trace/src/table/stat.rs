//! What else a trace says of an event, a kind of event or a plane: named values of every type, read when asked for.

use std::borrow::Cow;
use std::ops::Range;

use super::EventId;
use crate::wire::Damage;

/// A named value.
#[derive(Debug, Clone, PartialEq)]
pub struct Stat<'a> {
    /// Its name; of one whose name the trace does not give, its number.
    pub name: Cow<'a, str>,
    /// Its value; zero is a value.
    pub value: StatValue<'a>,
}

/// The value of a [`Stat`], of the type it has in the trace.
#[derive(Debug, Clone, PartialEq)]
pub enum StatValue<'a> {
    /// A floating number.
    Double(f64),
    /// A number without sign.
    Unsigned(u64),
    /// A number with a sign.
    Signed(i64),
    /// Characters; what is not UTF-8 is replaced.
    Text(Cow<'a, str>),
    /// Bytes.
    Bytes(&'a [u8]),
    /// Characters the trace keeps in a table; `Err` has the number of an entry that is not there.
    Reference(Result<Cow<'a, str>, i64>),
    /// A name without a value.
    Absent,
}

/// A name or a text that the trace keeps in a table, by its place: see [`Trace::kept_text`](super::Trace::kept_text).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeptText {
    /// The reader's number of the plane whose table it is.
    pub(crate) plane: u32,
    pub(crate) id: i64,
}

impl KeptText {
    /// Its number in its table: what a name is called that the table does not have.
    #[must_use]
    pub const fn number(self) -> i64 {
        self.id
    }
}

/// A named value as the trace has it: what is in a table is not looked up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeptStat<'a> {
    /// Its name.
    pub name: KeptText,
    /// Its value.
    pub value: KeptValue<'a>,
}

/// The value of a [`KeptStat`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeptValue<'a> {
    /// A floating number.
    Double(f64),
    /// A number without sign.
    Unsigned(u64),
    /// A number with a sign.
    Signed(i64),
    /// Characters, which may be no UTF-8.
    Text(&'a [u8]),
    /// Bytes.
    Bytes(&'a [u8]),
    /// Characters in a table.
    Reference(KeptText),
    /// A name without a value.
    Absent,
}

/// Sees the stats of events, each with the number of its event.
pub type StatVisitor<'visitor, 'trace> = dyn FnMut(usize, KeptStat<'trace>) + 'visitor;

/// Of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatsOf {
    /// One event.
    Event(EventId),
    /// All events of a kind, by their description.
    Kind(super::Description),
    /// A plane, by its number in the reader.
    Plane(u32),
}

/// What reads details from where the trace came from.
pub(crate) trait Details: Send + Sync + std::fmt::Debug {
    fn stats<'a>(&'a self, table: &'a super::Trace, of: StatsOf) -> Result<Vec<Stat<'a>>, Damage>;

    /// Shows the stats of consecutive events of a line; of an event that is damaged, those before the damage.
    fn walk<'a>(
        &'a self,
        table: &'a super::Trace,
        line: &super::Line,
        events: Range<usize>,
        visit: &mut StatVisitor<'_, 'a>,
    ) -> Result<(), Damage>;

    /// A text of a table.
    fn kept_text(&self, text: KeptText) -> Option<Cow<'_, str>>;
}
