//! What else a trace says of an event, a kind of event or a plane: named values of every type, read when asked for.

use std::borrow::Cow;

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
}
