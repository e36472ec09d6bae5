//! The error of [`read`](crate::read).

use std::path::PathBuf;

use ergometer_diagnostics::{Diagnostic, Hint, flag, hint};

use crate::source::display_path;
use crate::wire::Damage;

/// The reason why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A part of a file is damaged.
    #[error("{} is damaged in {part}: {damage}", display_path(file))]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The damaged part, such as `plane /device:GPU:0, line Stream #14`.
        part: String,
        /// The damage and its position.
        damage: Damage,
    },
    /// A file is empty.
    #[error("{} is empty", display_path(file))]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// A file is not an `XSpace` trace.
    #[error("{} is not an XSpace trace: it has no planes", display_path(file))]
    NotATrace {
        /// The file.
        file: PathBuf,
    },
    /// A file claims more planes or lines than any trace has.
    #[error("{} is not a trace: it claims more than {planes} planes or {lines} lines", display_path(file))]
    TooManyParts {
        /// The file.
        file: PathBuf,
        /// The limit on planes.
        planes: usize,
        /// The limit on lines.
        lines: usize,
    },
    /// A file is a trace in JSON, which another profiler wrote.
    #[error("{} is JSON (a Chrome or PyTorch trace), which is not supported yet", display_path(file))]
    Json {
        /// The file.
        file: PathBuf,
    },
    /// The trace has more events than the limit.
    #[error("the trace has {events} events, more than the limit of {limit}")]
    TooManyEvents {
        /// The number of events.
        events: u64,
        /// The limit on events.
        limit: u64,
    },
    /// The table of the trace needs more memory than the limit.
    #[error("the trace needs at least {needed} bytes of memory, more than the limit of {limit} bytes")]
    TableTooLarge {
        /// The memory that it needs in bytes, as far as it was read.
        needed: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The system does not have enough memory for the table of the trace.
    #[error("out of memory: the events of the trace need {needed} bytes")]
    NoMemory {
        /// The memory that the events need in bytes.
        needed: u64,
    },
}

impl Diagnostic for TraceError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Damaged { .. } => {
                Some(hint!("copy or record the trace again, or pass ", flag("lenient"), " to skip damaged parts"))
            }
            Self::Empty { .. } => {
                Some(hint!("stop the profiler before reading the trace: it writes the file when it stops"))
            }
            Self::NotATrace { .. } => {
                Some(hint!("pass the file that JAX writes as plugins/profile/TIME/HOST.xplane.pb"))
            }
            Self::Json { .. } => Some(hint!("pass HOST.xplane.pb, which JAX writes to the same folder")),
            Self::TooManyEvents { .. } | Self::NoMemory { .. } => Some(hint!("record a shorter trace")),
            Self::TableTooLarge { .. } => Some(hint!("check that this is a trace; if it is, record a shorter one")),
            Self::TooManyParts { .. } => None,
        }
    }
}
