//! What can be wrong with a journal.

use std::io;
use std::path::{Path, PathBuf};

/// Why a journal cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system refused.
    #[error("cannot {action} {}: {}", path.display(), told(cause))]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// There is none.
    #[error("{} has no journal. hint: run folders are made by `ergo profile`, in `runs` if not told otherwise; one whose journal was deleted can be read, but not gone on with", path.display())]
    NoJournal {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// It is of a later version.
    #[error("{} was written by a later version of Ergometer (format {found}; this one reads up to {known}). hint: update ergo", path.display())]
    Version {
        /// Which file.
        path: PathBuf,
        /// The version in the file.
        found: u32,
        /// The version this program writes.
        known: u32,
    },
    /// It is not what a journal should be.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Another process has it open.
    #[error("{} is in use by another ergo. hint: wait for it to end, or stop it", path.display())]
    InUse {
        /// Which folder.
        path: PathBuf,
    },
}

impl JournalError {
    /// For `map_err` on what the system does.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Io { action, path: path.to_path_buf(), cause }
    }

    /// Whether there is no room left.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io { cause, .. } if is_full(cause))
    }
}

fn is_full(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

fn told(cause: &io::Error) -> String {
    if cause.kind() == io::ErrorKind::FileTooLarge {
        format!("the file may not grow any further ({cause})")
    } else if is_full(cause) {
        format!("the disk is full ({cause})")
    } else {
        cause.to_string()
    }
}
