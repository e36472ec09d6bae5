//! Warnings about a trace.

use std::fmt;
use std::path::PathBuf;

use ergometer_diagnostics::Diagnostic;

use crate::source::display_path;
use crate::wire::Damage;

/// A warning about a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The profiler reported an error.
    ProfilerError(String),
    /// The profiler reported a warning, for example that it dropped events.
    ProfilerWarning(String),
    /// A part of a file is damaged, and the rest was read.
    Lost {
        /// The file.
        file: PathBuf,
        /// The damaged part, such as `plane /device:GPU:0, line Stream #14`.
        part: String,
        /// The damage and its position.
        damage: Damage,
        /// The number of bytes of the part that could not be read; zero if the file ends between two parts.
        bytes: u64,
    },
    /// A compressed file ends early or is damaged.
    CutPacking {
        /// The file.
        file: PathBuf,
        /// The reason, and how much was unpacked.
        why: String,
    },
    /// Events whose bytes are damaged. They are counted, but have no time.
    DamagedEvents {
        /// The number of events.
        count: u64,
        /// The first damage.
        first: Damage,
    },
    /// Events that end before they start. Their duration is set to zero.
    NegativeDurations(u64),
    /// Events that are more than 53 days from the others. They have no time.
    OutOfRange(u64),
    /// Events that aggregate several events and have no start time.
    Aggregated(u64),
    /// Events without a description in the trace.
    Undescribed(u64),
    /// A file without a start time, in a trace of several files. Its times are aligned with the start of the first
    /// file.
    NoEpoch {
        /// The file.
        file: PathBuf,
    },
    /// A file without events.
    NoEvents {
        /// The file.
        file: PathBuf,
    },
}

impl Diagnostic for Notice {}

impl fmt::Display for Notice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProfilerError(text) => write!(formatter, "the profiler reported an error: {text}"),
            Self::ProfilerWarning(text) => write!(formatter, "the profiler reported a warning: {text}"),
            Self::Lost { file, part, damage, bytes: 0 } => {
                write!(formatter, "{}: {part} ends early: {damage}", display_path(file))
            }
            Self::Lost { file, part, damage, bytes } => {
                write!(formatter, "{}: skipped {bytes} damaged bytes of {part}: {damage}", display_path(file))
            }
            Self::CutPacking { file, why } => write!(formatter, "{}: {why}", display_path(file)),
            Self::DamagedEvents { count, first } => {
                write!(formatter, "{} damaged and excluded from all times: {first}", events(*count, "is", "are"))
            }
            Self::NegativeDurations(count) => {
                write!(formatter, "{} before starting: the duration is set to zero", events(*count, "ends", "end"))
            }
            Self::OutOfRange(count) => write!(
                formatter,
                "{} more than 53 days before or after the others and left out of all times",
                events(*count, "is", "are")
            ),
            Self::Aggregated(count) => write!(
                formatter,
                "{}: included in totals, but not in busy time",
                events(
                    *count,
                    "stands for several events and has no start time",
                    "each stand for several events and have no start time"
                )
            ),
            Self::Undescribed(count) => write!(formatter, "{} no name in the trace", events(*count, "has", "have")),
            Self::NoEpoch { file } => write!(
                formatter,
                "{} has no start time: its times are aligned with the start of the first file",
                display_path(file)
            ),
            Self::NoEvents { file } => write!(formatter, "{} has no events", display_path(file)),
        }
    }
}

fn events(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 event {one}") } else { format!("{count} events {many}") }
}
