//! Serializes a table for `pickle`, so that it can be sent to another process.

use std::io::Cursor;

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use ergometer_columnar::{FileError, read_stream};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::Table;

/// The bytes of an Arrow stream.
pub(super) fn bytes(schema: &Schema, batches: &[RecordBatch]) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
    for batch in batches {
        writer.write(batch)?;
    }
    writer.into_inner()
}

/// Reads a table from the bytes of an Arrow stream.
#[pyfunction]
pub(crate) fn table_from_stream(packed: &[u8]) -> PyResult<Table> {
    let read = || {
        let batches = read_stream(Cursor::new(packed), None)?;
        let schema = SchemaRef::clone(batches.schema());
        batches.collect::<Result<Vec<_>, FileError>>().map(|batches| Table::new(schema, batches))
    };
    read().map_err(|cause: FileError| PyValueError::new_err(format!("the bytes are not a table: {cause}")))
}
