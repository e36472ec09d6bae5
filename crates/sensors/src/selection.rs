//! Selects the sensors to use by device, kind of device or sensor id.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use ergometer_diagnostics::{Diagnostic, Hint, command, hint};
use ergometer_telemetry::{DeviceId, DeviceKind, Provenance, Sensor};
use serde::{Deserialize, Serialize};

/// Selects sensors by device (`gpu:0`), by kind of device (`gpu`) or by sensor id (`nvml-energy:0`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Selector {
    /// The sensors of one device.
    Device(DeviceId),
    /// The sensors of all devices of a kind.
    Kind(DeviceKind),
    /// The sensor with this id.
    Sensor(String),
}

impl From<String> for Selector {
    fn from(text: String) -> Self {
        match DeviceKind::from_name(&text) {
            Some(kind) => Self::Kind(kind),
            None => text.parse().map_or(Self::Sensor(text), Self::Device),
        }
    }
}

impl From<Selector> for String {
    fn from(selector: Selector) -> Self {
        selector.to_string()
    }
}

impl FromStr for Selector {
    type Err = Infallible;

    /// Never fails: [`select`] reports names that the machine does not have.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::from(text.to_owned()))
    }
}

impl Selector {
    fn matches(&self, sensor: &dyn Sensor) -> bool {
        let info = sensor.info();
        match self {
            Self::Device(device) => info.device == *device,
            Self::Kind(kind) => info.device.kind == *kind,
            Self::Sensor(id) => info.id == *id,
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(device) => device.fmt(f),
            Self::Kind(kind) => f.write_str(kind.name()),
            Self::Sensor(id) => f.write_str(id),
        }
    }
}

/// No device or sensor of this machine matches a [`Selector`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no device or sensor `{selector}` on this machine")]
pub struct UnknownDevice {
    /// The selector that matches nothing.
    pub selector: Selector,
    /// The devices of this machine.
    pub devices: Vec<DeviceId>,
    /// The ids of this machine's sensors.
    pub sensors: Vec<String>,
}

impl UnknownDevice {
    fn new(selector: &Selector, sensors: &[Box<dyn Sensor>]) -> Self {
        let mut devices: Vec<DeviceId> = sensors.iter().map(|sensor| sensor.info().device).collect();
        devices.sort_unstable();
        devices.dedup();
        let sensors = sensors.iter().map(|sensor| sensor.info().id.clone()).collect();
        Self { selector: selector.clone(), devices, sensors }
    }
}

impl Diagnostic for UnknownDevice {
    fn hint(&self) -> Option<Hint> {
        let why_missing = hint!("run ", command("doctor"), " to see why a sensor is missing");
        if self.devices.is_empty() {
            return Some(why_missing);
        }
        let devices: Vec<String> = self.devices.iter().map(ToString::to_string).collect();
        let known = format!(
            "choose one of the devices {} or one of the sensors {}",
            devices.join(", "),
            self.sensors.join(", ")
        );
        Some(hint!(known).and(why_missing))
    }
}

/// Keeps the sensors that match any of the selectors, or all sensors if there are no selectors.
pub fn select(sensors: Vec<Box<dyn Sensor>>, selectors: &[Selector]) -> Result<Vec<Box<dyn Sensor>>, UnknownDevice> {
    let matches_any = |selector: &&Selector| sensors.iter().any(|sensor| selector.matches(&**sensor));
    if let Some(unknown) = selectors.iter().find(|selector| !matches_any(selector)) {
        return Err(UnknownDevice::new(unknown, &sensors));
    }
    let is_selected =
        |sensor: &dyn Sensor| selectors.is_empty() || selectors.iter().any(|selector| selector.matches(sensor));
    Ok(sensors.into_iter().filter(|sensor| is_selected(&**sensor)).collect())
}

/// Whether any of the sensors reports energy or power, measured or modelled.
#[must_use]
pub fn have_energy(sensors: &[Box<dyn Sensor>]) -> bool {
    sensors.iter().flat_map(|sensor| sensor.channels()).any(|channel| channel.provenance != Provenance::Gauge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{gauge, sensor};
    use crate::replay::Replay;
    use ergometer_telemetry::{SensorInfo, Signal, Timeline};

    /// One sensor for each of two GPUs and one for the host, none with energy.
    fn machine() -> Vec<Box<dyn Sensor>> {
        let mut timeline = Timeline::default();
        for (id, device) in [("nvml:0", DeviceId::gpu(0)), ("nvml:1", DeviceId::gpu(1)), ("host", DeviceId::host())] {
            timeline.add_sensor(&SensorInfo { device, ..sensor(id) }, &[gauge(Signal::Temperature)]);
        }
        Replay::default().sensors(&timeline).unwrap()
    }

    fn selected_ids(selectors: &[&str]) -> Result<Vec<String>, UnknownDevice> {
        let selectors: Vec<Selector> = selectors.iter().map(|name| name.parse().unwrap()).collect();
        let sensors = select(machine(), &selectors)?;
        Ok(sensors.iter().map(|sensor| sensor.info().id.clone()).collect())
    }

    #[test]
    fn sensors_are_selected_by_device_kind_or_id() {
        assert_eq!(selected_ids(&[]).unwrap(), ["nvml:0", "nvml:1", "host"]);
        assert_eq!(selected_ids(&["gpu:1"]).unwrap(), ["nvml:1"]);
        assert_eq!(selected_ids(&["gpu"]).unwrap(), ["nvml:0", "nvml:1"]);
        assert_eq!(selected_ids(&["host", "nvml:0"]).unwrap(), ["nvml:0", "host"]);
        assert!(!have_energy(&machine()));
    }

    #[test]
    fn a_selector_is_serialized_as_it_is_written() {
        for text in ["gpu", "gpu:1", "nvml-energy:0"] {
            let json = format!("{text:?}");
            let selector: Selector = serde_json::from_str(&json).unwrap();
            assert_eq!(serde_json::to_string(&selector).unwrap(), json);
        }
    }

    #[test]
    fn the_error_for_an_unknown_device_lists_those_that_exist() {
        let error = selected_ids(&["gpu:0", "gpu:7"]).unwrap_err();
        assert_eq!(error.to_string(), "no device or sensor `gpu:7` on this machine");
        assert_eq!(
            error.to_message().command_line_hint().as_deref(),
            Some(
                "choose one of the devices gpu:0, gpu:1, host:0 or one of the sensors nvml:0, nvml:1, host; \
                 run `ergo doctor` to see why a sensor is missing"
            )
        );
    }
}
