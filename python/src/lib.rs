//! The extension module behind the Python package `ergometer`: what is read, summed and sampled in Rust, for Python.
//!
//! Long calls release Python's lock and heed Ctrl-C. Tables are handed on without a copy, by Arrow's `PyCapsule`
//! interface. Errors are the exceptions of `ergometer.errors`.

mod command;
mod error;
mod interruptible;
mod meter;
mod profiler;
mod run;
mod statistics;
mod table;
mod trace;

/// What Python imports as `ergometer._native`.
#[pyo3::pymodule(name = "_native", gil_used = true)]
mod native {
    #[pymodule_export]
    use super::command::run_command;
    #[pymodule_export]
    use super::meter::{Energy, Meter};
    #[pymodule_export]
    use super::profiler::{ProfilerRules, is_pattern};
    #[pymodule_export]
    use super::run::{SavedRun, SavedSweep, open_run, open_sweep};
    #[pymodule_export]
    use super::statistics::{rank, summarize};
    #[pymodule_export]
    use super::table::{Table, table, table_from_stream};
    #[pymodule_export]
    use super::trace::{Event, Line, Plane, Trace, read_trace};

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
