//! Reads the name, driver version, power limit and memory of GPUs for the record of a run.

use ergometer_telemetry::DeviceId;
use ergometer_units::{Bytes, Watts};

use super::library::{Nvml, NvmlError};
use super::system::{OpenError, open};

/// The description of one GPU. A value that the driver does not report is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuInfo {
    /// The device.
    pub device: DeviceId,
    /// The product name, such as `NVIDIA H200`.
    pub name: String,
    /// The unique id of the board.
    pub uuid: Option<String>,
    /// The driver version.
    pub driver_version: Option<String>,
    /// The current power limit.
    pub power_limit: Option<Watts>,
    /// The size of its memory.
    pub memory_total: Option<Bytes>,
    /// Whether it is split into MIG instances. Its energy is then that of all instances.
    pub mig_enabled: Option<bool>,
}

/// Describes every GPU that responds. A lost GPU is skipped; [`probe`](super::probe) reports it.
pub fn gpus(nvml: &dyn Nvml) -> Result<Vec<GpuInfo>, NvmlError> {
    let driver_version = nvml.driver_version().ok();
    let infos = (0..nvml.gpu_count()?).filter_map(|gpu| {
        Some(GpuInfo {
            device: DeviceId::gpu(gpu),
            name: nvml.name(gpu).ok()?,
            uuid: nvml.uuid(gpu).ok(),
            driver_version: driver_version.clone(),
            power_limit: nvml.power_limit(gpu).ok(),
            memory_total: nvml.memory(gpu).ok().map(|memory| memory.total),
            mig_enabled: nvml.mig_enabled(gpu).ok(),
        })
    });
    Ok(infos.collect())
}

/// Describes this machine's GPUs. Without a driver there are none.
#[must_use]
pub fn system_gpus() -> Vec<GpuInfo> {
    let found = open().and_then(|nvml| gpus(nvml.as_ref()).map_err(|error| OpenError::Other(error.to_string())));
    found.unwrap_or_default()
}
