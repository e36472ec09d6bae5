//! Errors of the crates into exceptions of the package, with their sentences and hints.

use std::fmt::Display;
use std::io;

use ergometer_trace::{SourceError, TraceError as Unread};
use pyo3::exceptions::PyPermissionError;
use pyo3::{PyErr, import_exception};

import_exception!(ergometer.errors, MeterError);
import_exception!(ergometer.errors, MissingFileError);
import_exception!(ergometer.errors, ProfilingError);
import_exception!(ergometer.errors, RunError);
import_exception!(ergometer.errors, TraceError);

/// A trace whose bytes cannot be had. What Python has an exception for is that.
pub(crate) fn unopened(error: &SourceError) -> PyErr {
    let told = in_python(error);
    match error {
        SourceError::Read { path, cause } => match cause.kind() {
            io::ErrorKind::NotFound => MissingFileError::new_err((told, path.clone())),
            io::ErrorKind::PermissionDenied => PyPermissionError::new_err(told),
            _ => TraceError::new_err(told),
        },
        _ => TraceError::new_err(told),
    }
}

/// A trace whose bytes cannot be understood.
pub(crate) fn unread(error: &Unread) -> PyErr {
    TraceError::new_err(in_python(error))
}

/// Where a hint names an option of the command, the argument of that name.
fn in_python(error: impl Display) -> String {
    error.to_string().replace("--lenient reads", "read_trace(…, lenient=True) reads")
}
