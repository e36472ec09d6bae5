//! Opens RAPL counters as perf events, if powercap is not readable, missing or hidden.
//!
//! There is one counter for each event and package (or die), and a finding for each event that cannot be opened. A
//! machine without the event source `power` gets no finding. AMD's second source, `power_core`, is not used: it counts
//! single cores, which the package includes.

#[cfg(target_os = "linux")]
mod event_file;
mod events;
#[cfg(test)]
mod fake;
#[cfg(not(target_os = "linux"))]
mod unsupported;

use std::io;
use std::path::Path;

use ergometer_telemetry::{Probe, Status};

#[cfg(target_os = "linux")]
pub(super) use self::event_file::Kernel;
#[cfg(not(target_os = "linux"))]
pub(super) use self::unsupported::Kernel;
use super::{Options, SOURCE};
use crate::energy_counter::ReadCounter;
use crate::rapl::OpenZone;
use crate::sysfs::read_text;

/// The numbers that identify an event on one processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    /// The number (`type`) of the source.
    pub(super) source: u32,
    /// The number of the event in the source.
    pub(super) config: u64,
    /// The processor.
    pub(super) processor: u32,
}

/// Opens counting events.
pub(super) trait OpenEvent {
    /// Opens an event, which counts from zero.
    fn open(&self, event: Event) -> io::Result<Box<dyn ReadCounter>>;
}

/// Opens all events that this user may open.
pub(super) fn open(options: &Options, opener: &dyn OpenEvent) -> (Vec<OpenZone>, Probe) {
    let (mut opened, mut findings) = (Vec::new(), Probe::default());
    let Some(events) = events::read(&options.event_root, &options.processor_root) else { return (opened, findings) };
    if !events.unusable.is_empty() {
        let why = format!("unusable perf events: {}", events.unusable.join("; "));
        findings.find("CPU", SOURCE, Status::Limited { why, fix: None });
    }
    let mut denied = None;
    for (zone, event) in events.zones {
        match opener.open(event) {
            Ok(counter) => opened.push((zone, counter)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => denied = Some(error),
            Err(error) => {
                let why = format!("cannot open the perf event {}: {error}", zone.energy_path.display());
                findings.find(format!("CPU {}", zone.label), SOURCE, Status::Absent { why, fix: None });
            }
        }
    }
    if let Some(error) = denied {
        let program = std::env::current_exe().ok();
        findings.find("CPU", SOURCE, denied_status(&error, &options.proc_root, program.as_deref()));
    }
    (opened, findings)
}

const FOR_ALL: &str = "sudo sysctl kernel.perf_event_paranoid=0";
const FOR_ERGO: &str = r#"sudo setcap cap_perfmon=ep "$(readlink -f "$(command -v ergo)")""#;

/// The finding for missing permission. `EACCES` comes from the kernel's setting, `EPERM` from a system call filter such
/// as that of a container. A capability belongs to a file: the program `ergo` can have it, but not a script or a link.
fn denied_status(error: &io::Error, proc_root: &Path, program: Option<&Path>) -> Status {
    const EPERM: i32 = 1;
    if error.raw_os_error() == Some(EPERM) {
        let why = "a system call filter denies perf events, probably that of a container".to_owned();
        return Status::Absent { why, fix: Some("docker run --cap-add PERFMON …".to_owned()) };
    }
    let setting = read_text(&proc_root.join("sys/kernel/perf_event_paranoid"))
        .map(|setting| format!(" (kernel.perf_event_paranoid is {setting})"))
        .unwrap_or_default();
    let is_ergo = program.and_then(Path::file_name).is_some_and(|name| name == "ergo");
    let (lasts, fix) = if is_ergo {
        (
            "the first fix is for all users until reboot, the second only for ergo",
            format!("{FOR_ALL}   or   {FOR_ERGO}"),
        )
    } else {
        ("the fix is for all users until reboot", FOR_ALL.to_owned())
    };
    Status::Absent { why: format!("no permission to open perf events{setting}; {lasts}"), fix: Some(fix) }
}

#[cfg(test)]
mod tests;
