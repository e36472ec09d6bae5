//! Reads Arrow and Parquet files that may be damaged.
//!
//! The Arrow and Parquet libraries panic on some damaged files, and allocate as much memory as a file declares. Here, a
//! panic becomes an error without a message on stderr, and declared lengths are checked before anything is allocated
//! for them. Datasets and saved runs are read with this crate only.
//!
//! ```
//! use std::io::Cursor;
//!
//! use ergometer_columnar::{FileError, read_stream};
//!
//! let damaged = Cursor::new(b"\xff\xff\xff\xff\xff\xff\xff\x7f");
//! assert!(matches!(read_stream(damaged, None), Err(FileError::Damaged(_))));
//! ```

mod arrow_file;
mod batches;
mod delta;
mod error;
mod messages;
mod pages;
mod parquet_file;
mod stream;
mod thrift;

pub use arrow_file::{ArrowFile, ArrowFormat};
pub use batches::Batches;
pub use error::FileError;
pub use parquet_file::{ParquetFile, Selection};
pub use stream::read_stream;
