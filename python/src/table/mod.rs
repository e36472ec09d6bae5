//! The Python class `Table`: columns of equal length, exported through Arrow's `PyCapsule` interface without a copy, or
//! as Python lists and dictionaries.

mod build;
mod columns;
mod display;
mod pickled;
mod value;

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchIterator};
use arrow_schema::SchemaRef;
use arrow_schema::ffi::FFI_ArrowSchema;
use ergometer_diagnostics::{Hint, Message};
use pyo3::exceptions::{PyImportError, PyKeyError, PyModuleNotFoundError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyCapsule, PyDict, PyList};

use crate::error::builtin;
pub(crate) use build::table;
pub(crate) use columns::Columns;
pub(crate) use pickled::table_from_stream;
use value::value;

/// Columns of equal length, in Arrow's memory layout. pyarrow, polars, pandas and `DuckDB` accept it directly;
/// `to_pyarrow()`, `to_polars()` and `to_pandas()` convert it. Without these packages, use `to_pylist()` and
/// `to_pydict()`.
///
/// ```python
/// >>> import ergometer
/// >>> table = ergometer.read_trace("fixtures/xplane/gpu_autotune.xplane.pb").ops()
/// >>> table.shape, table["name"][0]
/// ((10, 16), 'gemm_fusion_dot_general.2')
/// >>> next(iter(table))["count"]
/// 5
///
/// ```
#[pyclass(frozen, module = "ergometer")]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    /// A table of batches with the same schema.
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }

    fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn column_index(&self, name: &str) -> PyResult<usize> {
        self.schema.index_of(name).map_err(|_| {
            let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
            PyKeyError::new_err(format!("no column {name}; the columns are {}", names.join(", ")))
        })
    }

    fn column<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for batch in &self.batches {
            let column = batch.column(index);
            for row in 0..column.len() {
                check_signals(py, row)?;
                list.append(value(py, column, row)?)?;
            }
        }
        Ok(list)
    }

    /// The first `most` rows as dictionaries.
    fn dictionaries<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        let rows = self.batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| (batch, row)));
        for (batch, row) in rows.take(most) {
            check_signals(py, row)?;
            let dictionary = PyDict::new(py);
            for (field, column) in self.schema.fields().iter().zip(batch.columns()) {
                dictionary.set_item(field.name(), value(py, column, row)?)?;
            }
            list.append(dictionary)?;
        }
        Ok(list)
    }
}

#[pymethods]
impl Table {
    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.rows()
    }

    /// The number of columns.
    #[getter]
    fn num_columns(&self) -> usize {
        self.schema.fields().len()
    }

    /// The number of rows and of columns.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        (self.num_rows(), self.num_columns())
    }

    fn __len__(&self) -> usize {
        self.rows()
    }

    /// The values of a column, as a list.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let name: String = name.extract().map_err(|_| {
            let message = Message::new("a column is selected by its name, a string");
            builtin::<PyTypeError>(&message.with_hint(Hint::text("get rows with to_pylist() or to_pandas()")))
        })?;
        self.column(py, self.column_index(&name)?)
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        name.extract::<String>().is_ok_and(|name| self.schema.index_of(&name).is_ok())
    }

    /// The rows, each as a dictionary.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.dictionaries(py, usize::MAX)?.try_iter()?.into_any())
    }

    /// The columns as an Arrow stream, without a copy.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows ignoring the requested schema; the consumer casts.
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
    }

    /// The names and types of the columns, as an Arrow schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref());
        let schema = schema.map_err(|cause| PyValueError::new_err(cause.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Pickles the table as an Arrow stream.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let packed =
            pickled::bytes(&self.schema, &self.batches).map_err(|cause| PyValueError::new_err(cause.to_string()))?;
        Ok((py.import("ergometer._native")?.getattr("table_from_stream")?, (PyBytes::new(py, &packed),)))
    }

    /// The rows, as a list of dictionaries.
    fn to_pylist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.dictionaries(py, usize::MAX)
    }

    /// The columns, as a dictionary of lists.
    fn to_pydict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dictionary = PyDict::new(py);
        for (index, field) in self.schema.fields().iter().enumerate() {
            dictionary.set_item(field.name(), self.column(py, index)?)?;
        }
        Ok(dictionary)
    }

    /// Converts to a `pyarrow.Table`, without a copy.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        import_optional(slf.py(), "pyarrow")?.call_method1("table", (slf,))
    }

    /// Converts to a `pandas.DataFrame`. With pyarrow installed, numbers are not copied if pandas allows it; without
    /// pyarrow, the conversion goes through lists.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let pandas = import_optional(py, "pandas")?;
        match py.import("pyarrow") {
            Ok(pyarrow) => {
                // By default an integer column with nulls becomes a float column, which cannot hold a 64-bit id.
                let types = PyDict::new(py);
                for (arrow, own) in [("int64", "Int64Dtype"), ("uint64", "UInt64Dtype")] {
                    types.set_item(pyarrow.call_method0(arrow)?, pandas.getattr(own)?.call0()?)?;
                }
                let keywords = [("types_mapper", types.getattr("get")?)].into_py_dict(py)?;
                pyarrow.call_method1("table", (slf,))?.call_method("to_pandas", (), Some(&keywords))
            }
            Err(cause) if cause.is_instance_of::<PyModuleNotFoundError>(py) => {
                pandas.call_method1("DataFrame", (slf.get().to_pydict(py)?,))
            }
            Err(cause) => Err(cause),
        }
    }

    /// Converts to a `polars.DataFrame`, without a copy if polars allows it.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        import_optional(slf.py(), "polars")?.call_method1("DataFrame", (slf,))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        display::text(&self.column_names(), &self.dictionaries(py, display::MAX_ROWS)?, self.rows())
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        display::html(&self.column_names(), &self.dictionaries(py, display::MAX_ROWS)?, self.rows())
    }
}

/// Checks for Ctrl-C every 4096 calls, in loops that hold Python's global lock.
pub(crate) fn check_signals(py: Python<'_>, number: usize) -> PyResult<()> {
    if number.is_multiple_of(4096) { py.check_signals() } else { Ok(()) }
}

/// Imports an optional package.
fn import_optional<'py>(py: Python<'py>, package: &str) -> PyResult<Bound<'py, PyModule>> {
    py.import(package).map_err(|cause| {
        // An installed but broken package, or Ctrl-C during the import, has a better error.
        let missing = cause.value(py).getattr("name").and_then(|name| name.extract::<String>());
        if !cause.is_instance_of::<PyModuleNotFoundError>(py) || missing.ok().as_deref() != Some(package) {
            return cause;
        }
        let hint = Hint::text(format!("run `pip install {package}`, or use to_pylist() or to_pydict()"));
        let error = builtin::<PyImportError>(&Message::new(format!("{package} is not installed")).with_hint(hint));
        error.set_cause(py, Some(cause));
        error
    })
}
