//! Reads the row groups of Parquet files.

use std::fs::File;
use std::path::Path;

use arrow_array::RecordBatch;
use ergometer_columnar::{FileError, ParquetFile, Selection};
use ergometer_diagnostics::Message;

use super::DatasetError;
use super::batches::Batches;
use super::format::{Magic, magic_of};
use super::table::check_file;

/// The number of rows decoded at a time.
const BATCH: usize = 1024;

/// Opens a Parquet file.
pub(super) fn open(path: &Path) -> Result<ParquetFile, DatasetError> {
    check_file(path)?;
    let wrong = |what: Message| DatasetError::Format { path: path.to_path_buf(), what };
    match magic_of(path)? {
        Magic::Parquet => {}
        Magic::Empty => return Err(DatasetError::Empty { path: path.to_path_buf() }),
        other => return Err(wrong(other.message("not a Parquet file"))),
    }
    let file = File::open(path).map_err(|cause| DatasetError::Read { path: path.to_path_buf(), cause })?;
    ParquetFile::open(file).map_err(DatasetError::of_file(path))
}

impl Batches for ParquetFile {
    fn rows(&self) -> &[u64] {
        self.group_rows()
    }

    fn columns(&self) -> Vec<String> {
        self.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn decode(&self, group: usize) -> Result<Vec<RecordBatch>, FileError> {
        self.batches(Selection { group: Some(group), columns: None, batch_rows: BATCH })?.collect()
    }
}
