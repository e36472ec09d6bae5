//! Errors while deriving the files of a run from its journal.

use std::path::PathBuf;

use ergometer_diagnostics::{Diagnostic, Hint, command, hint};
use ergometer_telemetry::recording::RecordingError;

use crate::journal::JournalError;
use ergometer_datasets::grade::GraderError;
use ergometer_runs::store::StoreError;

/// Why the files of a run could not be derived. The journal is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The readings cannot be read.
    #[error("the readings {} cannot be read: {cause}", path.display())]
    Readings {
        /// The file.
        path: PathBuf,
        /// The error of the reader.
        cause: RecordingError,
    },
    /// The files cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The grader of the run does not exist in this version.
    #[error(transparent)]
    Grader(#[from] GraderError),
    /// No request ended.
    #[error("no request of {} ended, so there is nothing to write", path.display())]
    NoRecords {
        /// The run folder.
        path: PathBuf,
    },
}

impl Diagnostic for CloseError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Journal(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::NoRecords { path } => {
                Some(hint!("resume it with ", command(format!("profile --resume {}", path.display()))))
            }
            Self::Grader(error) => error.hint(),
            Self::Readings { cause, .. } => cause.hint(),
        }
    }
}
