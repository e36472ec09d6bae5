//! The devices whose energy counts: `gpu:0`, `gpu`, `cpu`; all if none is named.

use ergometer_diagnostics::{Diagnostic, Hint, command, hint, option};
use ergometer_telemetry::{DeviceId, DeviceKind, ParseDeviceError};
use serde::{Deserialize, Serialize};

/// A device that does not exist, or has no energy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The name is not that of a device or of a kind of device.
    #[error("{0}")]
    Unknown(ParseDeviceError),
    /// The metrics of a server are recorded without being selected, and have no energy.
    #[error("`{name}` has no energy, so it cannot be selected; server metrics are always recorded")]
    Server {
        /// The name as given.
        name: String,
    },
    /// No sensor of this machine measures the device.
    #[error("this machine has no energy sensor for `{name}`")]
    Missing {
        /// The name as given.
        name: String,
        /// The devices that have energy.
        there: Vec<DeviceId>,
    },
}

impl Diagnostic for DeviceError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Unknown(_) => None,
            Self::Server { .. } => Some(hint!(
                option("device"),
                " takes a device such as gpu:0, or a kind: gpu, cpu, npu, rail, meter, host; ",
                option("server-metrics").value("off"),
                " turns the server's metrics off"
            )),
            Self::Missing { there, .. } => {
                let there: Vec<String> = there.iter().map(ToString::to_string).collect();
                let there = if there.is_empty() { String::from("no device") } else { there.join(", ") };
                Some(hint!(
                    format!("energy is available for {there}; "),
                    command("doctor"),
                    " says which sensors are missing, and why"
                ))
            }
        }
    }
}

/// The devices whose energy counts. Files store their names; an empty list means every device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct CountedDevices(Vec<DeviceName>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeviceName {
    Device(DeviceId),
    Kind(DeviceKind),
}

impl CountedDevices {
    /// Parses names such as `gpu:0`, `gpu` and `cpu`; an empty list means all devices.
    pub fn parse(names: &[String]) -> Result<Self, DeviceError> {
        let named = names.iter().map(|name| {
            let named = match DeviceKind::from_name(name) {
                Some(kind) => DeviceName::Kind(kind),
                None => name.parse().map(DeviceName::Device).map_err(DeviceError::Unknown)?,
            };
            if named.kind() == DeviceKind::Server {
                return Err(DeviceError::Server { name: name.clone() });
            }
            Ok(named)
        });
        Ok(Self(named.collect::<Result<_, _>>()?))
    }

    /// Checks that each named device is among `there`, the devices with energy.
    pub fn check(&self, there: &[DeviceId]) -> Result<(), DeviceError> {
        let is_there = |named: &DeviceName| there.iter().any(|&device| named.matches(device));
        match self.0.iter().find(|named| !is_there(named)) {
            None => Ok(()),
            Some(missing) => Err(DeviceError::Missing { name: missing.name(), there: there.to_vec() }),
        }
    }

    /// Whether every device counts.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a device counts.
    #[must_use]
    pub fn counts(&self, device: DeviceId) -> bool {
        self.0.is_empty() || self.0.iter().any(|named| named.matches(device))
    }
}

impl TryFrom<Vec<String>> for CountedDevices {
    type Error = DeviceError;

    fn try_from(names: Vec<String>) -> Result<Self, DeviceError> {
        Self::parse(&names)
    }
}

impl From<CountedDevices> for Vec<String> {
    fn from(counted: CountedDevices) -> Self {
        counted.0.into_iter().map(DeviceName::name).collect()
    }
}

impl DeviceName {
    fn name(self) -> String {
        match self {
            Self::Device(device) => device.to_string(),
            Self::Kind(kind) => kind.name().to_owned(),
        }
    }

    fn kind(self) -> DeviceKind {
        match self {
            Self::Device(device) => device.kind,
            Self::Kind(kind) => kind,
        }
    }

    fn matches(self, device: DeviceId) -> bool {
        match self {
            Self::Device(this) => this == device,
            Self::Kind(kind) => kind == device.kind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_count_by_name_or_kind() {
        let parse =
            |names: &[&str]| CountedDevices::parse(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        let there = [DeviceId::gpu(0), DeviceId::gpu(1), DeviceId::cpu(0)];
        assert!(CountedDevices::default().counts(DeviceId::cpu(3)));
        let one = parse(&["gpu:1"]).unwrap();
        assert!(one.counts(DeviceId::gpu(1)) && !one.counts(DeviceId::gpu(0)) && one.check(&there).is_ok());
        let kind = parse(&["gpu"]).unwrap();
        assert!(kind.counts(DeviceId::gpu(7)) && !kind.counts(DeviceId::cpu(0)));
        let error = parse(&["gpu:9"]).unwrap().check(&there).unwrap_err();
        assert!(error.to_string().contains("`gpu:9`"), "{error}");
        let hint = error.hint().unwrap().phrase(&ergometer_diagnostics::CommandLine);
        assert!(hint.contains("available for gpu:0, gpu:1, cpu:0"), "{hint}");
        let stored = serde_json::to_string(&parse(&["gpu", "cpu:1"]).unwrap()).unwrap();
        assert_eq!(stored, r#"["gpu","cpu:1"]"#);
        assert_eq!(serde_json::from_str::<CountedDevices>(&stored).unwrap(), parse(&["gpu", "cpu:1"]).unwrap());
        assert!(serde_json::from_str::<CountedDevices>(r#"["disk"]"#).is_err(), "not read as all devices");
        assert!(parse(&["server:0"]).unwrap_err().to_string().contains("`server:0` has no energy"));
        assert!(parse(&["server"]).unwrap_err().to_string().contains("`server` has no energy"));
        assert!(parse(&["meter", "npu:0"]).unwrap().counts(DeviceId::meter(4)));
        assert!(parse(&["disk"]).unwrap_err().to_string().contains("unknown device `disk`"));
    }
}
