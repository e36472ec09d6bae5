//! What a run measures with: the sensors of the machine, what the machine is, and which devices count.

use std::time::Duration;

use ergometer_telemetry::sensors::{self, host::SystemInfo, modelled::Modelled, nvidia};
use ergometer_telemetry::{DeviceId, DeviceKind, Provenance, Sensor};

use super::RunError;
use crate::hardware::hardware_label;
use crate::record::GpuColumn;

/// How long the machine may take to say what it is. A driver that hangs must not hang the run.
const PRIME_TIMEOUT: Duration = Duration::from_secs(2);

/// How long looking for sensors may take; a machine with eight GPUs takes a second.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

/// What a run measures with.
pub struct Sensing {
    /// The sensors.
    pub sensors: Vec<Box<dyn Sensor>>,
    /// What the machine is.
    pub machine: Machine,
}

/// What a machine is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Machine {
    /// The system.
    pub system: SystemInfo,
    /// Its accelerators.
    pub gpus: Vec<GpuColumn>,
}

impl Machine {
    /// The folder's part about the hardware.
    #[must_use]
    pub fn label(&self) -> String {
        let names: Vec<&str> = self.gpus.iter().map(|gpu| gpu.name.as_str()).collect();
        hardware_label(&names, self.system.cpu_brand.as_deref())
    }

    /// Asks the system and the drivers.
    fn read() -> Self {
        let gpus = nvidia::system_gpus().into_iter().map(|gpu| GpuColumn {
            name: gpu.name,
            vendor: String::from("NVIDIA"),
            device_id: gpu.device.index.into(),
            device_type: String::from("gpu"),
            backend: String::from("nvml"),
        });
        Self { gpus: gpus.collect(), system: SystemInfo::read() }
    }
}

impl Sensing {
    /// The sensors of this machine. Where nothing measures the CPU, its power is modelled if `model_cpu` says so.
    pub async fn of_this_machine(model_cpu: bool) -> Self {
        let asked = tokio::task::spawn_blocking(Machine::read);
        let machine = match tokio::time::timeout(PRIME_TIMEOUT, asked).await {
            Ok(Ok(machine)) => machine,
            _ => Machine::default(),
        };
        let modelled = if model_cpu { Modelled::WhereUnmeasured } else { Modelled::Off };
        let probing = tokio::task::spawn_blocking(move || sensors::probe_machine(modelled).sensors);
        let sensors = match tokio::time::timeout(PROBE_TIMEOUT, probing).await {
            Ok(Ok(sensors)) => sensors,
            _ => Vec::new(),
        };
        Self { sensors, machine }
    }

    /// The devices that have energy or power, each once.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceId> {
        let channels = self.sensors.iter().flat_map(|sensor| sensor.channels());
        let with_energy = channels.filter(|channel| channel.provenance != Provenance::Gauge);
        let mut devices: Vec<DeviceId> = with_energy.map(|channel| channel.device).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }
}

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
    pub fn parse(names: &[String]) -> Result<Self, RunError> {
        let named = names.iter().map(|name| match name.as_str() {
            "gpu" => Ok(Named::Kind(DeviceKind::Gpu)),
            "cpu" => Ok(Named::Kind(DeviceKind::Cpu)),
            "host" => Ok(Named::Kind(DeviceKind::Host)),
            other => other.parse().map(Named::Device).map_err(|error| RunError::Device(error.to_string())),
        });
        Ok(Self(named.collect::<Result<_, _>>()?))
    }

    /// Checks that each of them is there.
    pub fn check(&self, there: &[DeviceId]) -> Result<(), RunError> {
        let is_there = |named: &Named| there.iter().any(|&device| named.matches(device));
        match self.0.iter().find(|named| !is_there(named)) {
            None => Ok(()),
            Some(missing) => {
                let name = match missing {
                    Named::Device(device) => device.to_string(),
                    Named::Kind(kind) => format!("{kind:?}").to_lowercase(),
                };
                let there: Vec<String> = there.iter().map(ToString::to_string).collect();
                let there = if there.is_empty() { String::from("none") } else { there.join(", ") };
                Err(RunError::Device(format!(
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
        assert!(parse(&["disk"]).unwrap_err().to_string().contains("unknown device `disk`"));
    }
}
