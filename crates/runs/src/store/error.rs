//! Errors of writing the files of a run. Each names the action, the file and a hint.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use arrow_schema::ArrowError;
use ergometer_diagnostics::{Diagnostic, Hint, command, hint, option};
use parquet::errors::ParquetError;

/// Why a file of a run could not be written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system failed.
    #[error("cannot {action} {}: {cause}", .path.display())]
    File {
        /// The action that failed: `create`, `write`, `rename`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        #[source]
        cause: io::Error,
    },
    /// The rows could not be encoded.
    #[error("cannot encode {}: {cause}", .path.display())]
    Encoding {
        /// The file.
        path: PathBuf,
        /// The error of the encoder.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The texts of one row are longer than a column can hold.
    #[error(
        "cannot write {}: {row} has {bytes} bytes of text, but a column can hold at most 2 GiB", .path.display()
    )]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Which row: `query 3`, `request 7`.
        row: String,
        /// The length of its texts.
        bytes: usize,
    },
    /// The metadata of a record does not fit the schema.
    #[error(
        "cannot write {}: the metadata `{key}` of query {query_index} is not in the schema, or has another type there", .path.display()
    )]
    UnforeseenMetadata {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The index of the query in the dataset.
        query_index: u64,
    },
}

impl StoreError {
    pub(super) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::File { action, path: path.to_owned(), cause }
    }

    /// Converts an error of Arrow's writer, which may wrap an error of the file system.
    pub(super) fn arrow(path: &Path) -> impl FnOnce(ArrowError) -> Self {
        move |error| match error {
            ArrowError::IoError(_, cause) => Self::file("write", path)(cause),
            ArrowError::ExternalError(cause) => Self::external(path, cause),
            other => Self::Encoding { path: path.to_owned(), cause: other.into() },
        }
    }

    /// Converts an error of Parquet's writer, which may wrap an error of the file system.
    pub(super) fn parquet(path: &Path) -> impl FnOnce(ParquetError) -> Self {
        move |error| match error {
            ParquetError::External(cause) => Self::external(path, cause),
            other => Self::Encoding { path: path.to_owned(), cause: other.into() },
        }
    }

    fn external(path: &Path, cause: Box<dyn Error + Send + Sync>) -> Self {
        match cause.downcast::<io::Error>() {
            Ok(cause) => Self::file("write", path)(*cause),
            Err(cause) => Self::Encoding { path: path.to_owned(), cause },
        }
    }
}

impl Diagnostic for StoreError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::File { cause, .. } => file_hint(cause),
            Self::Encoding { .. } | Self::UnforeseenMetadata { .. } => {
                Some(hint!("this is a bug in ergo; the journal is complete. Please report it"))
            }
            Self::TooLong { .. } => Some(hint!("remove that query from the dataset")),
        }
    }
}

/// A hint for an error of the file system.
fn file_hint(cause: &io::Error) -> Option<Hint> {
    match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(hint!(
            "the disk is full: make room, then run ",
            command("finalize"),
            "; the journal has everything that was measured"
        )),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Some(hint!("make the run folder writable, or choose another with ", option("output-dir")))
        }
        io::ErrorKind::NotFound => Some(hint!("check whether the run folder was moved or removed")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::CommandLine;

    use super::*;

    #[test]
    fn a_full_disk_has_the_same_message_from_every_writer() {
        let path = Path::new("runs/a/requests.parquet");
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let direct = StoreError::file("write", path)(full()).to_string();
        assert!(direct.starts_with("cannot write runs/a/requests.parquet: "), "{direct}");
        let hint = StoreError::file("write", path)(full()).hint().unwrap();
        assert!(hint.phrase(&CommandLine).starts_with("the disk is full: make room"));
        let by_arrow = StoreError::arrow(path)(ArrowError::from(full())).to_string();
        let by_parquet = StoreError::parquet(path)(ParquetError::from(full())).to_string();
        assert_eq!((by_arrow, by_parquet), (direct.clone(), direct));
    }

    #[test]
    fn an_encoding_error_keeps_its_cause() {
        let path = Path::new("data.arrow");
        let error = StoreError::arrow(path)(ArrowError::SchemaError("odd".to_owned()));
        assert!(error.to_string().contains("cannot encode data.arrow: Schema error: odd"), "{error}");
        assert!(error.source().is_some());
        let error = StoreError::parquet(path)(ParquetError::General("odd".to_owned()));
        assert!(matches!(error, StoreError::Encoding { .. }));
    }
}
