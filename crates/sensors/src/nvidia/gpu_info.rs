//! What is fixed about a GPU and belongs into the record of a run.

use ergometer_units::{Bytes, Watts};

use super::library::{Nvml, NvmlError};
use super::system::{OpenError, open};
use ergometer_telemetry::DeviceId;

/// The fixed facts of one GPU. What the driver does not tell is absent.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuInfo {
    /// Which GPU.
    pub device: DeviceId,
    /// The product's name, such as `NVIDIA H200`.
    pub name: String,
    /// The id that stays with the board.
    pub uuid: Option<String>,
    /// The version of the driver.
    pub driver_version: Option<String>,
    /// The power it is held to now.
    pub power_limit: Option<Watts>,
    /// Its memory.
    pub memory_total: Option<Bytes>,
    /// Whether it is split into instances, so that its energy is that of all of them.
    pub mig_enabled: Option<bool>,
}

/// The facts of every GPU that answers. One that is lost is left out; [`probe`](super::probe) says so.
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

/// The facts of this machine's GPUs; none where there is no driver.
#[must_use]
pub fn system_gpus() -> Vec<GpuInfo> {
    let found = open().and_then(|nvml| gpus(nvml.as_ref()).map_err(|error| OpenError::Other(error.to_string())));
    found.unwrap_or_default()
}
