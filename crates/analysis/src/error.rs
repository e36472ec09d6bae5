//! The error type of this crate.

use std::path::Path;

use ergometer_diagnostics::{Diagnostic, Hint, Message};
use ergometer_runs::ReadError;
use ergometer_runs::store::StoreError;

/// Why an analysis has no result.
#[derive(Debug, thiserror::Error)]
pub enum AnalysisError {
    /// A run cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file of results cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// These runs cannot be compared or analyzed as requested.
    #[error("{0}")]
    Impossible(Message),
}

impl Diagnostic for AnalysisError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Read(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Impossible(message) => message.hint.clone(),
        }
    }
}

impl AnalysisError {
    /// The error for a run without queries.
    #[must_use]
    pub fn no_queries(folder: &Path) -> Self {
        ReadError::NoQueries { path: folder.to_path_buf() }.into()
    }
}
