//! An iterator over record batches that ends with the first error.

use std::fmt;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};

use crate::FileError;
use crate::error::guarded;

/// The record batches of a file, in order.
pub struct Batches<'a> {
    schema: SchemaRef,
    /// `None` after an error: a reader that panicked is not used again.
    reader: Option<Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + 'a>>,
}

impl<'a> Batches<'a> {
    pub(crate) fn new(schema: SchemaRef, reader: impl Iterator<Item = Result<RecordBatch, ArrowError>> + 'a) -> Self {
        Self { schema, reader: Some(Box::new(reader)) }
    }

    /// All columns of the file, including those that are not read.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<RecordBatch, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader = self.reader.as_mut()?;
        let next = guarded(|| reader.next().transpose());
        if !matches!(next, Ok(Some(_))) {
            self.reader = None;
        }
        next.transpose()
    }
}

impl fmt::Debug for Batches<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Batches").field("schema", &self.schema).finish_non_exhaustive()
    }
}
