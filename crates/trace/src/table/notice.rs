//! What a user should know of a trace before they believe its numbers.

use std::fmt;
use std::path::PathBuf;

use crate::wire::Damage;

/// Something to know of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The profiler that wrote the trace reports an error.
    ProfilerError(String),
    /// The profiler that wrote the trace reports a warning: often that it dropped events.
    ProfilerWarning(String),
    /// A part of the file is damaged, and what was whole was kept.
    Lost {
        /// The file.
        file: PathBuf,
        /// What of it, as in `plane /device:GPU:0, line Stream #14`.
        part: String,
        /// Where and why.
        damage: Damage,
        /// How many bytes of it are there and could not be read; zero where it was cut between two of its parts.
        bytes: u64,
    },
    /// The packed file ended early or is damaged.
    CutPacking {
        /// The file.
        file: PathBuf,
        /// Why, and how much was unpacked.
        why: String,
    },
    /// Events whose bytes are damaged: they count, and have no time.
    DamagedEvents {
        /// How many.
        count: u64,
        /// The first of them.
        first: Damage,
    },
    /// Events that end before they start are taken to have no length.
    NegativeDurations(u64),
    /// Events more than 53 days from the others have no place in time.
    OutOfRange(u64),
    /// Events that stand for several, with no place in time of their own.
    Aggregated(u64),
    /// Events whose kind the trace does not describe.
    Undescribed(u64),
    /// Several sessions, one of which does not say when it began: its times begin with the first's.
    NoEpoch {
        /// The file.
        file: PathBuf,
    },
    /// A file that has no events.
    NoEvents {
        /// The file.
        file: PathBuf,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProfilerError(text) => write!(formatter, "the profiler reports an error: {text}"),
            Self::ProfilerWarning(text) => write!(formatter, "the profiler warns: {text}"),
            Self::Lost { file, part, damage, bytes: 0 } => {
                write!(formatter, "{}: {part} ends early: {damage}", file.display())
            }
            Self::Lost { file, part, damage, bytes } => {
                write!(formatter, "{}: {bytes} bytes of {part} are lost: {damage}", file.display())
            }
            Self::CutPacking { file, why } => write!(formatter, "{}: {why}", file.display()),
            Self::DamagedEvents { count, first } => {
                write!(formatter, "{} damaged and left out of all times: {first}", events(*count, "is", "are"))
            }
            Self::NegativeDurations(count) => {
                write!(formatter, "{} before starting: taken to have no length", events(*count, "ends", "end"))
            }
            Self::OutOfRange(count) => write!(
                formatter,
                "{} more than 53 days from the others: left out of all times",
                events(*count, "is", "are")
            ),
            Self::Aggregated(count) => write!(
                formatter,
                "{} for several: part of totals, with no place in time",
                events(*count, "stands", "stand")
            ),
            Self::Undescribed(count) => write!(formatter, "{} no name in the trace", events(*count, "has", "have")),
            Self::NoEpoch { file } => write!(
                formatter,
                "{} does not say when it was recorded: its times begin where the first file's do",
                file.display()
            ),
            Self::NoEvents { file } => write!(formatter, "{} has no events", file.display()),
        }
    }
}

fn events(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 event {one}") } else { format!("{count} events {many}") }
}
