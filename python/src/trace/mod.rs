//! The Python class `Trace`: planes, lines and events of a trace, and its tables.

mod dictionary;
mod events;
mod filter;
mod functions;
mod open;
mod planes;
mod profile_data;
mod stats;
mod tables;

use std::ffi::CString;
use std::sync::Arc;

use ergometer_trace::accounting::By;
use pyo3::exceptions::{PyUserWarning, PyValueError};
use pyo3::prelude::*;

use crate::interruptible::interruptible;
use crate::table::Table;
use filter::{Devices, FilterArguments};
pub(crate) use open::read_trace;
pub(crate) use planes::{Event, Line, Plane};

/// A trace in memory, from `read_trace`. All times are in picoseconds; starts count from the zero of the trace.
///
/// ```python
/// >>> import ergometer
/// >>> trace = ergometer.read_trace("fixtures/xplane/gpu_autotune.xplane.pb")
/// >>> len(trace), trace.planes[2].name
/// (781, '/device:GPU:0')
///
/// ```
#[pyclass(frozen, module = "ergometer")]
pub(crate) struct Trace {
    pub(crate) table: Arc<ergometer_trace::Trace>,
    files: Vec<String>,
    warnings: Vec<String>,
    is_lenient: bool,
}

impl Trace {
    /// Builds a table of the events that pass a filter, without Python's global lock.
    fn build_table(
        &self,
        py: Python<'_>,
        filter: FilterArguments,
        table: impl FnOnce(&ergometer_trace::Trace, &ergometer_trace::accounting::Filter) -> PyResult<Table>
        + Send
        + 'static,
    ) -> PyResult<Table> {
        let trace = Arc::clone(&self.table);
        interruptible(py, move || table(&trace, &filter.into_filter(&trace)?))?
    }
}

#[pymethods]
impl Trace {
    /// The devices and hosts, in file order.
    #[getter]
    fn planes(&self) -> Vec<Plane> {
        (0..self.table.planes().len()).map(|plane| Plane::new(&self.table, plane, self.is_lenient)).collect()
    }

    /// The files it was read from; empty if it was read from bytes.
    #[getter]
    fn files(&self) -> Vec<String> {
        self.files.clone()
    }

    /// Warnings about missing or damaged parts of the trace.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    /// The wall-clock time of the trace's zero in nanoseconds since the epoch, if the trace has it.
    #[getter]
    fn start_time_ns(&self) -> Option<i64> {
        self.table.zero().map(ergometer_units::Timestamp::nanos_since_epoch)
    }

    /// The plane with this name.
    fn find_plane_with_name(&self, name: &str) -> Option<Plane> {
        let index = self.table.planes().iter().position(|plane| self.table.text(plane.name) == name);
        index.map(|plane| Plane::new(&self.table, plane, self.is_lenient))
    }

    /// The distinct names of modules, ops and events, sorted.
    fn names(&self) -> Vec<String> {
        let kinds = self.table.kinds().iter();
        let names = kinds.flat_map(|kind| [kind.module, kind.op, Some(kind.name)]).flatten();
        let mut names: Vec<String> = names.map(|name| self.table.text(name).to_owned()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The number of events.
    fn __len__(&self) -> usize {
        self.table.event_count()
    }

    fn __repr__(&self) -> String {
        let planes: Vec<&str> = self.table.planes().iter().map(|plane| self.table.text(plane.name)).collect();
        format!("<ergometer.Trace of {} events on {}>", self.table.event_count(), planes.join(", "))
    }

    /// One row per line, with its times.
    fn lines(&self, py: Python<'_>) -> PyResult<Table> {
        let trace = Arc::clone(&self.table);
        interruptible(py, move || tables::lines(&trace))?
    }

    /// One row per event, with a column `stat_…` for each stat that any event has. If an event has a stat twice, the
    /// last value counts. `stats=False` leaves these columns out. Text columns are Arrow dictionaries.
    ///
    /// `device` selects planes by a part of their name, such as `gpu:0`, or by a list of such parts. `prefix` and
    /// `pattern` (a regular expression in Rust's syntax) select events by the name of their module, op or kernel.
    /// `min_duration_ns` leaves out shorter events. Self times are computed before filtering.
    ///
    /// ```python
    /// >>> import ergometer
    /// >>> events = ergometer.read_trace("fixtures/xplane/gpu_autotune.xplane.pb").events(device="gpu")
    /// >>> events["name"][0], events["duration_ps"][0], events["stat_hlo_module"][0]
    /// ('gemm_fusion_dot', 4191000, 'jit_autotune_fn_0')
    ///
    /// ```
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
        let options = events::EventOptions { stats, is_lenient: self.is_lenient };
        let trace = Arc::clone(&self.table);
        let result = interruptible(py, move || events::events(&trace, &filter.into_filter(&trace)?, &options))?;
        let (table, damage) = result?;
        if let Some(damage) = damage {
            let warning = CString::new(format!("some stats are damaged and left out: {damage}")).unwrap_or_default();
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &warning, 1)?;
        }
        Ok(table)
    }

