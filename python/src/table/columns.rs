//! Builds a table column by column.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder, StringBuilder};
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray, UInt64Array,
};
use arrow_schema::{ArrowError, Field, Schema};
use ergometer_trace::ProgramId;
use pyo3::PyResult;
use pyo3::exceptions::PyRuntimeError;

use super::Table;

/// Columns of equal length, in order.
#[derive(Default)]
pub(crate) struct Columns {
    names: Vec<String>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    /// A column of any type.
    pub(crate) fn array(mut self, name: impl Into<String>, array: ArrayRef) -> Self {
        self.names.push(name.into());
        self.arrays.push(array);
        self
    }

    /// A column of texts.
    pub(crate) fn text<T: AsRef<str>>(self, name: &str, values: impl Iterator<Item = Option<T>>) -> Self {
        self.array(name, Arc::new(values.collect::<StringArray>()))
    }

    /// A column of whole numbers.
    pub(crate) fn integer<T: Into<Option<i64>>>(self, name: &str, values: impl Iterator<Item = T>) -> Self {
        self.array(name, Arc::new(values.map(Into::into).collect::<Int64Array>()))
    }

    /// A column of counts.
    pub(crate) fn count(self, name: &str, values: impl Iterator<Item = u64>) -> Self {
        self.integer(name, values.map(|value| i64::try_from(value).unwrap_or(i64::MAX)))
    }

    /// A column of floats; values that are not finite become null.
    pub(crate) fn number<T: Into<Option<f64>>>(self, name: &str, values: impl Iterator<Item = T>) -> Self {
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        self.array(name, Arc::new(values.map(|value| finite(value.into())).collect::<Float64Array>()))
    }

    /// A column of booleans.
    pub(crate) fn boolean(self, name: &str, values: impl Iterator<Item = Option<bool>>) -> Self {
        self.array(name, Arc::new(values.collect::<BooleanArray>()))
    }

    /// A column of lists of whole numbers.
    pub(crate) fn integers(self, name: &str, values: impl Iterator<Item = Vec<i64>>) -> Self {
        let mut lists = ListBuilder::new(Int64Builder::new());
        for value in values {
            lists.values().append_slice(&value);
            lists.append(true);
        }
        self.array(name, Arc::new(lists.finish()))
    }

    /// A column of lists of texts.
    pub(crate) fn texts(self, name: &str, values: impl Iterator<Item = Vec<String>>) -> Self {
        let mut lists = ListBuilder::new(StringBuilder::new());
        for value in values {
            for text in &value {
                lists.values().append_value(text);
            }
            lists.append(true);
        }
        self.array(name, Arc::new(lists.finish()))
    }

    /// A column of program ids: signed, unsigned if some do not fit a signed integer, or texts if neither type holds
    /// all.
    pub(crate) fn program(self, name: &str, values: impl Iterator<Item = Option<ProgramId>>) -> Self {
        let values: Vec<Option<i128>> = values.map(|value| value.map(ProgramId::get)).collect();
        let fit = |fits: fn(i128) -> bool| values.iter().flatten().all(|&value| fits(value));
        if fit(|value| i64::try_from(value).is_ok()) {
            self.integer(name, values.iter().map(|value| value.and_then(|value| i64::try_from(value).ok())))
        } else if fit(|value| u64::try_from(value).is_ok()) {
            let values = values.iter().map(|value| value.and_then(|value| u64::try_from(value).ok()));
            self.array(name, Arc::new(values.collect::<UInt64Array>()))
        } else {
            self.text(name, values.iter().map(|value| value.map(|value| value.to_string())))
        }
    }

    /// The table.
    pub(crate) fn finish(self) -> PyResult<Table> {
        self.batch()
            .map(|batch| Table::new(batch.schema(), vec![batch]))
            .map_err(|cause| PyRuntimeError::new_err(cause.to_string()))
    }

    fn batch(self) -> Result<RecordBatch, ArrowError> {
        let rows = self.arrays.first().map_or(0, |array| array.len());
        let field = |(name, array): (String, &ArrayRef)| Field::new(name, array.data_type().clone(), true);
        let fields: Vec<Field> = self.names.into_iter().zip(&self.arrays).map(field).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), self.arrays, &options)
    }
}
