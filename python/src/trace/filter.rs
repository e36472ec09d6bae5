//! Turns the filter keywords of a table method into a filter.

use std::collections::BTreeSet;

use ergometer_diagnostics::{Hint, Message};
use ergometer_trace::Trace;
use ergometer_trace::accounting::{DeviceId, Filter};
use ergometer_units::Picos;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use regex::Regex;

use crate::error::builtin;

/// Parts of device names.
pub(super) struct Devices(Vec<String>);

impl FromPyObject<'_, '_> for Devices {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        if let Ok(one) = value.extract::<String>() {
            return Ok(Self(vec![one]));
        }
        value.extract().map(Self).map_err(|_| {
            let message = format!(
                "device must be a part of a plane's name, such as \"gpu:0\", or a list of such strings, not {}",
                value.get_type()
            );
            PyTypeError::new_err(message)
        })
    }
}

/// The filter keywords.
pub(super) struct FilterArguments {
    pub(super) device: Option<Devices>,
    pub(super) prefix: Option<String>,
    pub(super) pattern: Option<String>,
    pub(super) min_duration_ns: f64,
}

impl FilterArguments {
    /// The filter. Checks that every device exists in the trace.
    pub(super) fn into_filter(self, trace: &Trace) -> PyResult<Filter> {
        let devices = self.device.map_or_else(Vec::new, |Devices(devices)| devices);
        let ordinals: BTreeSet<Option<i64>> =
            trace.kinds().iter().map(|kind| kind.device_ordinal).chain([None]).collect();
        for device in &devices {
            let device_filter = Filter { devices: vec![device.clone()], ..Filter::default() };
            let exists = (0..trace.planes().len()).any(|plane| {
                ordinals.iter().any(|&ordinal| device_filter.takes_device(trace, DeviceId { plane, ordinal }))
            });
            if !exists {
                let names: Vec<&str> = trace.planes().iter().map(|plane| trace.text(plane.name)).collect();
                let message = Message::new(format!("no plane has {device} in its name"));
                let hint = Hint::text(format!("choose from {}", names.join(", ")));
                return Err(builtin::<PyValueError>(&message.with_hint(hint)));
            }
        }
        if self.min_duration_ns.is_nan() || self.min_duration_ns < 0.0 {
            let message = format!("min_duration_ns must be 0 or more, not {}", self.min_duration_ns);
            return Err(PyValueError::new_err(message));
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "fractions of a picosecond do not count; the cast saturates"
        )]
        let min_duration = Picos::new((self.min_duration_ns * 1000.0) as i64);
        let pattern = self.pattern.as_deref().map(compile).transpose()?;
        Ok(Filter { devices, prefix: self.prefix, pattern, min_duration })
    }
}

/// Compiles a regular expression in the syntax of Rust's `regex`, which has no look-around.
pub(super) fn compile(pattern: &str) -> PyResult<Regex> {
    Regex::new(pattern).map_err(|cause| {
        let message = Message::new(format!("invalid regular expression {pattern}: {cause}"));
        builtin::<PyValueError>(&message.with_hint(Hint::text("use the syntax of Rust's regex, without look-around")))
    })
}
