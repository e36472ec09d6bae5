//! The Python classes `Plane`, `Line` and `Event`, with the properties of `jax.profiler.ProfileData`.

use std::sync::Arc;

use ergometer_trace::{Damage, EventId, Stat, StatValue, Trace};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use super::stats;

/// A device or a host of a trace.
///
/// ```python
/// >>> import ergometer
/// >>> plane = ergometer.read_trace("fixtures/xplane/gpu_autotune.xplane.pb").find_plane_with_name("/device:GPU:0")
/// >>> [line.name for line in plane.lines]
/// ['Stream #14(Compute,Memset)']
///
/// ```
#[pyclass(frozen, module = "ergometer")]
pub(crate) struct Plane {
    trace: Arc<Trace>,
    number: usize,
    is_lenient: bool,
}

/// A timeline of a plane: a stream of a GPU, a unit of a TPU, a thread of a host.
///
/// ```python
/// >>> import ergometer
/// >>> plane = ergometer.read_trace("fixtures/xplane/gpu_autotune.xplane.pb").find_plane_with_name("/device:GPU:0")
/// >>> len(plane.lines[0]), next(plane.lines[0].events).name
/// (55, 'gemm_fusion_dot')
///
/// ```
#[pyclass(frozen, module = "ergometer")]
pub(crate) struct Line {
    trace: Arc<Trace>,
    plane: usize,
    number: usize,
    is_lenient: bool,
}

/// An event of a line.
///
/// ```python
/// >>> import ergometer
/// >>> plane = ergometer.read_trace("fixtures/xplane/gpu_autotune.xplane.pb").find_plane_with_name("/device:GPU:0")
/// >>> event = next(plane.lines[0].events)
/// >>> event.name, event.duration_ps, dict(event.stats)["hlo_module"]
/// ('gemm_fusion_dot', 4191000, 'jit_autotune_fn_0')
///
/// ```
#[pyclass(frozen, module = "ergometer")]
pub(crate) struct Event {
    trace: Arc<Trace>,
    id: EventId,
    data: ergometer_trace::Event,
    is_lenient: bool,
}

/// An iterator over the events of a line.
#[pyclass(module = "ergometer")]
pub(crate) struct Events {
    line: Line,
    next: usize,
}

impl Plane {
    pub(super) fn new(trace: &Arc<Trace>, plane: usize, is_lenient: bool) -> Self {
        Self { trace: Arc::clone(trace), number: plane, is_lenient }
    }

    fn get(&self) -> &ergometer_trace::Plane {
        &self.trace.planes()[self.number]
    }
}

#[pymethods]
impl Plane {
    /// Its name, such as `/device:GPU:0`.
    #[getter]
    fn name(&self) -> &str {
        self.trace.text(self.get().name)
    }

    /// The host name, if the trace has it.
    #[getter]
    fn host(&self) -> Option<&str> {
        self.get().host.map(|host| self.trace.text(host))
    }

    /// Its timelines.
    #[getter]
    fn lines(&self) -> Vec<Line> {
        let line = |line| Line {
            trace: Arc::clone(&self.trace),
            plane: self.number,
            number: line,
            is_lenient: self.is_lenient,
        };
        (0..self.get().lines.len()).map(line).collect()
    }

    /// Its stats, as pairs of name and value.
    #[getter]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
        pairs(py, intact(self.trace.plane_stats(self.number), self.is_lenient)?)
    }

    fn __repr__(&self) -> String {
        format!("<ergometer.Plane {} of {} lines>", self.name(), self.get().lines.len())
    }
}

impl Line {
    fn get(&self) -> &ergometer_trace::Line {
        &self.trace.planes()[self.plane].lines[self.number]
    }

    fn event(&self, number: usize) -> Option<Event> {
        let id = EventId { plane: self.plane, line: self.number, event: number };
        let event = self.get().event(number)?;
        Some(Event { trace: Arc::clone(&self.trace), id, data: event, is_lenient: self.is_lenient })
    }
}

#[pymethods]
impl Line {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.trace.text(self.get().name)
    }

    /// Its id.
    #[getter]
    fn id(&self) -> i64 {
        self.get().id
    }

    /// Its events, in file order.
    #[getter]
    fn events(&self) -> Events {
        let (trace, plane, number) = (Arc::clone(&self.trace), self.plane, self.number);
        Events { line: Line { trace, plane, number, is_lenient: self.is_lenient }, next: 0 }
    }

    /// The number of events.
    fn __len__(&self) -> usize {
        self.get().len()
    }

    fn __repr__(&self) -> String {
        format!("<ergometer.Line {} of {} events>", self.name(), self.get().len())
    }
}

#[pymethods]
impl Events {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self) -> Option<Event> {
        let event = self.line.event(self.next)?;
        self.next += 1;
        Some(event)
    }
}

#[pymethods]
impl Event {
    /// Its name; on a GPU the name of the kernel.
    #[getter]
    fn name(&self) -> &str {
        self.trace.text(self.trace.kind(self.data.kind).name)
    }

    /// Its start, from the zero of the trace; `None` if it has no place in time.
    #[getter]
    fn start_ps(&self) -> Option<i64> {
        self.data.start.map(ergometer_units::Picos::get)
    }

    /// Its duration.
    #[getter]
    fn duration_ps(&self) -> i64 {
        self.data.duration.get()
    }

    /// Its start, from the zero of the trace; 0 if it has no place in time.
    #[getter]
    fn start_ns(&self) -> f64 {
        self.start_ps().unwrap_or(0) as f64 / 1000.0
    }

    /// Its end, from the zero of the trace.
    #[getter]
    fn end_ns(&self) -> f64 {
        (self.start_ps().unwrap_or(0) + self.duration_ps()) as f64 / 1000.0
    }

    /// Its duration.
    #[getter]
    fn duration_ns(&self) -> f64 {
        self.duration_ps() as f64 / 1000.0
    }

    /// Its stats, as pairs of name and value.
    #[getter]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
        pairs(py, intact(self.trace.event_stats(self.id), self.is_lenient)?)
    }

    fn __repr__(&self) -> String {
        format!("<ergometer.Event {} of {} ns>", self.name(), self.duration_ns())
    }
}

/// The stats; if they are damaged, none for a trace read leniently, and an error otherwise.
fn intact(result: Result<Vec<Stat<'_>>, Damage>, is_lenient: bool) -> PyResult<Vec<Stat<'_>>> {
    match result {
        Err(_) if is_lenient => Ok(Vec::new()),
        result => result.map_err(|damage| stats::damaged(&damage)),
    }
}

fn pairs<'py>(py: Python<'py>, stats: Vec<Stat<'_>>) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
    stats
        .into_iter()
        .map(|stat| {
            let value = match stat.value {
                StatValue::Double(value) => value.into_bound_py_any(py)?,
                StatValue::Unsigned(value) => value.into_bound_py_any(py)?,
                StatValue::Signed(value) => value.into_bound_py_any(py)?,
                StatValue::Text(value) | StatValue::Reference(Ok(value)) => PyString::new(py, &value).into_any(),
                StatValue::Bytes(value) => PyBytes::new(py, value).into_any(),
                StatValue::Reference(Err(_)) | StatValue::Absent => py.None().into_bound(py),
            };
            Ok((stat.name.into_owned(), value))
        })
        .collect()
}
