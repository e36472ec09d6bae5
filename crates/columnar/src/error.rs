//! The error of reading a file.

use std::io;

use arrow_schema::ArrowError;
use ergometer_diagnostics::contain_panic;
use parquet::errors::ParquetError;

/// Why a file cannot be read. The path is known to the caller only.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system reported an error.
    #[error("{0}")]
    Io(io::Error),
    /// The bytes are not those of a valid file.
    #[error("{0}")]
    Damaged(String),
}

impl FileError {
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged(what.into())
    }
}

impl From<io::Error> for FileError {
    fn from(cause: io::Error) -> Self {
        match cause.kind() {
            io::ErrorKind::UnexpectedEof => Self::damaged("it ends early"),
            // Seeking to a position that a damaged length gives, and decompressing damaged bytes.
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::Other => {
                Self::Damaged(cause.to_string())
            }
            _ => Self::Io(cause),
        }
    }
}

impl From<ArrowError> for FileError {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, cause) => cause.into(),
            other => Self::Damaged(other.to_string()),
        }
    }
}

impl From<ParquetError> for FileError {
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(cause) => match cause.downcast::<io::Error>() {
                Ok(cause) => (*cause).into(),
                Err(other) => Self::Damaged(other.to_string()),
            },
            other => Self::Damaged(other.to_string()),
        }
    }
}

/// Calls a function of the Arrow or Parquet library. A panic is damage.
pub(crate) fn guarded<T, E: Into<FileError>>(read: impl FnOnce() -> Result<T, E>) -> Result<T, FileError> {
    match contain_panic(read) {
        Ok(result) => result.map_err(Into::into),
        Err(panic) => Err(FileError::Damaged(format!("its reader failed: {panic}"))),
    }
}
