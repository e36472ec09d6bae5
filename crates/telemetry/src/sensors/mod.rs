//! The sensors there are, one module each, and the one call that looks for all of them.

mod counted;
pub mod external;
mod gauges;
pub mod host;
pub mod modelled;
pub mod nvidia;
mod processor_time;
pub mod rapl;
pub mod replay;
mod selection;
mod sysfs;

use crate::Probe;
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
