//! The extension module behind the Python package `ergometer`.

/// What Python imports as `ergometer._native`.
#[pyo3::pymodule(name = "_native")]
mod native {}
