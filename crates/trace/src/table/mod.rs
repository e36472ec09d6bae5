//! The table of events: where every reader of traces ends and all accounting begins.
//!
//! A [`Trace`] has planes (devices and hosts), a plane has lines (streams, threads), a line has events by column. Planes
//! of one name and host are one plane, lines of one number on it are one timeline, whichever file they came from.

mod innermost;
mod kind;
mod line;
mod modules;
mod notice;
mod stat;
mod strings;

use std::borrow::Cow;
use std::ops::Range;

use ergometer_units::Timestamp;
use foldhash::HashMap;

use crate::wire::Damage;

pub use kind::{Kind, KindId, ProgramId};
pub use line::{Event, Line, Why};
pub use notice::Notice;
pub use stat::{KeptStat, KeptText, KeptValue, Stat, StatValue, StatVisitor};
pub use strings::{Strings, Text};

pub(crate) use innermost::Innermost;
pub(crate) use kind::{Description, is_command_buffer};
pub(crate) use line::{Ids, Segment, Unplaced, number};
pub(crate) use modules::{MODULES_LINE, ModuleRuns, is_modules, parse as parse_module};
pub(crate) use stat::{Details, StatsOf};

/// The events of one or several files, on one clock.
#[derive(Debug)]
pub struct Trace {
    pub(crate) strings: Strings,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) planes: Vec<Plane>,
    pub(crate) sessions: Vec<Session>,
    pub(crate) zero: Option<Timestamp>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) details: Box<dyn Details>,
}

/// A device or a host.
#[derive(Debug)]
pub struct Plane {
    /// Its name, as in `/device:GPU:0`.
    pub name: Text,
    /// The machine, where the trace names it.
    pub host: Option<Text>,
    /// What kind of thing it is.
    pub platform: Platform,
    /// Its timelines.
    pub lines: Vec<Line>,
    /// The reader's numbers of the planes it was put together from.
    pub(crate) parts: Vec<u32>,
}

/// What a plane is of, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Platform {
    /// `/device:GPU:n`
    Gpu,
    /// `/device:TPU:n`
    Tpu,
    /// `/host:CPU`: threads of the host, and on CPU also the ops.
    Host,
    /// Another device: `/device:…`
    OtherDevice,
    /// Anything else: metadata, the task's environment.
    Other,
}

impl Platform {
    /// From a plane's name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        if name.starts_with("/device:GPU:") {
            Self::Gpu
        } else if name.starts_with("/device:TPU:") {
            Self::Tpu
        } else if name == "/host:CPU" {
            Self::Host
        } else if name.starts_with("/device:") {
            Self::OtherDevice
        } else {
            Self::Other
        }
    }
}

/// What one run of a profiler wrote on one host.
#[derive(Debug, Clone, Default)]
pub struct Session {
    /// The machine.
    pub host: Option<Text>,
    /// When the profiler started and stopped.
    pub started: Option<Timestamp>,
    /// When it stopped.
    pub stopped: Option<Timestamp>,
    /// Of each `scope_range_id`, the one it stands in.
    pub(crate) scope_parents: HashMap<i64, i64>,
}

/// An event of a trace, by place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    /// The plane.
    pub plane: usize,
    /// The line on it.
    pub line: usize,
    /// The event on that.
    pub event: usize,
}

impl Trace {
    /// The planes, in the order of the files.
    #[must_use]
    pub fn planes(&self) -> &[Plane] {
        &self.planes
    }

    /// The names.
    #[must_use]
    pub fn strings(&self) -> &Strings {
        &self.strings
    }

    /// The characters of a name.
    #[must_use]
    pub fn text(&self, text: Text) -> &str {
        self.strings.get(text)
    }

    /// What events there are.
    #[must_use]
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// What an event is.
    ///
    /// # Panics
    /// Of an id of another trace.
    #[must_use]
    pub fn kind(&self, id: KindId) -> &Kind {
        &self.kinds[id.index()]
    }

    /// What wrote it: one entry a run of a profiler and host.
    #[must_use]
    pub fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// The wall time from which all starts count, where the trace tells it.
    #[must_use]
    pub fn zero(&self) -> Option<Timestamp> {
        self.zero
    }

    /// What a user should know before they believe the numbers.
    #[must_use]
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// How many events there are.
    #[must_use]
    pub fn event_count(&self) -> usize {
        self.planes.iter().flat_map(|plane| &plane.lines).map(Line::len).sum()
    }

    /// Everything the trace says of an event itself.
    pub fn event_stats(&self, event: EventId) -> Result<Vec<Stat<'_>>, Damage> {
        self.details.stats(self, StatsOf::Event(event))
    }

    /// Shows everything the trace says of consecutive events of a line, as it is kept: the quick way to all of them.
    ///
    /// # Errors
    /// The first damage; all stats that are whole were shown nevertheless.
    pub fn walk_stats<'a>(
        &'a self,
        plane: usize,
        line: usize,
        events: Range<usize>,
        visit: &mut StatVisitor<'_, 'a>,
    ) -> Result<(), Damage> {
        match self.planes.get(plane).and_then(|plane| plane.lines.get(line)) {
            Some(line) => self.details.walk(self, line, events, visit),
            None => Ok(()),
        }
    }

    /// A name or a text that the trace keeps in a table, where it is there.
    #[must_use]
    pub fn kept_text(&self, text: KeptText) -> Option<Cow<'_, str>> {
        self.details.kept_text(text)
    }

    /// Everything the trace says of all events of a kind.
    pub fn kind_stats(&self, kind: KindId) -> Result<Vec<Stat<'_>>, Damage> {
        self.details.stats(self, StatsOf::Kind(self.kind(kind).description))
    }

    /// Everything the trace says of a plane.
    pub fn plane_stats(&self, plane: usize) -> Result<Vec<Stat<'_>>, Damage> {
        let mut stats = Vec::new();
        for &part in self.planes.get(plane).map_or(&[][..], |plane| &plane.parts) {
            stats.extend(self.details.stats(self, StatsOf::Plane(part))?);
        }
        Ok(stats)
    }
}
