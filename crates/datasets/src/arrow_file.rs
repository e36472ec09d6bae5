//! Reads the batches of Arrow files, in the file format and in the stream format, which `datasets` writes.

use std::fs::File;
use std::path::Path;

use arrow_array::RecordBatch;
use ergometer_columnar::{ArrowFile, ArrowFormat, FileError};
use ergometer_diagnostics::Message;

use super::DatasetError;
use super::batches::Batches;
use super::format::{Magic, magic_of};
use super::table::check_file;

/// Opens an Arrow file.
pub(super) fn open(path: &Path) -> Result<ArrowFile, DatasetError> {
    check_file(path)?;
    let wrong = |what: Message| DatasetError::Format { path: path.to_path_buf(), what };
    let format = match magic_of(path)? {
        Magic::ArrowFile => ArrowFormat::File,
        Magic::ArrowStream => ArrowFormat::Stream,
        Magic::Empty => return Err(DatasetError::Empty { path: path.to_path_buf() }),
        other => return Err(wrong(other.message("not an Arrow file"))),
    };
    let file = File::open(path).map_err(|cause| DatasetError::Read { path: path.to_path_buf(), cause })?;
    ArrowFile::open(file, format).map_err(DatasetError::of_file(path))
}

impl Batches for ArrowFile {
    fn rows(&self) -> &[u64] {
        self.batch_rows()
    }

    fn columns(&self) -> Vec<String> {
        self.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn decode(&self, group: usize) -> Result<Vec<RecordBatch>, FileError> {
        Ok(self.batch(group)?.into_iter().collect())
    }
}
