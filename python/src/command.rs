//! Runs the `ergo` command inside a Python process.

use std::ffi::OsString;
use std::process::ExitCode;

use pyo3::prelude::*;

/// Runs `ergo` and returns its exit code. The first argument is the program name.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    let code = py.detach(|| ergometer_cli::run(arguments));
    // `ExitCode` does not expose its number, but can be compared.
    (0..=u8::MAX).find(|&number| ExitCode::from(number) == code).unwrap_or(1)
}
