//! RAPL by perf events, for where powercap is closed, absent or masked.
//!
//! In goes the folder of the event sources; out come open counters, one for each event and package (or die), and a
//! finding for what is there and cannot be opened. A machine without the source `power` gives nothing and is told
//! nothing. AMD's second source, `power_core`, is left alone: it counts single cores, which packages contain.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod event_file;
mod events;
#[cfg(test)]
mod fake;

use std::io;
use std::path::Path;

#[cfg(not(target_os = "linux"))]
pub(super) use self::elsewhere::Kernel;
#[cfg(target_os = "linux")]
pub(super) use self::event_file::Kernel;
use super::{Options, SOURCE};
use crate::counted::ReadCounter;
use crate::rapl::OpenZone;
use crate::sysfs::read_text;
use ergometer_telemetry::{Probe, Status};

/// The numbers that open an event on one processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    /// The number of the source, its `type`.
    pub(super) source: u32,
    /// The number of the event in it.
    pub(super) config: u64,
    /// The processor.
    pub(super) processor: u32,
}

/// Opens counting events.
pub(super) trait OpenEvent {
    /// Opens one; it counts from now on.
    fn open(&self, event: Event) -> io::Result<Box<dyn ReadCounter>>;
}

/// Opens what can be opened.
pub(super) fn open(options: &Options, opener: &dyn OpenEvent) -> (Vec<OpenZone>, Probe) {
    let (mut opened, mut told) = (Vec::new(), Probe::default());
    let Some(events) = events::read(&options.event_root, &options.processor_root) else { return (opened, told) };
    if !events.unusable.is_empty() {
        let why = format!("perf events that cannot be used: {}", events.unusable.join("; "));
        told.find("CPU", SOURCE, Status::Limited { why, fix: None });
    }
    let mut denied = None;
    for (zone, event) in events.zones {
        match opener.open(event) {
            Ok(counter) => opened.push((zone, counter)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => denied = Some(error),
            Err(error) => {
                let why = format!("cannot open the perf event {}: {error}", zone.energy_path.display());
                told.find(format!("CPU {}", zone.label), SOURCE, Status::Absent { why, fix: None });
            }
        }
    }
    if let Some(error) = denied {
        let program = std::env::current_exe().ok();
        told.find("CPU", SOURCE, closed(&error, &options.proc_root, program.as_deref()));
    }
    (opened, told)
}

const FOR_ALL: &str = "sudo sysctl kernel.perf_event_paranoid=0";
const FOR_ERGO: &str = r#"sudo setcap cap_perfmon=ep "$(readlink -f "$(command -v ergo)")""#;

/// `EACCES` is the kernel's setting, `EPERM` a filter of system calls, as containers have one. A capability is of a
/// file: it can be given to the program `ergo`, and not to a script that an interpreter runs, nor to a link.
fn closed(error: &io::Error, proc_root: &Path, program: Option<&Path>) -> Status {
    const EPERM: i32 = 1;
    if error.raw_os_error() == Some(EPERM) {
        let why = "perf events are refused by a filter of system calls, as a container has one".to_owned();
        return Status::Absent { why, fix: Some("docker run --cap-add PERFMON …".to_owned()) };
    }
    let setting = read_text(&proc_root.join("sys/kernel/perf_event_paranoid"))
        .map(|setting| format!(" (kernel.perf_event_paranoid is {setting})"))
        .unwrap_or_default();
    let is_ergo = program.and_then(Path::file_name).is_some_and(|name| name == "ergo");
    let (lasts, fix) = if is_ergo {
        (
            "the first fix is for all users until reboot, the second for ergo alone",
            format!("{FOR_ALL}   or   {FOR_ERGO}"),
        )
    } else {
        ("the fix is for all users until reboot", FOR_ALL.to_owned())
    };
    Status::Absent { why: format!("no permission to open perf events{setting}; {lasts}"), fix: Some(fix) }
}

#[cfg(test)]
mod tests;
