//! The rules of the profiler that autotuners know; the class that people use is Python's, in `ergometer.profiler`.

use std::collections::BTreeMap;
use std::sync::Arc;

use ergometer_diagnostics::{Diagnostic, Keywords};
use ergometer_profiler::{FunctionSeconds, Profiled, Profiler, ProfilerOptions, ProfilerWarning};
use pyo3::prelude::*;
use regex::Regex;

use crate::error::ProfilingError;
use crate::interruptible::interruptible;
use crate::trace::Trace;

/// Whether the result may be wrong because of it, and the text of a warning.
type WarningText = (bool, String);

/// Times of events and functions by these options.
#[pyclass(frozen, module = "ergometer._native")]
pub(crate) struct ProfilerRules {
    profiler: Profiler,
}

#[pymethods]
impl ProfilerRules {
    #[new]
    #[pyo3(signature = (*, prefix_filter, event_filter_regex, min_duration_ns, max_events_per_profile, verbose))]
    fn new(
        prefix_filter: String,
        event_filter_regex: Option<String>,
        min_duration_ns: f64,
        max_events_per_profile: Option<usize>,
        verbose: bool,
    ) -> PyResult<Self> {
        let options =
            ProfilerOptions { prefix_filter, event_filter_regex, min_duration_ns, max_events_per_profile, verbose };
        Ok(Self { profiler: Profiler::new(options).map_err(|error| told(&error))? })
    }

    /// The numbers of the planes whose name has the device in it.
    fn find_device_plane_ids(&self, trace: &Trace, device: &str) -> PyResult<Vec<usize>> {
        self.profiler.find_device_plane_ids(&trace.table, device).map_err(|error| told(&error))
    }

    /// Seconds by event of a plane, and warnings.
    fn events_of_plane(
        &self,
        py: Python<'_>,
        trace: &Trace,
        plane: usize,
    ) -> PyResult<(BTreeMap<String, f64>, Vec<WarningText>)> {
        let (profiler, trace) = (self.profiler.clone(), Arc::clone(&trace.table));
        let found = interruptible(py, move || profiler.get_events_from_plane(&trace, plane))?;
        Ok(split(found.map_err(|error| told(&error))?))
    }

    /// Mean and standard deviation in seconds by function id, and warnings.
    fn function_seconds(
        &self,
        py: Python<'_>,
        traces: &Bound<'_, PyAny>,
        platform: String,
    ) -> PyResult<(FunctionSeconds, Vec<WarningText>)> {
        let traces: Vec<Arc<_>> = traces
            .try_iter()?
            .map(|trace| Ok(Arc::clone(&trace?.cast::<Trace>()?.get().table)))
            .collect::<PyResult<_>>()?;
        let profiler = self.profiler.clone();
        let found = interruptible(py, move || {
            profiler.profile_times_by_function_id(traces.iter().map(AsRef::as_ref), &platform)
        })?;
        Ok(split(found.map_err(|error| told(&error))?))
    }
}

/// The result, and its warnings as texts.
fn split<T>(profiled: Profiled<T>) -> (T, Vec<WarningText>) {
    let text = |warning: &ProfilerWarning| (warning.is_caution(), warning.one_line(&Keywords));
    (profiled.value, profiled.warnings.iter().map(text).collect())
}

fn told(error: &ergometer_profiler::ProfilingError) -> PyErr {
    ProfilingError::new_err(error.to_string())
}

/// Whether a regular expression is one that `pattern` and the profiler's rules take: Rust's have no look-around.
#[pyfunction]
pub(crate) fn is_pattern(pattern: &str) -> bool {
    Regex::new(pattern).is_ok()
}
