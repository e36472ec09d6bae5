//! Which devices count: `gpu:0`, `gpu`, `cpu`; all where none is named.

use ergometer_telemetry::{DeviceId, DeviceKind, ParseDeviceError};

/// A device that does not exist, or has no energy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DeviceError(pub String);

/// Which devices count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
                None => name.parse().map(Named::Device).map_err(|error: ParseDeviceError| DeviceError(error.to_string()))?,
            };
            if named.kind() == DeviceKind::Server {
                return Err(DeviceError(format!(
                    "`{name}` has no energy: what a server tells of itself is on the timeline whatever counts. hint: --device takes gpu, cpu, gpu:0, meter; `--server-metrics off` leaves the server out"
                )));
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
            Some(missing) => {
                let name = match missing {
                    Named::Device(device) => device.to_string(),
                    Named::Kind(kind) => kind.name().to_owned(),
                };
                let there: Vec<String> = there.iter().map(ToString::to_string).collect();
                let there = if there.is_empty() { String::from("none") } else { there.join(", ") };
                Err(DeviceError(format!(
                    "no energy of a device `{name}` on this machine. hint: there are {there}; `ergo doctor` says what is missing, and why"
                )))
            }
        }
    }

    /// Whether a device counts.
    #[must_use]
    pub fn counts(&self, device: DeviceId) -> bool {
        self.0.is_empty() || self.0.iter().any(|named| named.matches(device))
    }
}

impl Named {
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
        let error = parse(&["gpu:9"]).unwrap().check(&there).unwrap_err().to_string();
        assert!(error.contains("`gpu:9`") && error.contains("there are gpu:0, gpu:1, cpu:0"), "{error}");
        assert!(parse(&["server:0"]).unwrap_err().to_string().contains("`server:0` has no energy"));
        assert!(parse(&["server"]).unwrap_err().to_string().contains("`server` has no energy"));
        assert!(parse(&["meter", "npu:0"]).unwrap().counts(DeviceId::meter(4)));
        assert!(parse(&["disk"]).unwrap_err().to_string().contains("unknown device `disk`"));
    }
}
