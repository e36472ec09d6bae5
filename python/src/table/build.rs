//! Builds a table from Python lists, for the Python code of the package.

use std::collections::HashMap;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};

use super::{Columns, Table};

/// The type of a column's values. A column with only `None` becomes a column of floats.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Nothing,
    Boolean,
    Integer,
    Number,
    Text,
}

/// A table of lists of equal length, of bool, int, float or str and None. `types` gives the type of columns whose
/// values may all be None: "bool", "int", "float" or "str".
#[pyfunction]
#[pyo3(signature = (columns, types=None))]
pub(crate) fn table(columns: &Bound<'_, PyDict>, types: Option<HashMap<String, String>>) -> PyResult<Table> {
    let types = types.unwrap_or_default();
    let mut built = Columns::default();
    let mut rows = None;
    for (name, values) in columns.iter() {
        let (name, values) = (name.extract::<String>()?, values.cast_into::<PyList>()?);
        if *rows.get_or_insert(values.len()) != values.len() {
            return Err(PyValueError::new_err(format!(
                "column {name} has {} values, other columns have a different number",
                values.len()
            )));
        }
        let mut kind = types.get(&name).map_or(Ok(Type::Nothing), |name| type_from_name(name))?;
        for value in values.iter() {
            kind = common_type(kind, type_of(&value)?).ok_or_else(|| mixed(&name))?;
        }
        built = match kind {
            Type::Boolean => built.boolean(&name, extract::<bool>(&values)?.into_iter()),
            Type::Integer => built.integer(&name, extract::<i64>(&values)?.into_iter()),
            Type::Nothing | Type::Number => built.number(&name, extract::<f64>(&values)?.into_iter()),
            Type::Text => built.text(&name, extract::<String>(&values)?.into_iter()),
        };
    }
    built.finish()
}

fn extract<T: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr>>(
    values: &Bound<'_, PyList>,
) -> PyResult<Vec<Option<T>>> {
    values.iter().map(|value| if value.is_none() { Ok(None) } else { value.extract::<T>().map(Some) }).collect()
}

fn type_from_name(name: &str) -> PyResult<Type> {
    match name {
        "bool" => Ok(Type::Boolean),
        "int" => Ok(Type::Integer),
        "float" => Ok(Type::Number),
        "str" => Ok(Type::Text),
        _ => Err(PyValueError::new_err(format!("a column type is bool, int, float or str, not {name}"))),
    }
}

fn type_of(value: &Bound<'_, PyAny>) -> PyResult<Type> {
    if value.is_none() {
        Ok(Type::Nothing)
    } else if value.is_instance_of::<PyBool>() {
        Ok(Type::Boolean)
    } else if value.is_instance_of::<PyInt>() {
        Ok(Type::Integer)
    } else if value.is_instance_of::<PyFloat>() {
        Ok(Type::Number)
    } else if value.is_instance_of::<PyString>() {
        Ok(Type::Text)
    } else {
        Err(PyTypeError::new_err(format!("a table holds bool, int, float, str and None, not {}", value.get_type())))
    }
}

/// The type that holds values of both types, if there is one.
fn common_type(one: Type, other: Type) -> Option<Type> {
    match (one, other) {
        (Type::Nothing, other) | (other, Type::Nothing) => Some(other),
        (Type::Integer, Type::Number) | (Type::Number, Type::Integer) => Some(Type::Number),
        (one, other) => (one == other).then_some(one),
    }
}

fn mixed(name: &str) -> PyErr {
    PyTypeError::new_err(format!("column {name} holds values of several types"))
}
