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

/// A trace in memory; `read_trace` makes one. Every time is in picoseconds, starts count from the trace's zero.
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
        (0..self.table.planes().len()).map(|plane| Plane::new(&self.table, plane, self.is_lenient)).collect()
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
        place.map(|plane| Plane::new(&self.table, plane, self.is_lenient))
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

    /// Every event, with everything the trace says of it: a column `stat_…` for each thing that any event says; of one that
    /// an event says twice the last. `stats=False` leaves these out. Texts are dictionaries of Arrow.
    ///
    /// `device` is a part of a plane's name as `gpu:0`, or a list of them; `prefix` and `pattern` (a regular expression of
    /// Rust's, searched for) are of a module, an op or a kernel; `min_duration_ns` leaves shorter events out. Self times
    /// stay those of the whole line.
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
        let wanted = events::Wanted { stats, is_lenient: self.is_lenient };
        let trace = Arc::clone(&self.table);
        let found = interruptible(py, move || events::events(&trace, &filter.checked(&trace)?, &wanted))?;
        let (table, damage) = found?;
        if let Some(damage) = damage {
            let told = CString::new(format!("some stats are damaged and left out: {damage}")).unwrap_or_default();
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &told, 1)?;
        }
        Ok(table)
    }

    /// The ops of each module, longest self time first: `name`, `module`, `program_id`, `class`, `count`, `self_ps`, its
    /// `share` of all work of the device, `total_ps` (sum), `busy_ps` (union), and the spread of durations.
    ///
    /// `device` is a part of a plane's name as `gpu:0`, or a list of them; `prefix` and `pattern` (a regular expression of
    /// Rust's, searched for) are of a module, an op or a kernel; `min_duration_ns` leaves shorter events out. Self times
    /// stay those of the whole line.
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
        self.tabled(py, filter, |trace, filter| tables::rows(trace, By::Op, filter))
    }

    /// The kernels, longest self time first, with the columns of `ops` but for the module: one kernel may serve many.
    ///
    /// `device` is a part of a plane's name as `gpu:0`, or a list of them; `prefix` and `pattern` (a regular expression of
    /// Rust's, searched for) are of a module, an op or a kernel; `min_duration_ns` leaves shorter events out. Self times
    /// stay those of the whole line.
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
        self.tabled(py, filter, |trace, filter| tables::rows(trace, By::Kernel, filter))
    }

    /// What was compiled, how often it ran, and how long a run takes: `busy_per_execution_…` is how long at least one event
    /// of it went on, `span_per_execution_…` from its first start to its last end.
    ///
    /// `device` is a part of a plane's name as `gpu:0`, or a list of them; `prefix` and `pattern` (a regular expression of
    /// Rust's, searched for) are of a module, an op or a kernel; `min_duration_ns` leaves shorter events out. Self times
    /// stay those of the whole line.
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
        self.tabled(py, filter, tables::modules)
    }

    /// Every run of every module, in order of time. `found_by` says how runs were told apart.
    ///
    /// `device` is a part of a plane's name as `gpu:0`, or a list of them; `prefix` and `pattern` (a regular expression of
    /// Rust's, searched for) are of a module, an op or a kernel; `min_duration_ns` leaves shorter events out. Self times
    /// stay those of the whole line.
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
        self.tabled(py, filter, tables::executions)
    }

    /// The named scopes that work stands in, as `jit(step)/layer_0/dot_general`, each followed by those in it, longest first.
    /// `self_ps` has what is in scopes within, `own_ps` has not.
    ///
    /// `device` is a part of a plane's name as `gpu:0`, or a list of them; `prefix` and `pattern` (a regular expression of
    /// Rust's, searched for) are of a module, an op or a kernel; `min_duration_ns` leaves shorter events out.
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
        self.tabled(py, filter, tables::scopes)
    }

    /// The steps of a training or inference loop: those of the trace's own line, those the program annotated, or the runs of
    /// the busiest module, as `found_by` says.
    ///
    /// `device` is a part of a plane's name as `gpu:0`, or a list of them; `prefix` and `pattern` (a regular expression of
    /// Rust's, searched for) are of a module, an op or a kernel; `min_duration_ns` leaves shorter events out.
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
        self.tabled(py, filter, tables::steps)
    }

    /// The stretches in which a device had no work, longest first, and what ran before and after each.
    ///
    /// `device` is as elsewhere; `prefix` and `pattern` are of what stands on either side of a gap, and `min_duration_ns` is the
    /// length of a gap.
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
        self.tabled(py, filter, tables::gaps)
    }

    /// The variants of autotuned functions, fastest first: modules whose name has `name` (a regular expression) in it, told
    /// apart by its first group. `ratio` is the median of the ratios of all pairs of a run of this variant and one of the
    /// fastest; its interval is of this comparison alone, `corrected_p` and `verdict` know how many there are.
    ///
    /// `device` is a part of a plane's name as `gpu:0`, or a list of them; `prefix` and `pattern` (a regular expression of
    /// Rust's, searched for) are of a module, an op or a kernel; `min_duration_ns` leaves shorter events out. Self times
    /// stay those of the whole line.
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
            return Err(PyValueError::new_err(format!("level is a share between 0 and 1, as 0.95, not {level}")));
        }
        let name = filter::compile(name)?;
        let filter = FilterArguments { device, prefix, pattern, min_duration_ns };
        self.tabled(py, filter, move |trace, filter| functions::functions(trace, name, filter.clone(), level))
    }
}
