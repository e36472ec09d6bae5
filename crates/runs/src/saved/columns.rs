//! Reads a column of a batch by its path through nested structs. A missing column reads as nulls.

use std::cell::Cell;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_schema::DataType;

/// A column at a path. Its value is null if the column or any struct around it is null.
pub(super) struct Column {
    /// The structs around the column, for their nulls.
    around: Vec<ArrayRef>,
    values: Option<ArrayRef>,
    /// The number of values read that are NaN or infinite.
    not_finite: Cell<u64>,
}

impl Column {
    /// Looks up the column at a path of names.
    pub(super) fn find(batch: &RecordBatch, path: &[&str]) -> Self {
        let mut around = Vec::new();
        let Some((first, rest)) = path.split_first() else {
            return Self { around, values: None, not_finite: Cell::new(0) };
        };
        let mut values = batch.column_by_name(first).cloned();
        for name in rest {
            let Some(outer) = values.take() else { break };
            values = outer.as_struct_opt().and_then(|outer: &StructArray| outer.column_by_name(name)).cloned();
            around.push(outer);
        }
        Self { around, values, not_finite: Cell::new(0) }
    }

    /// Whether the column exists.
    pub(super) fn is_there(&self) -> bool {
        self.values.is_some()
    }

    /// The number of values read that are NaN or infinite.
    pub(super) fn not_finite(&self) -> u64 {
        self.not_finite.get()
    }

    fn at(&self, row: usize) -> Option<&ArrayRef> {
        let values = self.values.as_ref()?;
        (values.is_valid(row) && self.around.iter().all(|outer| outer.is_valid(row))).then_some(values)
    }

    /// A number or integer; `None` if it is not finite.
    pub(super) fn number(&self, row: usize) -> Option<f64> {
        let values = self.at(row)?;
        let number = match values.data_type() {
            DataType::Float64 => values.as_primitive_opt::<Float64Type>().map(|array: &Float64Array| array.value(row)),
            DataType::Int64 => values.as_primitive_opt::<Int64Type>().map(|array: &Int64Array| array.value(row) as f64),
            _ => None,
        };
        let is_lost = number.is_some_and(|number| !number.is_finite());
        self.not_finite.set(self.not_finite.get() + u64::from(is_lost));
        number.filter(|number| number.is_finite())
    }

    pub(super) fn integer(&self, row: usize) -> Option<i64> {
        let values: &Int64Array = self.at(row)?.as_primitive_opt::<Int64Type>()?;
        Some(values.value(row))
    }

    pub(super) fn count(&self, row: usize) -> Option<u64> {
        self.integer(row).and_then(|value| u64::try_from(value).ok())
    }

    pub(super) fn boolean(&self, row: usize) -> Option<bool> {
        let values: &BooleanArray = self.at(row)?.as_boolean_opt()?;
        Some(values.value(row))
    }

    pub(super) fn text(&self, row: usize) -> Option<&str> {
        let values: &StringArray = self.at(row)?.as_string_opt::<i32>()?;
        Some(values.value(row))
    }
}
