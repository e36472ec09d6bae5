//! Which devices count: `gpu:0`, `gpu`, `cpu`; all where none is named.

use ergometer_diagnostics::{Diagnostic, Hint, command, hint, option};
use ergometer_telemetry::{DeviceId, DeviceKind, ParseDeviceError};
use serde::{Deserialize, Serialize};

/// A device that does not exist, or has no energy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The name is not that of a device or of a kind of device.
    #[error("{0}")]
    Unknown(ParseDeviceError),
    /// The metrics of a server are always on the timeline, and have no energy.
    #[error("`{name}` has no energy: the metrics of a server are always on the timeline")]
    Server {
        /// The name as given.
        name: String,
    },
    /// No sensor of this machine measures the device.
    #[error("this machine has no energy of a device `{name}`")]
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
                " takes gpu, cpu, gpu:0, meter; ",
                option("server-metrics").value("off"),
                " turns the server's metrics off"
            )),
            Self::Missing { there, .. } => {
                let there: Vec<String> = there.iter().map(ToString::to_string).collect();
                let there = if there.is_empty() { String::from("no device") } else { there.join(", ") };
                Some(hint!(
                    format!("this machine has energy of {there}; "),
                    command("doctor"),
                    " says what is missing, and why"
                ))
            }
        }
    }
}

/// The devices whose energy counts. Files have their names; an empty list counts every device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Counted(Vec<Named>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Device(DeviceId),
    Kind(DeviceKind),
}

impl Counted {
    /// From `gpu:0`, `gpu`, `cpu`; all where there are none.
    pub fn parse(names: &[String]) -> Result<Self, DeviceError> {
        let named = names.iter().map(|name| {
            let named = match DeviceKind::from_name(name) {
                Some(kind) => Named::Kind(kind),
                None => name.parse().map(Named::Device).map_err(DeviceError::Unknown)?,
            };
            if named.kind() == DeviceKind::Server {
                return Err(DeviceError::Server { name: name.clone() });
            }
            Ok(named)
        });
        Ok(Self(named.collect::<Result<_, _>>()?))
    }

    /// Checks that each of them is there.
    pub fn check(&self, there: &[DeviceId]) -> Result<(), DeviceError> {
        let is_there = |named: &Named| there.iter().any(|&device| named.matches(device));
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

impl TryFrom<Vec<String>> for Counted {
    type Error = DeviceError;

    fn try_from(names: Vec<String>) -> Result<Self, DeviceError> {
        Self::parse(&names)
    }
}

impl From<Counted> for Vec<String> {
    fn from(counted: Counted) -> Self {
        counted.0.into_iter().map(Named::name).collect()
    }
}

impl Named {
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
        let parse = |names: &[&str]| Counted::parse(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        let there = [DeviceId::gpu(0), DeviceId::gpu(1), DeviceId::cpu(0)];
        assert!(Counted::default().counts(DeviceId::cpu(3)));
        let one = parse(&["gpu:1"]).unwrap();
        assert!(one.counts(DeviceId::gpu(1)) && !one.counts(DeviceId::gpu(0)) && one.check(&there).is_ok());
        let kind = parse(&["gpu"]).unwrap();
        assert!(kind.counts(DeviceId::gpu(7)) && !kind.counts(DeviceId::cpu(0)));
        let error = parse(&["gpu:9"]).unwrap().check(&there).unwrap_err();
        assert!(error.to_string().contains("`gpu:9`"), "{error}");
        let hint = error.hint().unwrap().phrase(&ergometer_diagnostics::CommandLine);
        assert!(hint.contains("has energy of gpu:0, gpu:1, cpu:0"), "{hint}");
        let stored = serde_json::to_string(&parse(&["gpu", "cpu:1"]).unwrap()).unwrap();
        assert_eq!(stored, r#"["gpu","cpu:1"]"#);
        assert_eq!(serde_json::from_str::<Counted>(&stored).unwrap(), parse(&["gpu", "cpu:1"]).unwrap());
        assert!(serde_json::from_str::<Counted>(r#"["disk"]"#).is_err(), "never taken for all devices");
        assert!(parse(&["server:0"]).unwrap_err().to_string().contains("`server:0` has no energy"));
        assert!(parse(&["server"]).unwrap_err().to_string().contains("`server` has no energy"));
        assert!(parse(&["meter", "npu:0"]).unwrap().counts(DeviceId::meter(4)));
        assert!(parse(&["disk"]).unwrap_err().to_string().contains("unknown device `disk`"));
    }
}
