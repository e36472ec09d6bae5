//! Stats: named values of an event, a kind of event or a plane, which are read on request.

use std::borrow::Cow;
use std::ops::Range;

use super::EventId;
use crate::wire::Damage;

/// A named value.
#[derive(Debug, Clone, PartialEq)]
pub struct Stat<'a> {
    /// Its name, or its number if the trace has no name for it.
    pub name: Cow<'a, str>,
    /// Its value.
    pub value: StatValue<'a>,
}

/// The value of a [`Stat`], with its type in the trace.
#[derive(Debug, Clone, PartialEq)]
pub enum StatValue<'a> {
    /// A floating-point number.
    Double(f64),
    /// An unsigned integer.
    Unsigned(u64),
    /// A signed integer.
    Signed(i64),
    /// Text; invalid UTF-8 is replaced.
    Text(Cow<'a, str>),
    /// Bytes.
    Bytes(&'a [u8]),
    /// Text from a table of the trace; `Err` has the number of a missing entry.
    Reference(Result<Cow<'a, str>, i64>),
    /// No value.
    Absent,
}

/// A reference to a text in a table of the trace; [`Trace::table_text`](super::Trace::table_text) looks it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableText {
    /// The index in the files of the plane with the table.
    pub(crate) plane: u32,
    pub(crate) id: i64,
}

impl TableText {
    /// Its number in the table.
    #[must_use]
    pub const fn number(self) -> i64 {
        self.id
    }
}

/// A named value whose texts are not looked up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RawStat<'a> {
    /// Its name.
    pub name: TableText,
    /// Its value.
    pub value: RawValue<'a>,
}

/// The value of a [`RawStat`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RawValue<'a> {
    /// A floating-point number.
    Double(f64),
    /// An unsigned integer.
    Unsigned(u64),
    /// A signed integer.
    Signed(i64),
    /// Text, which may be invalid UTF-8.
    Text(&'a [u8]),
    /// Bytes.
    Bytes(&'a [u8]),
    /// Text in a table.
    Reference(TableText),
    /// No value.
    Absent,
}

/// A callback that receives the index of an event and one of its stats.
pub type StatVisitor<'visitor, 'trace> = dyn FnMut(usize, RawStat<'trace>) + 'visitor;

/// The object whose stats are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatsTarget {
    /// One event.
    Event(EventId),
    /// All events of a kind, by their description.
    Kind(super::Description),
    /// A plane, by its index in the files.
    Plane(u32),
}

/// Reads stats from the files of a trace.
pub(crate) trait Details: Send + Sync + std::fmt::Debug {
    fn stats<'a>(&'a self, table: &'a super::Trace, target: StatsTarget) -> Result<Vec<Stat<'a>>, Damage>;

    /// Visits the stats of consecutive events of a line; of a damaged event, only the stats before the damage.
    fn walk<'a>(
        &'a self,
        table: &'a super::Trace,
        line: &super::Line,
        events: Range<usize>,
        visit: &mut StatVisitor<'_, 'a>,
    ) -> Result<(), Damage>;

    /// Looks up a text in a table.
    fn table_text(&self, text: TableText) -> Option<Cow<'_, str>>;
}
