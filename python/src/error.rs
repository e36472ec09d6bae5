//! Turns errors of the crates into Python exceptions, with hints formatted for Python.

use std::io;

use ergometer_diagnostics::{Diagnostic, Keywords};
use ergometer_trace::SourceError;
use pyo3::exceptions::PyPermissionError;
use pyo3::type_object::PyTypeInfo;
use pyo3::{PyErr, import_exception};

import_exception!(ergometer.errors, MeterError);
import_exception!(ergometer.errors, MissingFileError);
import_exception!(ergometer.errors, ProfilingError);
import_exception!(ergometer.errors, RunError);
import_exception!(ergometer.errors, TraceError);

/// An exception class of `ergometer.errors`: takes a message and a hint.
pub(crate) fn exception<E: PyTypeInfo>(error: &(impl Diagnostic + ?Sized)) -> PyErr {
    PyErr::new::<E, _>((error.to_string(), hint(error)))
}

/// `MissingFileError`, which also takes the path.
pub(crate) fn missing_file(error: &(impl Diagnostic + ?Sized), path: impl AsRef<std::path::Path>) -> PyErr {
    MissingFileError::new_err((error.to_string(), hint(error), path.as_ref().to_path_buf()))
}

/// One of Python's own exception classes. These have no `hint`, so the hint is part of the text.
pub(crate) fn builtin<E: PyTypeInfo>(error: &(impl Diagnostic + ?Sized)) -> PyErr {
    PyErr::new::<E, _>(error.one_line(&Keywords))
}

/// A trace that cannot be opened: `FileNotFoundError` and `PermissionError` where they apply, else `TraceError`.
pub(crate) fn source_error(error: &SourceError) -> PyErr {
    match error {
        SourceError::Read { path, cause } => match cause.kind() {
            io::ErrorKind::NotFound => missing_file(error, path),
            io::ErrorKind::PermissionDenied => builtin::<PyPermissionError>(error),
            _ => exception::<TraceError>(error),
        },
        _ => exception::<TraceError>(error),
    }
}

fn hint(error: &(impl Diagnostic + ?Sized)) -> Option<String> {
    error.hint().map(|hint| hint.phrase(&Keywords))
}
