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
    /// Damage with the first line of a message. The other lines of some libraries say where their own code was.
    pub(crate) fn damaged(what: impl AsRef<str>) -> Self {
        Self::Damaged(what.as_ref().lines().next().unwrap_or_default().to_owned())
    }
}

impl From<io::Error> for FileError {
    fn from(cause: io::Error) -> Self {
        match cause.kind() {
            io::ErrorKind::UnexpectedEof => Self::damaged("it ends early"),
            // Seeking to a position that a damaged length gives, and decompressing damaged bytes.
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::Other => {
                Self::damaged(cause.to_string())
            }
            _ => Self::Io(cause),
        }
    }
}

impl From<ArrowError> for FileError {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, cause) => cause.into(),
            other => Self::damaged(other.to_string()),
        }
    }
}

impl From<ParquetError> for FileError {
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(cause) => match cause.downcast::<io::Error>() {
                Ok(cause) => (*cause).into(),
                Err(other) => Self::damaged(other.to_string()),
            },
            other => Self::damaged(other.to_string()),
        }
    }
}

/// Calls a function of the Arrow or Parquet library. A panic is damage.
pub(crate) fn guarded<T, E: Into<FileError>>(read: impl FnOnce() -> Result<T, E>) -> Result<T, FileError> {
    match contain_panic(read) {
        Ok(result) => result.map_err(Into::into),
        Err(panic) => Err(FileError::damaged(format!("its reader failed: {panic}"))),
    }
}
