//! What a run measures with: the sensors of the machine, and what the machine is.

use std::time::Duration;

use ergometer_telemetry::sensors::{self, host::SystemInfo, modelled::Modelled, nvidia};
use ergometer_telemetry::{DeviceId, Provenance, Sensor};

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
