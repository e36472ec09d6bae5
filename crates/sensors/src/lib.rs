//! Every sensor that Ergometer reads: GPUs, CPUs, power rails, batteries and the user's own meters.
//!
//! Each kind of sensor is a module. [`probe_machine`] opens every sensor that this machine has, [`select`] keeps some
//! of them, and a [`Sampler`](ergometer_telemetry::Sampler) records their readings:
//!
//! ```
//! use std::sync::Arc;
//!
//! use ergometer_sensors::{modelled::ModelPolicy, probe_machine, select};
//! use ergometer_telemetry::{Clock, Sampler};
//!
//! let probe = probe_machine(ModelPolicy::WhereUnmeasured);
//! for finding in &probe.findings {
//!     println!("{} {}: {:?}", finding.device, finding.source, finding.status);
//! }
//! let sensors = select(probe.sensors, &["host".parse()?])?;
//! let sampler = Sampler::start(sensors, Arc::new(Clock::start()), None);
//! // The work to measure runs here.
//! let timeline = sampler.stop();
//! println!("{} readings", timeline.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`processes`] lists the processes that use the CPU and the GPUs.

pub mod amd;
pub mod apple;
pub mod battery;
mod counters;
mod drm;
mod energy_counter;
#[cfg(test)]
mod example;
pub mod external;
mod gauges;
mod gpu_energy;
pub mod hardware;
pub mod host;
pub mod hwmon;
pub mod intel_gpu;
pub mod modelled;
pub mod nvidia;
pub mod process_group;
pub mod processes;
mod processor_time;
pub mod rapl;
pub mod replay;
mod selection;
mod sysfs;
mod while_awake;

use ergometer_telemetry::{DeviceKind, Probe, Sensor};

use self::modelled::ModelPolicy;

pub use self::processor_time::ProcessorShare;
pub use self::selection::{Selector, UnknownDevice, have_energy, select};

/// Opens every sensor of this machine. The findings also list missing sensors, with the reason.
#[must_use]
pub fn probe_machine(model: ModelPolicy) -> Probe {
    let mut probe = nvidia::probe_system();
    let first_gpu = |probe: &Probe| next_index(&probe.sensors, DeviceKind::Gpu);
    probe.extend(amd::probe(&amd::Options { first_gpu: first_gpu(&probe), ..Default::default() }));
    probe.extend(intel_gpu::probe(&intel_gpu::Options { first_gpu: first_gpu(&probe), ..Default::default() }));
    probe.extend(apple::probe(&apple::Options { first_gpu: first_gpu(&probe) }));
    probe.extend(rapl::probe(&rapl::Options::default()));
    probe.extend(hwmon::probe(&hwmon::Options::beside(&probe.sensors)));
    // The battery and the model are used only where no better sensor measures the machine.
    probe.extend(battery::probe(&battery::Options::beside(&probe.sensors)));
    probe.extend(modelled::probe(&modelled::Options { policy: model, ..Default::default() }, &probe.sensors));
    probe.extend(host::probe(&host::Options::default()));
    probe
}

/// The lowest index that is above the index of every device of this kind.
#[must_use]
pub fn next_index(sensors: &[Box<dyn Sensor>], kind: DeviceKind) -> u32 {
    let taken = sensors.iter().map(|sensor| sensor.info().device).filter(|device| device.kind == kind);
    taken.map(|device| device.index.saturating_add(1)).max().unwrap_or(0)
}
