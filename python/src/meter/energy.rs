//! The energy of a window, as Python sees it.

use ergometer_telemetry::{DeviceEnergy, EnergyError, Estimate, Method, Note, Provenance, WindowEnergy};
use ergometer_units::Seconds;
use pyo3::prelude::*;

/// How often the use of a processor is looked at, which its model goes by: in less it cannot tell anything apart.
const MODEL_PERIOD: Seconds = Seconds::new(0.1);

/// Joules with their 95 % interval, or why there are none.
///
/// ```python
/// >>> import ergometer
/// >>> with ergometer.measure() as window:
/// ...     total = sum(range(1_000_000))
/// >>> all(energy.joules is None or energy.low <= energy.joules <= energy.high for energy in window.devices.values())
/// True
///
/// ```
#[pyclass(frozen, get_all, module = "ergometer")]
pub(crate) struct Energy {
    /// The device, as `gpu:0`; `all` of all together.
    device: String,
    /// The part of the device.
    scope: String,
    /// The energy; absent where there is none to tell.
    joules: Option<f64>,
    /// The lower end of its 95 % interval.
    low: Option<f64>,
    /// The upper end.
    high: Option<f64>,
    /// How it was found.
    method: Option<String>,
    /// `measured` or `modelled`; they are never added.
    provenance: Option<&'static str>,
    /// Whether it is part of the sum; a scope contained in another is not.
    summed: bool,
    /// What to know about it.
    notes: Vec<String>,
    /// Why there are no joules.
    missing: Option<String>,
}

impl Energy {
    /// Of all devices together, and of each. What is measured counts; what is modelled where nothing is.
    pub(super) fn of(window: &WindowEnergy) -> (Self, Vec<Self>) {
        let estimate = window.counted();
        let provenance =
            estimate.ok().map(|found| if found.method == Method::Modelled { "modelled" } else { "measured" });
        let all = Self::new(String::from("all"), String::from("all"), estimate, provenance, true);
        let mut all = all;
        let mut devices: Vec<Self> = window.devices.iter().map(Self::of_device).collect();
        if window.window.length() < MODEL_PERIOD {
            for modelled in devices.iter_mut().chain([&mut all]).filter(|place| place.provenance == Some("modelled")) {
                modelled.notes.push(Note::TooShort { resolution: MODEL_PERIOD }.to_string());
            }
        }
        (all, devices)
    }

    fn of_device(device: &DeviceEnergy) -> Self {
        let provenance = if device.provenance == Provenance::Modelled { "modelled" } else { "measured" };
        let (name, scope) = (device.device.to_string(), device.scope.to_string());
        Self::new(name, scope, device.estimate.as_ref().map_err(|missing| *missing), Some(provenance), device.summed)
    }

    fn new(
        device: String,
        scope: String,
        estimate: Result<&Estimate, EnergyError>,
        provenance: Option<&'static str>,
        summed: bool,
    ) -> Self {
        let found = estimate.ok();
        Self {
            device,
            scope,
            joules: found.map(|estimate| estimate.joules.get()),
            low: found.map(|estimate| estimate.low.get()),
            high: found.map(|estimate| estimate.high.get()),
            method: found.map(|estimate| estimate.method.to_string()),
            provenance,
            summed,
            notes: found.map_or_else(Vec::new, |estimate| estimate.notes.iter().map(ToString::to_string).collect()),
            missing: estimate.err().map(|missing| missing.to_string()),
        }
    }
}

#[pymethods]
impl Energy {
    fn __repr__(&self) -> String {
        let (device, scope) = (&self.device, &self.scope);
        match (self.joules, self.low, self.high) {
            (Some(joules), Some(low), Some(high)) => {
                format!("<ergometer.Energy {device} {scope} {joules:.3} J, {low:.3} to {high:.3}>")
            }
            _ => format!("<ergometer.Energy {device} {scope}: {}>", self.missing.as_deref().unwrap_or("none")),
        }
    }
}
