//! The records of a run, read back from their Arrow file.

use std::fs::File;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_ipc::reader::StreamReader;
use arrow_schema::DataType;
use ergometer_runs::store::DATA_FILE;

use crate::rig::MODEL;

/// The records of a run in one batch.
pub(crate) struct Table(StructArray);

impl Table {
    pub(crate) fn read(run: &Path) -> Self {
        let reader = StreamReader::try_new(File::open(run.join(DATA_FILE)).unwrap(), None).unwrap();
        let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
        assert_eq!(batches.len(), 1, "the runs here are short");
        Self(StructArray::from(batches[0].clone()))
    }

    pub(crate) fn rows(&self) -> usize {
        self.0.len()
    }

    /// A column by its path; `*` is the model's name. Nulls of a parent are nulls of the column.
    fn column(&self, path: &str) -> ArrayRef {
        let mut column: ArrayRef = std::sync::Arc::new(self.0.clone());
        for name in path.split('/') {
            let name = if name == "*" { MODEL } else { name };
            let parent = column.as_struct();
            let child = parent.column_by_name(name).unwrap_or_else(|| panic!("no {name} in {path}"));
            let nulls = arrow_buffer::NullBuffer::union(parent.nulls(), child.nulls());
            let data = child.to_data().into_builder().nulls(nulls);
            column = arrow_array::make_array(data.build().unwrap());
        }
        column
    }

    pub(crate) fn floats(&self, path: &str) -> Vec<Option<f64>> {
        self.column(path).as_primitive::<Float64Type>().iter().collect()
    }

    pub(crate) fn integers(&self, path: &str) -> Vec<Option<i64>> {
        let column = self.column(path);
        match column.data_type() {
            DataType::UInt64 => column
                .as_primitive::<UInt64Type>()
                .iter()
                .map(|value| value.map(|value| i64::try_from(value).unwrap()))
                .collect(),
            _ => column.as_primitive::<Int64Type>().iter().collect(),
        }
    }

    pub(crate) fn texts(&self, path: &str) -> Vec<Option<String>> {
        self.column(path).as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
    }

    pub(crate) fn booleans(&self, path: &str) -> Vec<Option<bool>> {
        self.column(path).as_boolean().iter().collect()
    }

    /// The length of the list in each row.
    pub(crate) fn lengths(&self, path: &str) -> Vec<i32> {
        let column = self.column(path);
        let list = column.as_list::<i32>();
        (0..list.len()).map(|row| list.value_length(row)).collect()
    }

    /// Whether a column is null in every row.
    pub(crate) fn is_absent(&self, path: &str) -> bool {
        let column = self.column(path);
        column.null_count() == column.len()
    }

    /// The indices of the queries, in the order of the file.
    pub(crate) fn queries(&self) -> Vec<i64> {
        self.integers("ergometer/query_index").into_iter().flatten().collect()
    }
}
