//! Reads Parquet files by row group.

use std::fs::File;
use std::path::Path;

use arrow_array::RecordBatch;
use ergometer_diagnostics::Message;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use super::DatasetError;
use super::batches::{Batches, guarded};
use super::error::incomplete;
use super::format::{Magic, magic_of};
use super::table::check_file;

/// The number of rows decoded at a time.
const BATCH: usize = 1024;

/// A Parquet file whose footer has been read.
#[derive(Debug)]
pub(super) struct ParquetFile {
    file: File,
    metadata: ArrowReaderMetadata,
    rows: Vec<u64>,
}

impl ParquetFile {
    pub(super) fn open(path: &Path) -> Result<Self, DatasetError> {
        check_file(path)?;
        let damaged = |what: Message| DatasetError::Format { path: path.to_path_buf(), what };
        match magic_of(path)? {
            Magic::Parquet => {}
            Magic::Empty => return Err(DatasetError::Empty { path: path.to_path_buf() }),
            other => return Err(damaged(other.message("not a Parquet file"))),
        }
        let file = File::open(path).map_err(|cause| DatasetError::Read { path: path.to_path_buf(), cause })?;
        let footer = || ArrowReaderMetadata::load(&file, ArrowReaderOptions::new());
        let unreadable = |error| incomplete(format!("its footer cannot be read: {error}"));
        let metadata = guarded(|| footer().map_err(unreadable)).map_err(damaged)?;
        let groups = metadata.metadata().row_groups();
        let rows = groups.iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(0)).collect();
        Ok(Self { file, metadata, rows })
    }
}

impl Batches for ParquetFile {
    fn rows(&self) -> &[u64] {
        &self.rows
    }

    fn columns(&self) -> Vec<String> {
        self.metadata.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn decode(&self, group: usize) -> Result<Vec<RecordBatch>, Message> {
        let file = self.file.try_clone().map_err(|error| error.to_string())?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone());
        let reader = builder.with_row_groups(vec![group]).with_batch_size(BATCH).build();
        let batches = reader.map_err(|error| error.to_string())?.collect::<Result<Vec<_>, _>>();
        batches.map_err(|error| format!("cannot be decoded: {error}").into())
    }
}
