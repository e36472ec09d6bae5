//! Errors of reading and writing a journal.

use std::io;
use std::path::{Path, PathBuf};

use ergometer_diagnostics::{Diagnostic, Hint, command, hint};

/// Why a journal could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file system failed.
    #[error("cannot {action} {}: {}", path.display(), describe(cause))]
    Io {
        /// The action that failed, such as `open`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        cause: io::Error,
    },
    /// The run folder has no journal.
    #[error("{} has no journal", path.display())]
    NoJournal {
        /// The folder.
        path: PathBuf,
        /// Whether it has the results of a run.
        has_results: bool,
    },
    /// A later version wrote the journal.
    #[error("{} was written by a later version of Ergometer (format {found}, this version reads up to {known})", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        found: u32,
        /// The newest version this program reads.
        known: u32,
    },
    /// The journal is damaged.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The content of a file could not be encoded.
    #[error("cannot encode {}: {cause}", path.display())]
    Encoding {
        /// The file.
        path: PathBuf,
        /// The error of the encoder.
        cause: serde_json::Error,
    },
    /// Another process uses the folder.
    #[error("{} is in use by another ergo process", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
}

impl Diagnostic for JournalError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NoJournal { has_results: true, .. } => {
                Some(hint!("a run without its journal can be read, but not finalized, attributed or resumed"))
            }
            Self::NoJournal { has_results: false, .. } => {
                Some(hint!("pass a run folder; ", command("profile"), " creates them in `runs`"))
            }
            Self::Version { .. } => Some(hint!("upgrade Ergometer")),
            Self::InUse { .. } => Some(hint!("wait for it to end, or stop it")),
            Self::Encoding { .. } => Some(hint!("this is a bug in ergo; please report it")),
            Self::Io { .. } | Self::Damaged { .. } => None,
        }
    }
}

impl JournalError {
    /// Converts an I/O error, for `map_err`.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Io { action, path: path.to_path_buf(), cause }
    }

    /// Converts an error of the encoder, for `map_err`.
    pub(super) fn encoding(path: &Path) -> impl FnOnce(serde_json::Error) -> Self {
        move |cause| Self::Encoding { path: path.to_path_buf(), cause }
    }

    /// Whether the disk or the quota is full.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io { cause, .. } if is_full(cause))
    }
}

fn is_full(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

fn describe(cause: &io::Error) -> String {
    if cause.kind() == io::ErrorKind::FileTooLarge {
        format!("the file reached the file size limit ({cause})")
    } else if is_full(cause) {
        format!("the disk is full ({cause})")
    } else {
        cause.to_string()
    }
}
