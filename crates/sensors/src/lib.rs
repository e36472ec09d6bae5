//! The sensors there are, one module each, and the one call that looks for all of them.

pub mod amd;
pub mod apple;
pub mod battery;
mod counted;
mod counters;
mod drm;
#[cfg(test)]
mod example;
pub mod external;
mod gauges;
mod gpu_energy;
pub mod host;
pub mod hwmon;
pub mod intel_gpu;
pub mod modelled;
pub mod nvidia;
pub mod processes;
mod processor_time;
pub mod rapl;
pub mod replay;
#[cfg(test)]
mod sampled;
mod selection;
mod sysfs;
mod while_awake;

use ergometer_telemetry::{DeviceKind, Probe, Sensor};
use modelled::Modelled;
pub use processor_time::ProcessorShare;
pub use selection::{Selector, UnknownDevice, have_energy, select};

/// Looks for every sensor of this machine.
///
/// ```
/// use ergometer_sensors::modelled::Modelled;
/// let probe = ergometer_sensors::probe_machine(Modelled::WhereUnmeasured);
/// assert!(probe.findings.len() > 1, "what is missing is said too");
/// ```
#[must_use]
pub fn probe_machine(modelled: Modelled) -> Probe {
    let mut probe = nvidia::probe_system();
    let first_gpu = |probe: &Probe| next_index(&probe.sensors, DeviceKind::Gpu);
    probe.extend(amd::probe(&amd::Options { first_gpu: first_gpu(&probe), ..Default::default() }));
    probe.extend(intel_gpu::probe(&intel_gpu::Options { first_gpu: first_gpu(&probe), ..Default::default() }));
    probe.extend(apple::probe(&apple::Options { first_gpu: first_gpu(&probe) }));
    probe.extend(rapl::probe(&rapl::Options::default()));
    probe.extend(hwmon::probe(&hwmon::Options::beside(&probe.sensors)));
    // What is left where nothing better measures the machine.
    probe.extend(battery::probe(&battery::Options::beside(&probe.sensors)));
    probe.extend(modelled::probe(&modelled::Options { modelled, ..Default::default() }, &probe.sensors));
    probe.extend(host::probe(&host::Options::default()));
    probe
}

/// The first number of this kind of device that none of the sensors has.
#[must_use]
pub fn next_index(sensors: &[Box<dyn Sensor>], kind: DeviceKind) -> u32 {
    let taken = sensors.iter().map(|sensor| sensor.info().device).filter(|device| device.kind == kind);
    taken.map(|device| device.index.saturating_add(1)).max().unwrap_or(0)
}
