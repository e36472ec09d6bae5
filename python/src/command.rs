//! The `ergo` command, inside a Python process.

use std::ffi::OsString;
use std::process::ExitCode;

use pyo3::prelude::*;

/// Runs `ergo` with these arguments, the first of which is the program's own name, and returns its exit code.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    let code = py.detach(|| ergometer_cli::run(arguments));
    // An exit code does not tell its number, only whether it is another's.
    (0..=u8::MAX).find(|&number| ExitCode::from(number) == code).unwrap_or(1)
}
