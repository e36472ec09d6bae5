//! Errors of a sweep.

use std::path::PathBuf;

use ergometer_diagnostics::{Diagnostic, Hint, hint, option};

use crate::close::CloseError;
use crate::journal::JournalError;
use crate::run::RunError;
use ergometer_runs::ReadError;
use ergometer_runs::store::StoreError;
use ergometer_runs::sweep::PlanError;

/// Why a sweep could not start or continue.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The points do not make a sweep.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// `sweep.json` cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The folder exists and is not a sweep.
    #[error("{} exists and is not a sweep folder, so it was not changed", path.display())]
    NotASweep {
        /// The folder.
        path: PathBuf,
    },
    /// A run of the sweep cannot start or be resumed.
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

impl Diagnostic for SweepError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Plan(error) => error.hint(),
            Self::Read(error) => error.hint(),
            Self::NotASweep { .. } => Some(hint!(
                "use another folder with ",
                option("name").value("SUFFIX"),
                " or ",
                option("output-dir").value("DIR")
            )),
            Self::Run(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Kept { error, .. } => error.hint(),
            Self::NoRequest | Self::Interrupted | Self::CloseThread(_) => None,
        }
    }
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
