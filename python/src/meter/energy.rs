//! The energy of a window, as a Python class.

use ergometer_telemetry::{DeviceEnergy, EnergyError, EnergyEstimate, Method, Note, Provenance, WindowEnergy};
use ergometer_units::Seconds;
use pyo3::prelude::*;

/// Sampling interval of CPU utilization, which the power model uses: a shorter window has no resolution.
const MODEL_PERIOD: Seconds = Seconds::new(0.1);

/// Joules with their 95 % interval, or the reason why there are none.
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
    /// The device, such as `gpu:0`; `all` for the sum of all devices.
    device: String,
    /// The part of the device.
    scope: String,
    /// The energy; `None` if unknown.
    joules: Option<f64>,
    /// The lower end of its 95 % interval.
    low: Option<f64>,
    /// The upper end of its 95 % interval.
    high: Option<f64>,
    /// The method of the estimate.
    method: Option<String>,
    /// `measured` or `modelled`. The two are never added.
    provenance: Option<&'static str>,
    /// Whether it is part of the sum over devices; a scope contained in another is not.
    summed: bool,
    /// Remarks on the accuracy of the estimate.
    notes: Vec<String>,
    /// Why the energy is unknown.
    missing: Option<String>,
}

impl Energy {
    /// The energy of all devices together and of each device. The total is of measured energy, or of modelled energy if
    /// nothing is measured.
    pub(super) fn from_window(window: &WindowEnergy) -> (Self, Vec<Self>) {
        let estimate = window.counted();
        let provenance =
            estimate.ok().map(|known| if known.method == Method::Modelled { "modelled" } else { "measured" });
        let mut all = Self::new(String::from("all"), String::from("all"), estimate, provenance, true);
        let mut devices: Vec<Self> = window.devices.iter().map(Self::from_device).collect();
        if window.window.length() < MODEL_PERIOD {
            for modelled in devices.iter_mut().chain([&mut all]).filter(|energy| energy.provenance == Some("modelled"))
            {
                modelled.notes.push(Note::TooShort { resolution: MODEL_PERIOD }.to_string());
            }
        }
        (all, devices)
    }

    fn from_device(device: &DeviceEnergy) -> Self {
        let provenance = if device.provenance == Provenance::Modelled { "modelled" } else { "measured" };
        let (name, scope) = (device.device.to_string(), device.scope.to_string());
        Self::new(name, scope, device.estimate.as_ref().map_err(|missing| *missing), Some(provenance), device.summed)
    }

    fn new(
        device: String,
        scope: String,
        estimate: Result<&EnergyEstimate, EnergyError>,
        provenance: Option<&'static str>,
        summed: bool,
    ) -> Self {
        let known = estimate.ok();
        Self {
            device,
            scope,
            joules: known.map(|estimate| estimate.joules.get()),
            low: known.map(|estimate| estimate.low.get()),
            high: known.map(|estimate| estimate.high.get()),
            method: known.map(|estimate| estimate.method.to_string()),
            provenance,
            summed,
            notes: known.map_or_else(Vec::new, |estimate| estimate.notes.iter().map(ToString::to_string).collect()),
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
            _ => format!("<ergometer.Energy {device} {scope}: {}>", self.missing.as_deref().unwrap_or("unknown")),
        }
    }
}
