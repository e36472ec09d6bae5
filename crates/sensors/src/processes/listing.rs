//! The processes of one sample, before they are compared with the previous sample.

use std::time::Duration;

use ergometer_diagnostics::Message;
use ergometer_units::Bytes;

/// All processes at one time.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The number of logical processors.
    pub(super) processors: Option<u32>,
    pub(super) processes: Vec<ListedProcess>,
    /// Values that could not be read.
    pub(super) notes: Vec<Message>,
}

/// One process at one time.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ListedProcess {
    pub(super) id: u32,
    pub(super) name: Option<String>,
    pub(super) command: Option<String>,
    pub(super) user: Option<String>,
    pub(super) memory: Option<Bytes>,
    pub(super) time: Option<Time>,
}

/// The CPU time and the start of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time {
    /// When it started, in any increasing unit. It distinguishes two processes with the same id.
    pub(super) started: u64,
    /// CPU time since the start.
    pub(super) used: Duration,
}

/// The maximum number of characters of a command line. Some are a hundred kilobytes long.
pub(super) const COMMAND_LENGTH: usize = 1024;

/// The text as one line without control characters, or `None` if it is empty.
pub(super) fn one_line(text: &str) -> Option<String> {
    let mut line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(COMMAND_LENGTH).collect();
    line.truncate(line.trim_end().len());
    (!line.is_empty()).then_some(line)
}
