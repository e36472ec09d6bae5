//! The sensors there are, one module each, and the one call that looks for all of them.

pub mod battery;
mod counted;
mod gauges;
pub mod host;
pub mod hwmon;
pub mod modelled;
pub mod nvidia;
mod processor_time;
pub mod rapl;
pub mod replay;
mod selection;
mod sysfs;

use crate::{DeviceKind, Probe, Sensor};
use modelled::Modelled;
pub use processor_time::ProcessorShare;
pub use selection::{Selector, UnknownDevice, have_energy, select};

/// Looks for every sensor of this machine.
///
/// ```
/// use ergometer_telemetry::sensors::{self, modelled::Modelled};
/// let probe = sensors::probe_machine(Modelled::WhereUnmeasured);
/// assert!(probe.findings.len() > 1, "what is missing is said too");
/// ```
#[must_use]
pub fn probe_machine(modelled: Modelled) -> Probe {
    let mut probe = nvidia::probe_system();
    probe.extend(rapl::probe(&rapl::Options::default()));
    probe.extend(modelled::probe(&modelled::Options { modelled, ..Default::default() }, &probe.sensors));
    probe.extend(host::probe(&host::Options::default()));
    probe
}

/// The first number of this kind of device that none of the sensors has.
fn first_free(sensors: &[Box<dyn Sensor>], kind: DeviceKind) -> u32 {
    let taken = sensors.iter().map(|sensor| sensor.info().device).filter(|device| device.kind == kind);
    taken.map(|device| device.index.saturating_add(1)).max().unwrap_or(0)
}