    /// One row per op of each module, longest self time first: `name`, `module`, `program_id`, `class`, `count`,
    /// `self_ps`, `share` (of all work on the device), `total_ps` (sum), `busy_ps` (union), and the distribution of
    /// durations.
    ///
    /// `device` selects planes by a part of their name, such as `gpu:0`, or by a list of such parts. `prefix` and
    /// `pattern` (a regular expression in Rust's syntax) select events by the name of their module, op or kernel.
    /// `min_duration_ns` leaves out shorter events. Self times are computed before filtering.
    ///
    /// ```python
    /// >>> import ergometer
    /// >>> ops = ergometer.read_trace("fixtures/xplane/gpu_autotune.xplane.pb").ops(prefix="jit_autotune_fn_3")
    /// >>> ops["name"], ops["count"]
    /// (['gemm_fusion_dot_general.2', 'custom-call.1'], [5, 10])
    ///
    /// ```
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
        self.build_table(py, filter, |trace, filter| tables::rows(trace, By::Op, filter))
    }

    /// One row per kernel, longest self time first, with the columns of `ops` except the module, because several
    /// modules can share a kernel.
    ///
    /// `device` selects planes by a part of their name, such as `gpu:0`, or by a list of such parts. `prefix` and
    /// `pattern` (a regular expression in Rust's syntax) select events by the name of their module, op or kernel.
    /// `min_duration_ns` leaves out shorter events. Self times are computed before filtering.
    ///
    /// ```python
    /// >>> import ergometer
    /// >>> kernels = ergometer.read_trace("fixtures/xplane/gpu_autotune.xplane.pb").kernels()
    /// >>> kernels["name"][0], kernels["self_ps"][0]
    /// ('gemm_fusion_dot_general_2', 1170612000)
    ///
    /// ```
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
        self.build_table(py, filter, |trace, filter| tables::rows(trace, By::Kernel, filter))
    }

    /// One row per module, with its number of executions and the time of an execution: `busy_per_execution_…` is the
    /// time during which at least one of its events runs, `span_per_execution_…` the time from its first start to its
    /// last end.
    ///
    /// `device` selects planes by a part of their name, such as `gpu:0`, or by a list of such parts. `prefix` and
    /// `pattern` (a regular expression in Rust's syntax) select events by the name of their module, op or kernel.
    /// `min_duration_ns` leaves out shorter events. Self times are computed before filtering.
    ///
    /// ```python
    /// >>> import ergometer
    /// >>> modules = ergometer.read_trace("fixtures/xplane/gpu_autotune.xplane.pb").modules()
    /// >>> modules["module"][0], modules["executions"][0]
    /// ('jit_autotune_fn_3', 5)
    ///
    /// ```
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
        self.build_table(py, filter, tables::modules)
    }

    /// One row per execution of a module, in order of time. `found_by` says how executions were identified.
    ///
    /// `device` selects planes by a part of their name, such as `gpu:0`, or by a list of such parts. `prefix` and
    /// `pattern` (a regular expression in Rust's syntax) select events by the name of their module, op or kernel.
    /// `min_duration_ns` leaves out shorter events. Self times are computed before filtering.
    ///
    /// ```python
    /// >>> import ergometer
    /// >>> runs = ergometer.read_trace("fixtures/xplane/gpu_autotune.xplane.pb").executions(prefix="jit_autotune_fn_0")
    /// >>> runs["busy_ps"]
    /// [12991000, 13056000, 13054000, 13248000, 12864000]
    ///
    /// ```
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
        self.build_table(py, filter, tables::executions)
    }

    /// One row per named scope, such as `jit(step)/layer_0/dot_general`, each followed by its inner scopes, longest
    /// first. `self_ps` includes inner scopes, `own_ps` does not.
    ///
    /// `device` selects planes by a part of their name, such as `gpu:0`, or by a list of such parts. `prefix` and
    /// `pattern` (a regular expression in Rust's syntax) select events by the name of their module, op or kernel.
    /// `min_duration_ns` leaves out shorter events.
    ///
    /// ```python
    /// >>> import ergometer
    /// >>> scopes = ergometer.read_trace("fixtures/xplane/gpu_infer_20.xplane.pb").scopes()
    /// >>> scopes["depth"][0], scopes["share"][0] > 0.5
    /// (0, True)
    ///
    /// ```
    #[pyo3(signature = (*, device=None, prefix=None, pattern=None, min_duration_ns=0.0))]
    fn scopes(
        &self,
        py: Python<'_>,
        device: Option<Devices>,
        prefix: Option<String>,
        pattern: Option<String>,
        min_duration_ns: f64,
    ) -> PyResult<Table> {
        let filter = FilterArguments { device, prefix, pattern, min_duration_ns };
        self.build_table(py, filter, tables::scopes)
    }

    /// One row per step of a training or inference loop. `found_by` says where the steps come from: the trace's step
    /// line, annotations of the program, or the executions of the busiest module.
    ///
    /// `device` selects planes by a part of their name, such as `gpu:0`, or by a list of such parts. `prefix` and
    /// `pattern` (a regular expression in Rust's syntax) select events by the name of their module, op or kernel.
    /// `min_duration_ns` leaves out shorter events.
    ///
    /// ```python
    /// >>> import ergometer
    /// >>> steps = ergometer.read_trace("fixtures/xplane/gpu_train_3.xplane.pb").steps()
    /// >>> steps.num_rows, steps["found_by"][0]
    /// (3, 'annotation')
    ///
    /// ```
    #[pyo3(signature = (*, device=None, prefix=None, pattern=None, min_duration_ns=0.0))]
    fn steps(
        &self,
        py: Python<'_>,
        device: Option<Devices>,
        prefix: Option<String>,
        pattern: Option<String>,
        min_duration_ns: f64,
    ) -> PyResult<Table> {
        let filter = FilterArguments { device, prefix, pattern, min_duration_ns };
        self.build_table(py, filter, tables::steps)
    }

    /// One row per gap in which a device had no work, longest first, with the events before and after it.
    ///
    /// `device` selects planes by a part of their name, such as `gpu:0`, or by a list of such parts. `prefix` and
    /// `pattern` select gaps by the events next to them. `min_duration_ns` is the minimum length of a gap.
    ///
    /// ```python
    /// >>> import ergometer
    /// >>> gaps = ergometer.read_trace("fixtures/xplane/gpu_autotune.xplane.pb").gaps()
    /// >>> gaps["duration_ps"][0] >= gaps["duration_ps"][1]
    /// True
    ///
    /// ```
    #[pyo3(signature = (*, device=None, prefix=None, pattern=None, min_duration_ns=0.0))]
    fn gaps(
        &self,
        py: Python<'_>,
        device: Option<Devices>,
        prefix: Option<String>,
        pattern: Option<String>,
        min_duration_ns: f64,
    ) -> PyResult<Table> {
        let filter = FilterArguments { device, prefix, pattern, min_duration_ns };
        self.build_table(py, filter, tables::gaps)
    }

    /// One row per autotuned function, fastest first: the modules that match `name` (a regular expression), grouped by
    /// its first group. `ratio` is the median of the ratios of all pairs of an execution of this function and one of
    /// the fastest. Its interval is for this comparison alone; `corrected_p` and `verdict` account for the number of
    /// comparisons.
    ///
    /// `device` selects planes by a part of their name, such as `gpu:0`, or by a list of such parts. `prefix` and
    /// `pattern` (a regular expression in Rust's syntax) select events by the name of their module, op or kernel.
    /// `min_duration_ns` leaves out shorter events. Self times are computed before filtering.
    ///
    /// ```python
    /// >>> import ergometer
    /// >>> found = ergometer.read_trace("fixtures/xplane/gpu_autotune.xplane.pb").functions()
    /// >>> found["id"], found["verdict"]
    /// ([0, 1, 2, 3], ['fastest', 'slower', 'slower', 'slower'])
    ///
    /// ```
    #[pyo3(signature = (*, name="^jit_autotune_fn_([0-9]+)", level=0.95, device=None, prefix=None, pattern=None, min_duration_ns=0.0))]
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
            return Err(PyValueError::new_err(format!("level must be between 0 and 1, such as 0.95, not {level}")));
        }
        let name = filter::compile(name)?;
        let filter = FilterArguments { device, prefix, pattern, min_duration_ns };
        self.build_table(py, filter, move |trace, filter| functions::functions(trace, name, filter.clone(), level))
    }
}
