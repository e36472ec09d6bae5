//! Reads NVIDIA GPUs through NVML, the library of the driver.
//!
//! [`probe`] opens up to three sensors per GPU from an [`Nvml`] library: the real one ([`open`]), or a scripted one in
//! tests.
//!
//! There are three sensors because the sampler runs each on its own thread: a read of the energy counter blocks for 3-5
//! ms (one in twenty for 20-35 ms), the power ring must be read before it overflows, and the gauges take microseconds.
//!
//! A lost GPU ends its own sensors only. A signal that is not supported has no channel. A reading has the driver's
//! timestamp if there is one.

mod edge_grid;
mod energy;
mod faults;
mod gauges;
mod gpu_info;
mod library;
mod probe;
mod ring;
mod rings;
mod scoped_power;
#[cfg(test)]
pub(crate) mod scripted;
mod system;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ergometer_telemetry::{DeviceId, SensorInfo};

pub use gpu_info::{GpuInfo, gpus, system_gpus};
pub use library::{
    Activity, ClockDomain, Context, GpuProcess, Memory, Nvml, NvmlError, PowerField, ProcessSample, Ring, RingSample,
    Utilization,
};
pub use probe::{probe, probe_system};
pub use system::{OpenError, open};

/// The time source of a sensor: `Instant::now`, or a clock of a test, so that no test sleeps.
type Now = Arc<dyn Fn() -> Instant + Send + Sync>;

/// The GPU of a sensor, with the library and the clock that it uses.
#[derive(Clone)]
struct Target {
    nvml: Arc<dyn Nvml>,
    now: Now,
    device: DeviceId,
    name: String,
}

impl Target {
    fn info(&self, kind: &str, interval: Duration) -> SensorInfo {
        let id = format!("nvml-{kind}:{}", self.device.index);
        SensorInfo { id, name: self.name.clone(), device: self.device, interval }
    }
}
