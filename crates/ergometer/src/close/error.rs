//! Errors while deriving the files of a run from its journal.

use std::path::PathBuf;

use ergometer_attribution::EngineLogError;
use ergometer_diagnostics::{Diagnostic, Hint, command, flag, hint};
use ergometer_telemetry::recording::RecordingError;

use crate::journal::JournalError;
use ergometer_runs::ReadError;
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
    /// A file of the run cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The files cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine log cannot be used.
    #[error("cannot use {}: {cause}", path.display())]
    EngineLog {
        /// The log.
        path: PathBuf,
        /// What is wrong with it.
        cause: EngineLogError,
    },
    /// A run does not belong to the others.
    #[error("{} cannot be fitted together with the other runs: {why}", path.display())]
    Apart {
        /// The run folder.
        path: PathBuf,
        /// How it differs from the others.
        why: String,
    },
    /// A run is given twice.
    #[error("{} is given twice", path.display())]
    Twice {
        /// The run folder.
        path: PathBuf,
    },
    /// The energy of the server was not measured.
    #[error("the energy of {} is unknown: its server is on {host}, whose sensors cannot be read from this machine", path.display())]
    Elsewhere {
        /// The run folder.
        path: PathBuf,
        /// The name of that machine.
        host: String,
    },
    /// The runs of a sweep were finalized, but have no journals.
    #[error("no run of {} has a journal with requests, so its energy cannot be attributed again", path.display())]
    NoJournals {
        /// The sweep folder.
        path: PathBuf,
    },
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
            Self::Read(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::NoRecords { path } => {
                Some(hint!("resume it with ", command(format!("profile --resume {}", path.display()))))
            }
            Self::NoJournals { .. } => Some(hint!("if there is a copy of journal/ of the runs, restore it")),
            Self::Readings { cause, .. } => cause.hint(),
            Self::Apart { .. } => Some(hint!("pass runs with the same model, server, client, hardware and devices")),
            Self::Twice { .. } => Some(hint!("pass each run once; a sweep contains its runs")),
            Self::Elsewhere { .. } => {
                Some(hint!("if the server is on this machine, repeat the run with ", flag("server-is-local")))
            }
            Self::EngineLog { .. } => Some(hint!(
                "pass the steps that the server logged during the run: JSON Lines with prefill and decode steps, or the log \
                 of vLLM with --enable-logging-iteration-details"
            )),
        }
    }
}
