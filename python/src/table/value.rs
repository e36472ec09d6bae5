//! Converts a value of an Arrow column to a Python object.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use ergometer_diagnostics::{Hint, Message};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::error::builtin;

/// A value as a Python object; `None` for null. Timestamps become integers in the unit of their column.
pub(super) fn value<'py>(py: Python<'py>, array: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
    if array.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    match array.data_type() {
        DataType::Null => Ok(py.None().into_bound(py)),
        DataType::Boolean => array.as_boolean().value(row).into_bound_py_any(py),
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).into_bound_py_any(py),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into_bound_py_any(py),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into_bound_py_any(py),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into_bound_py_any(py),
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(row).into_bound_py_any(py),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(row).into_bound_py_any(py),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into_bound_py_any(py),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).into_bound_py_any(py),
        DataType::Float32 => array.as_primitive::<Float32Type>().value(row).into_bound_py_any(py),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).into_bound_py_any(py),
        DataType::Date32 => array.as_primitive::<Date32Type>().value(row).into_bound_py_any(py),
        DataType::Timestamp(unit, _) => timestamp(array, *unit, row).into_bound_py_any(py),
        DataType::Utf8 => array.as_string::<i32>().value(row).into_bound_py_any(py),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).into_bound_py_any(py),
        DataType::Binary => Ok(PyBytes::new(py, array.as_binary::<i32>().value(row)).into_any()),
        DataType::Dictionary(_, _) => {
            let values = array.as_any_dictionary().values();
            let key = match array.as_dictionary_opt::<Int32Type>() {
                Some(dictionary) => dictionary.key(row),
                None => array.as_any_dictionary().normalized_keys().get(row).copied(),
            };
            key.map_or_else(|| Ok(py.None().into_bound(py)), |key| value(py, values, key))
        }
        DataType::List(_) => list(py, &array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list(py, &array.as_list::<i64>().value(row)),
        DataType::Struct(fields) => {
            let dictionary = PyDict::new(py);
            for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                dictionary.set_item(field.name(), value(py, column, row)?)?;
            }
            Ok(dictionary.into_any())
        }
        other => {
            let message = Message::new(format!("cannot convert a value of type {other} to Python"));
            Err(builtin::<PyTypeError>(&message.with_hint(Hint::text("use to_pyarrow()"))))
        }
    }
}

fn list<'py>(py: Python<'py>, values: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    let list = PyList::empty(py);
    for row in 0..values.len() {
        list.append(value(py, values, row)?)?;
    }
    Ok(list.into_any())
}

fn timestamp(array: &ArrayRef, unit: TimeUnit, row: usize) -> i64 {
    match unit {
        TimeUnit::Second => array.as_primitive::<TimestampSecondType>().value(row),
        TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().value(row),
        TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().value(row),
        TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().value(row),
    }
}
