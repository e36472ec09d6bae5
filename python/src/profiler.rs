//! Exposes the profiler's rules to Python; `ergometer.profiler` has the class for users.

use std::collections::BTreeMap;
use std::sync::Arc;

use ergometer_diagnostics::{Diagnostic, Keywords};
use ergometer_profiler::{FunctionSeconds, Profiled, Profiler, ProfilerOptions, ProfilerWarning};
use pyo3::prelude::*;
use regex::Regex;

use crate::error::{ProfilingError, exception};
use crate::interruptible::interruptible;
use crate::trace::Trace;

/// A warning: whether the result may be wrong, and the text.
type WarningText = (bool, String);

/// Computes times of events and functions.
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
        Ok(Self { profiler: Profiler::new(options).map_err(|error| exception::<ProfilingError>(&error))? })
    }

    /// The numbers of the planes with the device in their name.
    fn find_device_plane_ids(&self, trace: &Trace, device: &str) -> PyResult<Vec<usize>> {
        self.profiler.find_device_plane_ids(&trace.table, device).map_err(|error| exception::<ProfilingError>(&error))
    }

    /// Seconds by event of a plane, with warnings.
    fn events_of_plane(
        &self,
        py: Python<'_>,
        trace: &Trace,
        plane: usize,
    ) -> PyResult<(BTreeMap<String, f64>, Vec<WarningText>)> {
        let (profiler, trace) = (self.profiler.clone(), Arc::clone(&trace.table));
        let found = interruptible(py, move || profiler.get_events_from_plane(&trace, plane))?;
        Ok(split(found.map_err(|error| exception::<ProfilingError>(&error))?))
    }

    /// Mean and standard deviation in seconds by function id, with warnings.
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
        Ok(split(found.map_err(|error| exception::<ProfilingError>(&error))?))
    }
}

/// The result, and its warnings as texts.
fn split<T>(profiled: Profiled<T>) -> (T, Vec<WarningText>) {
    let text = |warning: &ProfilerWarning| (warning.is_caution(), warning.one_line(&Keywords));
    (profiled.value, profiled.warnings.iter().map(text).collect())
}

/// Whether Rust's `regex` can parse a regular expression; it supports no look-around.
#[pyfunction]
pub(crate) fn is_pattern(pattern: &str) -> bool {
    Regex::new(pattern).is_ok()
}
