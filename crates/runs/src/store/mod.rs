//! Writes the files of a finished run: records, requests and telemetry.
//!
//! - [`DatasetWriter`]: the records, for `datasets.load_from_disk` (`data-00000-of-00001.arrow`, `dataset_info.json`,
//!   `state.json`).
//! - [`RequestsWriter`]: every request as it happened, `requests.parquet`.
//! - [`TelemetryWriter`]: every reading, `telemetry.parquet`.
//!
//! A file is written under a temporary name, synced and renamed, so a file with its final name is always complete. Memory
//! does not grow with the length of a run.
//!
//! Times are integers, in nanoseconds since the epoch, with `_ns` in their names. Parquet timestamps do not work as
//! well: `DuckDB` 2.0 needs a further Python package to return timestamps with a time zone, and truncates those without
//! a zone to microseconds. Integers are exact everywhere, and join with the records.

mod columns;
mod error;
mod layout;
mod length;
mod metadata;
mod partial;
mod records;
mod requests;
mod state;
mod telemetry;

#[cfg(test)]
pub(crate) mod example;

use std::path::Path;

use serde::Serialize;

pub use error::StoreError;
pub use layout::RecordSchema;
pub use metadata::MetadataShape;
pub(crate) use partial::remove_file;
pub use partial::{create_folder, write_file};
pub use records::{DATA_FILE, DatasetWriter, INFO_FILE, STATE_FILE};
pub use requests::{REQUESTS_FILE, RequestsWriter};
pub(crate) use state::State;
pub use telemetry::{TELEMETRY_FILE, TelemetryWriter};

/// Writes a value as indented JSON, atomically.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
    write_line(path, serde_json::to_vec_pretty(value))
}

/// Writes a value as JSON on one line, atomically.
pub fn write_compact_json(path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
    write_line(path, serde_json::to_vec(value))
}

fn write_line(path: &Path, text: serde_json::Result<Vec<u8>>) -> Result<(), StoreError> {
    let encoding = |cause: serde_json::Error| StoreError::Encoding { path: path.to_path_buf(), cause: Box::new(cause) };
    let mut text = text.map_err(encoding)?;
    text.push(b'\n');
    partial::PartialFile::write_whole(path, &text)
}
