//! The table of events, which readers fill and accounting reads.
//!
//! A [`Trace`] has planes (devices and hosts), a plane has lines (streams, threads), and a line has events by column.
//! Planes with the same name and host are merged, even from different files, and so are their lines with the same
//! number.

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
pub use line::{Event, Line, UnplacedReason};
pub use notice::Notice;
pub use stat::{RawStat, RawValue, Stat, StatValue, StatVisitor, TableText};
pub use strings::{Strings, Text};

pub(crate) use innermost::Innermost;
pub(crate) use kind::{Description, is_command_buffer};
pub(crate) use line::{Ids, Segment, Unplaced, number};
pub(crate) use modules::{MODULES_LINE, ModuleRuns, is_modules, parse as parse_module};
pub(crate) use stat::{Details, StatsTarget};

/// The events of one or more files, on one clock.
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
    /// Its name, such as `/device:GPU:0`.
    pub name: Text,
    /// The host name, if the trace has it.
    pub host: Option<Text>,
    /// Whether it is a GPU, a TPU, a host or something else.
    pub platform: Platform,
    /// Its timelines.
    pub lines: Vec<Line>,
    /// The indices of the planes in the files that were merged into it.
    pub(crate) parts: Vec<u32>,
}

/// The type of a plane, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Platform {
    /// `/device:GPU:n`.
    Gpu,
    /// `/device:TPU:n`.
    Tpu,
    /// `/host:CPU`: threads of the host, and the ops that run on its CPU.
    Host,
    /// Another device: `/device:…`.
    OtherDevice,
    /// Other planes, such as metadata and the environment of the task.
    Other,
}

impl Platform {
    /// The type of the plane with this name.
    #[must_use]
    pub fn from_plane_name(name: &str) -> Self {
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

/// One run of a profiler on one host.
#[derive(Debug, Clone, Default)]
pub struct Session {
    /// The host name.
    pub host: Option<Text>,
    /// When the profiler started.
    pub started: Option<Timestamp>,
    /// When the profiler stopped.
    pub stopped: Option<Timestamp>,
    /// The parent of each `scope_range_id`.
    pub(crate) scope_parents: HashMap<i64, i64>,
}

/// The position of an event in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    /// The index of the plane.
    pub plane: usize,
    /// The index of the line on the plane.
    pub line: usize,
    /// The index of the event on the line.
    pub event: usize,
}

impl Trace {
    /// The planes, in the order of the files.
    #[must_use]
    pub fn planes(&self) -> &[Plane] {
        &self.planes
    }

    /// All names in the trace.
    #[must_use]
    pub fn strings(&self) -> &Strings {
        &self.strings
    }

    /// The text of a name.
    #[must_use]
    pub fn text(&self, text: Text) -> &str {
        self.strings.get(text)
    }

    /// All kinds of events.
    #[must_use]
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// The kind with this id.
    ///
    /// # Panics
    /// If the id belongs to another trace.
    #[must_use]
    pub fn kind(&self, id: KindId) -> &Kind {
        &self.kinds[id.index()]
    }

    /// The profiler sessions in the trace: one entry per run of a profiler and host.
    #[must_use]
    pub fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// The wall-clock time that all starts count from, if the trace has it.
    #[must_use]
    pub fn zero(&self) -> Option<Timestamp> {
        self.zero
    }

    /// Warnings about the trace: damage, missing data, and problems that the profiler reported.
    #[must_use]
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// The number of events.
    #[must_use]
    pub fn event_count(&self) -> usize {
        self.planes.iter().flat_map(|plane| &plane.lines).map(Line::len).sum()
    }

    /// All stats of one event.
    pub fn event_stats(&self, event: EventId) -> Result<Vec<Stat<'_>>, Damage> {
        self.details.stats(self, StatsTarget::Event(event))
    }

    /// Calls `visit` with all stats of consecutive events of a line, without looking up texts. This is the fast way to
    /// read the stats of many events.
    ///
    /// # Errors
    /// The first damage, after all undamaged stats were visited.
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

    /// Looks up a text in a table of the trace; `None` if the table does not have it.
    #[must_use]
    pub fn table_text(&self, text: TableText) -> Option<Cow<'_, str>> {
        self.details.table_text(text)
    }

    /// The stats that all events of a kind share.
    pub fn kind_stats(&self, kind: KindId) -> Result<Vec<Stat<'_>>, Damage> {
        self.details.stats(self, StatsTarget::Kind(self.kind(kind).description))
    }

    /// All stats of a plane.
    pub fn plane_stats(&self, plane: usize) -> Result<Vec<Stat<'_>>, Damage> {
        let mut stats = Vec::new();
        for &part in self.planes.get(plane).map_or(&[][..], |plane| &plane.parts) {
            stats.extend(self.details.stats(self, StatsTarget::Plane(part))?);
        }
        Ok(stats)
    }
}
