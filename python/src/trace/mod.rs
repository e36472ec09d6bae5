//! Traces, for Python: read once, looked at as planes, lines and events, or as tables.

mod dictionary;
mod events;
mod filter;
mod functions;
mod open;
mod planes;
mod profile_data;
mod stats;
mod tables;

use std::sync::Arc;

use ergometer_trace::accounting::By;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::interruptible::interruptible;
use crate::table::Table;
use filter::{Devices, FilterArguments};
pub(crate) use open::read_trace;
pub(crate) use planes::{Event, Line, Plane};

/// A trace in memory. Every time is in whole picoseconds from the trace's zero.
#[pyclass(frozen, module = "ergometer")]
pub(crate) struct Trace {
    pub(crate) table: Arc<ergometer_trace::Trace>,
    files: Vec<String>,
    warnings: Vec<String>,
    is_lenient: bool,
}

impl Trace {
    /// A table of the events that pass a filter, off Python's lock.
    fn tabled(
        &self,
        py: Python<'_>,
        filter: FilterArguments,
        table: impl FnOnce(&ergometer_trace::Trace, &ergometer_trace::accounting::Filter) -> PyResult<Table>
        + Send
        + 'static,
    ) -> PyResult<Table> {
        let trace = Arc::clone(&self.table);
        interruptible(py, move || table(&trace, &filter.checked(&trace)?))?
    }
}

#[pymethods]
impl Trace {
    /// The devices and hosts, in the order of the files.
    #[getter]
    fn planes(&self) -> Vec<Plane> {
        (0..self.table.planes().len()).map(|plane| Plane::new(&self.table, plane)).collect()
    }

    /// The files it was read from; none of bytes.
    #[getter]
    fn files(&self) -> Vec<String> {
        self.files.clone()
    }

    /// What to know before the numbers are believed.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    /// The wall time of the trace's zero, in nanoseconds since the epoch, where the trace tells it.
    #[getter]
    fn start_time_ns(&self) -> Option<i64> {
        self.table.zero().map(ergometer_units::Timestamp::nanos_since_epoch)
    }

    /// The plane of this name.
    fn find_plane_with_name(&self, name: &str) -> Option<Plane> {
        let place = self.table.planes().iter().position(|plane| self.table.text(plane.name) == name);
        place.map(|plane| Plane::new(&self.table, plane))
    }

    /// Every name of a module, an op or an event, once.
    fn names(&self) -> Vec<String> {
        let kinds = self.table.kinds().iter();
        let names = kinds.flat_map(|kind| [kind.module, kind.op, Some(kind.name)]).flatten();
        let mut names: Vec<String> = names.map(|name| self.table.text(name).to_owned()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// How many events there are.
    fn __len__(&self) -> usize {
        self.table.event_count()
    }

    fn __repr__(&self) -> String {
        let planes: Vec<&str> = self.table.planes().iter().map(|plane| self.table.text(plane.name)).collect();
        format!("<ergometer.Trace of {} events on {}>", self.table.event_count(), planes.join(", "))
    }

    /// Every line with its times.
    fn lines(&self, py: Python<'_>) -> PyResult<Table> {
        let trace = Arc::clone(&self.table);
        interruptible(py, move || tables::lines(&trace))?
    }

    /// Every event, with everything the trace says of it: a column `stat_…` for each thing it says.
    #[pyo3(signature = (*, device=None, prefix=None, pattern=None, min_duration_ns=0.0, stats=true))]
    fn events(
        &self,
        py: Python<'_>,
        device: Option<Devices>,
        prefix: Option<String>,
        pattern: Option<String>,
        min_duration_ns: f64,
        stats: bool,
    ) -> PyResult<Table> {
        let filter = FilterArguments { device, prefix, pattern, min_duration_ns };
        let wanted = events::Wanted { stats, is_lenient: self.is_lenient };
        self.tabled(py, filter, move |trace, filter| events::events(trace, filter, &wanted))
    }

    /// The ops of each module, longest self time first.
    #[pyo3(signature = (*, device=None, prefix=None, pattern=None, min_duration_ns=0.0))]
    fn ops(
        &self,
        py: Python<'_>,
        device: Option<Devices>,
        prefix: Option<String>,
        pattern: Option<String>,
        min_duration_ns: f64,
    ) -> PyResult<Table> {
        let filter = FilterArguments { device, prefix, pattern, min_duration_ns };
        self.tabled(py, filter, |trace, filter| tables::rows(trace, By::Op, filter))
    }

    /// The kernels, longest self time first.
    #[pyo3(signature = (*, device=None, prefix=None, pattern=None, min_duration_ns=0.0))]
    fn kernels(
        &self,
        py: Python<'_>,
        device: Option<Devices>,
        prefix: Option<String>,
        pattern: Option<String>,
        min_duration_ns: f64,
    ) -> PyResult<Table> {
        let filter = FilterArguments { device, prefix, pattern, min_duration_ns };
        self.tabled(py, filter, |trace, filter| tables::rows(trace, By::Kernel, filter))
    }

    /// What was compiled, how often it ran, and how long a run takes.
    #[pyo3(signature = (*, device=None, prefix=None, pattern=None, min_duration_ns=0.0))]
    fn modules(
        &self,
        py: Python<'_>,
        device: Option<Devices>,
        prefix: Option<String>,
        pattern: Option<String>,
        min_duration_ns: f64,
    ) -> PyResult<Table> {
        let filter = FilterArguments { device, prefix, pattern, min_duration_ns };
        self.tabled(py, filter, tables::modules)
    }

    /// Every run of every module, in order of time.
    #[pyo3(signature = (*, device=None, prefix=None, pattern=None, min_duration_ns=0.0))]
    fn executions(
        &self,
        py: Python<'_>,
        device: Option<Devices>,
        prefix: Option<String>,
        pattern: Option<String>,
        min_duration_ns: f64,
    ) -> PyResult<Table> {
        let filter = FilterArguments { device, prefix, pattern, min_duration_ns };
        self.tabled(py, filter, tables::executions)
    }

    /// The variants of autotuned functions: modules whose name has `name` in it, by its first group, fastest first.
    #[pyo3(signature = (*, name=ergometer_trace::FunctionOptions::PATTERN, level=0.95, device=None, prefix=None, pattern=None, min_duration_ns=0.0))]
    #[expect(clippy::too_many_arguments, reason = "they are the keywords of a Python method")]
    fn functions(
        &self,
        py: Python<'_>,
        name: &str,
        level: f64,
        device: Option<Devices>,
        prefix: Option<String>,
        pattern: Option<String>,
        min_duration_ns: f64,
    ) -> PyResult<Table> {
        if !(level > 0.0 && level < 1.0) {
            return Err(PyValueError::new_err(format!("level is a share between 0 and 1, as 0.95, not {level}")));
        }
        let name = filter::compile(name)?;
        let filter = FilterArguments { device, prefix, pattern, min_duration_ns };
        self.tabled(py, filter, move |trace, filter| functions::functions(trace, name, filter.clone(), level))
    }
}
