//! The sensors and the machine of a run.

use std::time::Duration;

use ergometer_sensors::{amd, external, modelled::ModelPolicy, nvidia};
use ergometer_telemetry::SystemInfo;
use ergometer_telemetry::{DeviceId, DeviceKind, Provenance, Sensor};

use super::RunError;
use ergometer_runs::config::RunConfig;
use ergometer_runs::record::GpuColumn;
use ergometer_sensors::hardware::hardware_label;

/// How long reading the system information may take. A driver that hangs must not block the run.
const PRIME_TIMEOUT: Duration = Duration::from_secs(2);

/// How long probing for sensors may take; a machine with eight GPUs takes a second.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

/// The sensors and the machine of a run.
pub struct Sensing {
    /// The sensors.
    pub sensors: Vec<Box<dyn Sensor>>,
    /// The machine.
    pub machine: Machine,
}

/// A description of a machine.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Machine {
    /// The system.
    pub system: SystemInfo,
    /// Its accelerators.
    pub gpus: Vec<GpuColumn>,
}

impl Machine {
    /// The name of the hardware in the folder name.
    #[must_use]
    pub fn label(&self) -> String {
        let names: Vec<&str> = self.gpus.iter().map(|gpu| gpu.name.as_str()).collect();
        hardware_label(&names, self.system.cpu_brand.as_deref())
    }

    /// Reads the system information and asks the drivers.
    fn read() -> Self {
        let column = |gpu: nvidia::GpuInfo, vendor: &str, backend: &str| GpuColumn {
            name: gpu.name,
            vendor: vendor.to_owned(),
            device_id: gpu.device.index.into(),
            device_type: String::from("gpu"),
            backend: backend.to_owned(),
        };
        let mut gpus: Vec<GpuColumn> =
            nvidia::system_gpus().into_iter().map(|gpu| column(gpu, "NVIDIA", "nvml")).collect();
        let first_gpu = u32::try_from(gpus.len()).unwrap_or(u32::MAX);
        let others = amd::system_gpus(&amd::Options { first_gpu, ..Default::default() });
        gpus.extend(others.into_iter().map(|gpu| column(gpu, "AMD", "amdgpu")));
        Self { gpus, system: ergometer_sensors::host::read_system_info() }
    }
}

impl Sensing {
    /// Opens the sensors of this machine and those the user configured. A configured sensor that does not work is an
    /// error now, not an empty column later.
    pub async fn open(config: &RunConfig) -> Result<Self, RunError> {
        let specs: Vec<_> = config.sensor_specs().cloned().collect();
        let mut sensing = Self::open_machine(config.model_cpu).await;
        if !specs.is_empty() {
            let first = ergometer_sensors::next_index(&sensing.sensors, DeviceKind::Meter);
            let opening = tokio::task::spawn_blocking(move || external::open_all(&specs, first));
            let opened =
                opening.await.map_err(|error| RunError::internal(format!("a sensor cannot be opened: {error}")))?;
            sensing.sensors.extend(opened?);
        }
        Ok(sensing)
    }

    /// Opens the sensors of this machine. If no sensor measures the CPU and `model_cpu` is set, its power is modelled.
    pub async fn open_machine(model_cpu: bool) -> Self {
        let asked = tokio::task::spawn_blocking(Machine::read);
        let machine = match tokio::time::timeout(PRIME_TIMEOUT, asked).await {
            Ok(Ok(machine)) => machine,
            _ => Machine::default(),
        };
        let modelled = if model_cpu { ModelPolicy::WhereUnmeasured } else { ModelPolicy::Off };
        let probing = tokio::task::spawn_blocking(move || ergometer_sensors::probe_machine(modelled).sensors);
        let sensors = match tokio::time::timeout(PROBE_TIMEOUT, probing).await {
            Ok(Ok(sensors)) => sensors,
            _ => Vec::new(),
        };
        Self { sensors, machine }
    }

    /// The devices with energy or power, each once.
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
