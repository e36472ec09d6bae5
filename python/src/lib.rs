//! The extension module of the Python package `ergometer`: reads traces and runs, and samples sensors.
//!
//! Long calls release the GIL and can be interrupted with Ctrl-C. Tables are exported without a copy
//! through Arrow's `PyCapsule` interface. Errors are raised as the exceptions of `ergometer.errors`.
//!
//! ```python
//! import ergometer
//!
//! trace = ergometer.read_trace("host.xplane.pb")
//! print(trace.kernels().to_pandas())
//! ```

mod command;
mod error;
mod interruptible;
mod meter;
mod profiler;
mod run;
mod statistics;
mod table;
mod trace;

/// The Python module `ergometer._native`.
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
