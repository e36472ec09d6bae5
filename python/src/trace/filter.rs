//! Which events a table is of, as keywords of its method say it.

use std::collections::BTreeSet;

use ergometer_trace::Trace;
use ergometer_trace::accounting::{DeviceId, Filter};
use ergometer_units::Picos;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use regex::Regex;

/// Devices by a part of their names.
pub(super) struct Devices(Vec<String>);

impl FromPyObject<'_, '_> for Devices {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        if let Ok(one) = given.extract::<String>() {
            return Ok(Self(vec![one]));
        }
        given.extract().map(Self).map_err(|_| {
            let told = format!(
                "device is a part of a plane's name, as \"gpu:0\", or a list of them, not {}",
                given.get_type()
            );
            PyTypeError::new_err(told)
        })
    }
}

/// What was asked for.
pub(super) struct FilterArguments {
    pub(super) device: Option<Devices>,
    pub(super) prefix: Option<String>,
    pub(super) pattern: Option<String>,
    pub(super) min_duration_ns: f64,
}

impl FilterArguments {
    /// The filter, once every device that was asked for is found to be there.
    pub(super) fn checked(self, trace: &Trace) -> PyResult<Filter> {
        let devices = self.device.map_or_else(Vec::new, |Devices(devices)| devices);
        let ordinals: BTreeSet<Option<i64>> =
            trace.kinds().iter().map(|kind| kind.device_ordinal).chain([None]).collect();
        for device in &devices {
            let alone = Filter { devices: vec![device.clone()], ..Filter::default() };
            let is_there = (0..trace.planes().len())
                .any(|plane| ordinals.iter().any(|&ordinal| alone.takes_device(trace, DeviceId { plane, ordinal })));
            if !is_there {
                let there: Vec<&str> = trace.planes().iter().map(|plane| trace.text(plane.name)).collect();
                let there = there.join(", ");
                return Err(PyValueError::new_err(format!(
                    "no plane has {device} in its name. hint: there are {there}"
                )));
            }
        }
        if self.min_duration_ns.is_nan() || self.min_duration_ns < 0.0 {
            let told = format!("min_duration_ns is a number of nanoseconds from 0, not {}", self.min_duration_ns);
            return Err(PyValueError::new_err(told));
        }
        #[expect(clippy::cast_possible_truncation, reason = "parts of a picosecond do not count; the cast saturates")]
        let min_duration = Picos::new((self.min_duration_ns * 1000.0) as i64);
        let pattern = self.pattern.as_deref().map(compile).transpose()?;
        Ok(Filter { devices, prefix: self.prefix, pattern, min_duration })
    }
}

/// A regular expression in the syntax of Rust's `regex`, which knows no look-around.
pub(super) fn compile(pattern: &str) -> PyResult<Regex> {
    Regex::new(pattern).map_err(|cause| {
        let told =
            format!("{pattern} is no regular expression: {cause}. hint: it is one of Rust's, without look-around");
        PyValueError::new_err(told)
    })
}
