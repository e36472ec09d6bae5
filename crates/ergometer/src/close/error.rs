//! Why a run could not be closed.

use std::path::PathBuf;

use ergometer_telemetry::recording::RecordingError;

use crate::journal::JournalError;
use ergometer_datasets::grade::GraderError;
use ergometer_runs::store::StoreError;

/// Why a run could not be closed. Its journal is as it was.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The readings cannot be read.
    #[error("the readings {} cannot be read: {cause}", path.display())]
    Readings {
        /// Which file.
        path: PathBuf,
        /// Why.
        cause: RecordingError,
    },
    /// The files cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The grader of the run does not exist in this version.
    #[error(transparent)]
    Grader(#[from] GraderError),
    /// No request ended.
    #[error("no request of {} ended, so there is nothing to write. hint: `ergo profile --resume {}` goes on with it", path.display(), path.display())]
    NoRecords {
        /// Which folder.
        path: PathBuf,
    },
}
