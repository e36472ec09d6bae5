//! The files of a finished run: records, exchanges and timelines go in; files that other tools open come out.
//!
//! - [`DatasetWriter`]: the records, for `datasets.load_from_disk` (`data-00000-of-00001.arrow`, `dataset_info.json`,
//!   `state.json`).
//! - [`RequestsWriter`]: every request as it happened, `requests.parquet`.
//! - [`TelemetryWriter`]: every reading, `telemetry.parquet`.
//!
//! A file is written under a temporary name and renamed when it is whole and on the disk, so what stands under a final
//! name is always complete. Memory stays flat however long the run was.
//!
//! Times are integers, in nanoseconds since the epoch, with `_ns` in their names. Parquet's timestamps were tried and
//! not taken: `DuckDB` 2.0 reads those with a time zone, but needs a further Python package to hand one over, and
//! hands over those without a zone cut to microseconds. Integers are exact everywhere, and join with the records.

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
pub use records::{DATA_FILE, DatasetWriter, INFO_FILE, STATE_FILE};
pub use requests::{REQUESTS_FILE, RequestsWriter};
pub use telemetry::{TELEMETRY_FILE, TelemetryWriter};

/// Writes a value as JSON for people to read too, whole or not at all.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
    let encoding = |cause: serde_json::Error| StoreError::Encoding { path: path.to_path_buf(), cause: Box::new(cause) };
    let mut text = serde_json::to_vec_pretty(value).map_err(encoding)?;
    text.push(b'\n');
    partial::PartialFile::write_whole(path, &text)
}
