//! Errors of reading a run folder, with hints.

use std::path::{Path, PathBuf};

use ergometer_columnar::FileError;
use ergometer_diagnostics::{Diagnostic, Hint, command, hint};

use crate::sweep::SWEEP_FILE;

/// Why a run folder could not be read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ReadError {
    #[error("{path} is not a run: {why}")]
    NotARun { path: PathBuf, why: String },
    #[error("{path} has a journal but no results: the run was not finalized")]
    NotClosed { path: PathBuf },
    #[error("{path} is damaged: {what}")]
    Damaged { path: PathBuf, what: String },
    #[error("{path} was written by a later version of Ergometer (format {found}, this version reads up to {known})")]
    Version { path: PathBuf, found: u64, known: u64 },
    #[error("cannot {doing} {path}: {cause}")]
    Io { doing: &'static str, path: PathBuf, cause: std::io::Error },
    #[error("{path} has no queries to analyze")]
    NoQueries { path: PathBuf },
}

impl Diagnostic for ReadError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NotARun { .. } => {
                Some(hint!("pass a folder that ", command("profile"), " wrote; it contains summary.json"))
            }
            Self::NotClosed { path } => {
                Some(hint!("run ", command(format!("finalize {}", path.display())), " to write them"))
            }
            Self::Damaged { path, .. } if path.ends_with(SWEEP_FILE) => {
                Some(hint!("restore the file from a copy, or pass the run folders of the sweep instead"))
            }
            Self::Damaged { .. } => {
                Some(hint!("if the run still has its journal folder, ", command("finalize"), " writes the file again"))
            }
            Self::Version { .. } => Some(hint!("upgrade Ergometer")),
            Self::Io { .. } | Self::NoQueries { .. } => None,
        }
    }
}

impl ReadError {
    /// Wraps an error of the file system.
    pub fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |cause| Self::Io { doing, path, cause }
    }

    /// Wraps an error of an Arrow or Parquet file.
    pub fn of_file(path: &Path) -> impl Fn(FileError) -> Self {
        let path = path.to_path_buf();
        move |error| match error {
            FileError::Io(cause) => Self::Io { doing: "read", path: path.clone(), cause },
            FileError::Damaged(what) => Self::Damaged { path: path.clone(), what },
        }
    }

    /// Wraps an error of a parser.
    pub fn damaged<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> Self {
        let path = path.to_path_buf();
        move |cause| Self::Damaged { path: path.clone(), what: cause.to_string() }
    }
}
