//! What a source of processes tells at one look, before it is compared with the look before.

use std::time::Duration;

use ergometer_units::Bytes;

/// All processes, at one look.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Logical processors of the machine.
    pub(super) processors: Option<u32>,
    pub(super) processes: Vec<Listed>,
    /// What could not be read, each said once.
    pub(super) notes: Vec<String>,
}

/// One process, as it stands.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Listed {
    pub(super) id: u32,
    pub(super) name: Option<String>,
    pub(super) command: Option<String>,
    pub(super) user: Option<String>,
    pub(super) memory: Option<Bytes>,
    pub(super) time: Option<Time>,
}

/// Processor time of a process, and which process it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time {
    /// When it started, by any count that grows: with the id it tells two processes of one id apart.
    pub(super) started: u64,
    /// All it used since.
    pub(super) used: Duration,
}

/// The most characters of a command line that are kept: some are a hundred kilobytes long, and none is read to its end.
pub(super) const COMMAND_LENGTH: usize = 1024;

/// Words as one line, without what would break a line or a terminal; `None` where nothing is left.
pub(super) fn one_line(text: &str) -> Option<String> {
    let mut line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(COMMAND_LENGTH).collect();
    line.truncate(line.trim_end().len());
    (!line.is_empty()).then_some(line)
}
