//! Reads Parquet files by row group.

use std::fs::File;

use arrow_schema::{DataType, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;

use crate::error::guarded;
use crate::{Batches, FileError, pages};

/// Maximum size of the columns of fixed size in a batch, in bytes. The Parquet library allocates it in advance.
const LARGEST_FIXED: usize = 64 << 20;

/// A Parquet file whose footer has been read.
#[derive(Debug)]
pub struct ParquetFile {
    file: File,
    metadata: ArrowReaderMetadata,
    rows: Vec<u64>,
}

/// What to read of a Parquet file.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'a> {
    /// A row group; `None` for all.
    pub group: Option<usize>,
    /// The names of the columns; `None` for all. Names that do not exist are ignored.
    pub columns: Option<&'a [&'a str]>,
    /// The number of rows to decode at a time.
    pub batch_rows: usize,
}

impl ParquetFile {
    /// Reads the footer of a file.
    pub fn open(mut file: File) -> Result<Self, FileError> {
        pages::check_footer(&mut file)?;
        let metadata = guarded(|| ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()))?;
        let invalid = || FileError::damaged("its footer declares an impossible number of rows");
        let mut rows = Vec::new();
        let mut all = 0_u64;
        for group in metadata.metadata().row_groups() {
            let count = u64::try_from(group.num_rows()).map_err(|_| invalid())?;
            all = all.checked_add(count).ok_or_else(invalid)?;
            rows.push(count);
        }
        Ok(Self { file, metadata, rows })
    }

    /// The columns.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// The number of rows of each row group.
    #[must_use]
    pub fn group_rows(&self) -> &[u64] {
        &self.rows
    }

    /// Reads record batches.
    pub fn batches(&self, selection: Selection<'_>) -> Result<Batches<'static>, FileError> {
        guarded(|| self.selected(selection))
    }

    fn selected(&self, selection: Selection<'_>) -> Result<Batches<'static>, FileError> {
        let parquet_schema = self.metadata.parquet_schema();
        let fixed = self.schema().fields().iter().map(|field| fixed_size(field.data_type()));
        let physical = parquet_schema.columns().iter().map(|column| usize::try_from(column.type_length()).unwrap_or(0));
        let widest = fixed.chain(physical).max().unwrap_or(0);
        if widest > LARGEST_FIXED {
            return Err(FileError::damaged("a column of fixed size is too large"));
        }
        let batch_rows = selection.batch_rows.min(LARGEST_FIXED / widest.max(1)).max(1);
        let groups = selection.group.map_or_else(|| (0..self.rows.len()).collect(), |group| vec![group]);
        let mask = match selection.columns {
            Some(names) => ProjectionMask::columns(parquet_schema, names.iter().copied()),
            None => ProjectionMask::all(),
        };
        for &group in &groups {
            let group = self.metadata.metadata().row_groups().get(group);
            let group = group.ok_or_else(|| FileError::damaged("a row group is missing"))?;
            let rows = usize::try_from(group.num_rows()).unwrap_or(usize::MAX);
            for (place, column) in group.columns().iter().enumerate() {
                if mask.leaf_included(place) {
                    pages::check_column(&self.file, column, rows)?;
                }
            }
        }
        let file = self.file.try_clone()?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone());
        let builder = builder.with_row_groups(groups).with_projection(mask).with_batch_size(batch_rows);
        let reader = builder.build().map_err(|error: ParquetError| FileError::from(error))?;
        Ok(Batches::new(SchemaRef::clone(self.schema()), reader))
    }
}

/// The size of the values of fixed size in a row, in bytes.
fn fixed_size(kind: &DataType) -> usize {
    let size = |length: &i32| usize::try_from(*length).unwrap_or(usize::MAX);
    match kind {
        DataType::FixedSizeBinary(length) => size(length),
        DataType::FixedSizeList(field, length) => size(length).saturating_mul(fixed_size(field.data_type()).max(1)),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::Map(field, _) => fixed_size(field.data_type()),
        DataType::Struct(fields) => fields.iter().map(|field| fixed_size(field.data_type())).max().unwrap_or(0),
        _ => 0,
    }
}
