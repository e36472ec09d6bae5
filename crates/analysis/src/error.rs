//! What can go wrong with a saved run, and what to do about it.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why there is no answer.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum AnalysisError {
    #[error("{path} is no run: {why}. hint: a run is a folder that `ergo profile` wrote, with summary.json in it")]
    NotARun { path: PathBuf, why: String },
    #[error("{path} has a journal but no results: it was not closed. hint: `ergo finalize {path}` writes them")]
    NotClosed { path: PathBuf },
    #[error("{path} is damaged: {what}. hint: if journal/ is still there, `ergo finalize` on the run writes it anew")]
    Damaged { path: PathBuf, what: String },
    #[error("{path} was written by a later version of Ergometer (format {found}, this one knows {known})")]
    Version { path: PathBuf, found: u64, known: u64 },
    #[error("cannot {doing} {path}: {cause}")]
    Io { doing: &'static str, path: PathBuf, cause: std::io::Error },
    #[error("{path} has no queries: there is nothing to analyse")]
    NoQueries { path: PathBuf },
    #[error("{0}")]
    Impossible(String),
}

impl AnalysisError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |cause| Self::Io { doing, path, cause }
    }

    pub(crate) fn damaged<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> Self {
        let path = path.to_path_buf();
        move |cause| Self::Damaged { path: path.clone(), what: cause.to_string() }
    }
}
