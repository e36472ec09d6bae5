//! Which sensors to use: what the machine has, narrowed by what the user asked for.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use ergometer_telemetry::{DeviceId, DeviceKind, Provenance, Sensor};

/// What `--device` names: a device, all devices of a kind, or a sensor by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// One device.
    Device(DeviceId),
    /// All devices of a kind.
    Kind(DeviceKind),
    /// One sensor, by its id.
    Sensor(String),
}

impl FromStr for Selector {
    type Err = Infallible;

    /// Whether a name exists is only known when the machine has been looked at.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match DeviceKind::from_name(text) {
            Some(kind) => Self::Kind(kind),
            None => text.parse().map_or_else(|_| Self::Sensor(text.to_owned()), Self::Device),
        })
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

/// The error of a name that no device or sensor of the machine has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no device or sensor `{name}` on this machine. \
     hint: there are the devices {devices} and the sensors {sensors}; `ergo doctor` says what is missing, and why"
)]
pub struct UnknownDevice {
    /// What was asked for.
    pub name: String,
    /// The devices there are.
    pub devices: String,
    /// The sensors there are, by their ids.
    pub sensors: String,
}

/// Keeps the sensors that are asked for: all where nothing is.
pub fn select(sensors: Vec<Box<dyn Sensor>>, asked: &[Selector]) -> Result<Vec<Box<dyn Sensor>>, UnknownDevice> {
    let is_there = |selector: &&Selector| sensors.iter().any(|sensor| selector.matches(&**sensor));
    if let Some(unknown) = asked.iter().find(|selector| !is_there(selector)) {
        return Err(UnknownDevice::new(unknown, &sensors));
    }
    let wanted = |sensor: &dyn Sensor| asked.is_empty() || asked.iter().any(|selector| selector.matches(sensor));
    Ok(sensors.into_iter().filter(|sensor| wanted(&**sensor)).collect())
}

impl UnknownDevice {
    fn new(selector: &Selector, sensors: &[Box<dyn Sensor>]) -> Self {
        let mut devices: Vec<DeviceId> = sensors.iter().map(|sensor| sensor.info().device).collect();
        devices.sort_unstable();
        devices.dedup();
        let devices: Vec<String> = devices.iter().map(ToString::to_string).collect();
        let ids: Vec<&str> = sensors.iter().map(|sensor| sensor.info().id.as_str()).collect();
        Self { name: selector.to_string(), devices: devices.join(", "), sensors: ids.join(", ") }
    }
}

/// Whether any of the sensors knows of energy or power, measured or modelled.
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

    /// A sensor of each of two GPUs, and one of the host; none knows of energy.
    fn machine() -> Vec<Box<dyn Sensor>> {
        let mut timeline = Timeline::default();
        for (id, device) in [("nvml:0", DeviceId::gpu(0)), ("nvml:1", DeviceId::gpu(1)), ("host", DeviceId::host())] {
            timeline.add_sensor(&SensorInfo { device, ..sensor(id) }, &[gauge(Signal::Temperature)]);
        }
        Replay::default().sensors(&timeline).unwrap()
    }

    fn chosen(asked: &[&str]) -> Result<Vec<String>, UnknownDevice> {
        let asked: Vec<Selector> = asked.iter().map(|name| name.parse().unwrap()).collect();
        let sensors = select(machine(), &asked)?;
        Ok(sensors.iter().map(|sensor| sensor.info().id.clone()).collect())
    }

    #[test]
    fn a_device_a_kind_or_a_sensor_by_name() {
        assert_eq!(chosen(&[]).unwrap(), ["nvml:0", "nvml:1", "host"]);
        assert_eq!(chosen(&["gpu:1"]).unwrap(), ["nvml:1"]);
        assert_eq!(chosen(&["gpu"]).unwrap(), ["nvml:0", "nvml:1"]);
        assert_eq!(chosen(&["host", "nvml:0"]).unwrap(), ["nvml:0", "host"]);
        assert!(!have_energy(&machine()));
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_is() {
        let refused = chosen(&["gpu:0", "gpu:7"]).unwrap_err().to_string();
        assert_eq!(
            refused,
            "no device or sensor `gpu:7` on this machine. hint: there are the devices gpu:0, gpu:1, host:0 and the sensors \
             nvml:0, nvml:1, host; `ergo doctor` says what is missing, and why"
        );
    }
}
