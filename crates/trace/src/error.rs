//! Why a trace cannot be read.

use std::path::PathBuf;

use crate::source::shown;
use crate::wire::Damage;

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A part of a file is not what it should be.
    #[error(
        "{} is damaged in {part}: {damage}. hint: copy or record it again; --lenient reads what is whole",
        shown(file)
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What of it, as in `plane /device:GPU:0, line Stream #14`.
        part: String,
        /// Where and why.
        damage: Damage,
    },
    /// A file has no bytes.
    #[error("{} is empty. hint: the profiler writes a trace when it stops; was it stopped?", shown(file))]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// A file is something else.
    #[error(
        "{} is no XSpace trace: it has no planes. hint: JAX writes them as plugins/profile/TIME/HOST.xplane.pb",
        shown(file)
    )]
    NotATrace {
        /// The file.
        file: PathBuf,
    },
    /// More planes or lines than any trace has.
    #[error("{} is no trace: it claims more than {planes} planes or {lines} lines", shown(file))]
    TooManyParts {
        /// The file.
        file: PathBuf,
        /// How many planes may be.
        planes: usize,
        /// How many lines may be.
        lines: usize,
    },
    /// A file is the text of another profiler.
    #[error(
        "{} is JSON: a Chrome or PyTorch trace, which `ergo trace` does not read yet. \
         hint: JAX writes what it reads beside it, as HOST.xplane.pb",
        shown(file)
    )]
    Json {
        /// The file.
        file: PathBuf,
    },
    /// More events than there is room for.
    #[error("the trace has {events} events, more than the limit of {limit}. hint: record a shorter one")]
    TooManyEvents {
        /// How many.
        events: u64,
        /// How many may be.
        limit: u64,
    },
}
