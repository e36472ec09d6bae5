//! Why a sweep could not be made or went no further.

use std::path::PathBuf;

use crate::close::CloseError;
use crate::journal::JournalError;
use crate::run::RunError;
use ergometer_runs::ReadError;
use ergometer_runs::store::StoreError;
use ergometer_runs::sweep::PlanError;

/// Why a sweep could not be made or went no further.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The points do not make a sweep.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// `sweep.json` cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// What is there is no sweep.
    #[error("{} exists and is no folder of a sweep, so it is left alone. hint: `--name SUFFIX` or `--output-dir DIR` makes another", path.display())]
    NotASweep {
        /// Which folder.
        path: PathBuf,
    },
    /// One of its runs cannot be made, or not be gone on with.
    #[error(transparent)]
    Run(#[from] RunError),
    /// `sweep.json` cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A run ended before its first request.
    #[error("no request was sent")]
    NoRequest,
    /// The sweep was stopped before it had a result.
    #[error("interrupted before the first request ended; nothing was kept")]
    Interrupted,
    /// The sweep failed before the files of its first run could be written, but its journal is kept.
    #[error("{error}")]
    Kept {
        /// Why it failed.
        error: Box<Self>,
        /// Where the journal is.
        folder: PathBuf,
    },
    /// The thread that writes the files of a run panicked.
    #[error("the thread that writes the files of a run failed: {0}")]
    CloseThread(#[source] tokio::task::JoinError),
}

impl From<JournalError> for SweepError {
    fn from(error: JournalError) -> Self {
        Self::Run(error.into())
    }
}

impl From<CloseError> for SweepError {
    fn from(error: CloseError) -> Self {
        Self::Run(error.into())
    }
}
