//! The JSON objects of energy that several commands print.

use ergometer_telemetry::{DeviceEnergy, Provenance, Scope, WindowEnergy};
use serde::Serialize;

pub(crate) use ergometer::measure::EnergyReport as EstimateReport;

/// The energy of one device and scope, or why it is unknown.
#[derive(Debug, Serialize)]
pub(crate) struct DeviceReport {
    pub(crate) device: String,
    pub(crate) scope: Scope,
    pub(crate) provenance: Provenance,
    /// Whether it is part of the sum. A scope inside another is not; modelled energy never is.
    pub(crate) summed: bool,
    #[serde(flatten)]
    pub(crate) energy: Option<EstimateReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl From<&DeviceEnergy> for DeviceReport {
    fn from(device: &DeviceEnergy) -> Self {
        Self {
            device: device.device.to_string(),
            scope: device.scope,
            provenance: device.provenance,
            summed: device.summed,
            energy: device.estimate.as_ref().ok().map(EstimateReport::from),
            error: device.estimate.as_ref().err().map(ToString::to_string),
        }
    }
}

/// The energy of a window: the sum of the measured devices, and each device.
#[derive(Debug, Serialize)]
pub(crate) struct WindowReport {
    pub(crate) start_us: i64,
    pub(crate) end_us: i64,
    #[serde(flatten)]
    pub(crate) energy: Option<EstimateReport>,
    pub(crate) devices: Vec<DeviceReport>,
}

impl WindowReport {
    /// Measured energy, or modelled energy where nothing is measured; the method says which.
    pub(crate) fn new(window: &WindowEnergy) -> Self {
        let energy = window.measured.as_ref().ok().or(window.modelled.as_ref());
        Self {
            start_us: window.window.start().micros_since_epoch(),
            end_us: window.window.end().micros_since_epoch(),
            energy: energy.map(EstimateReport::from),
            devices: window.devices.iter().map(DeviceReport::from).collect(),
        }
    }
}

/// Formats a value as indented JSON.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<String, crate::exit::Failure> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(text)
}
