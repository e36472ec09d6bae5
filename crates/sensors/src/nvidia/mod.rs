//! NVIDIA GPUs, through NVML, the library that comes with the driver.
//!
//! In: a library behind the trait [`Nvml`], the real one ([`open`]) or a scripted one. Out: per GPU up to three sensors
//! and what `ergo doctor` says about each of their sources ([`probe`]).
//!
//! Three sensors and not one, because the sampler gives each a thread: a read of the energy counter blocks for 3-5 ms,
//! one in twenty for 20-35 ms, the power ring has to be drained before it runs over, and the gauges cost microseconds.
//!
//! Always: a GPU that is lost ends its own sensors and no other; a signal that is not there has no channel; a reading
//! carries the driver's own time where there is one.

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

/// Where a sensor takes the time from: `Instant::now`, or a test's own, so that no test sleeps.
type Now = Arc<dyn Fn() -> Instant + Send + Sync>;

/// The GPU a sensor is made for, and what it is read with.
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
