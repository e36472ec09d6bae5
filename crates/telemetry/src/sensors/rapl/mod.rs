//! RAPL: the energy counters of CPU packages, their parts and the platform, by Linux powercap.
//!
//! In goes the folder of the powercap class; out come one sensor for each package (or die) and one for the platform,
//! and a finding for everything that is missing, with its remedy. What always holds: no energy has two channels with
//! the same scope (the `intel-rapl-mmio` view and mirrored dies are left out), and a counter that does not move while
//! a processor spins is no sensor. Psys contains the packages and packages contain core and uncore: whoever sums
//! chooses disjoint scopes.

mod counter_file;
#[cfg(test)]
mod fake;
mod liveness;
mod sensor;
mod zone;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::counter_file::{OpenCounter, Sysfs};
use self::liveness::{Verdict, watch};
use self::sensor::Rapl;
use self::zone::{Tree, Zone, read_tree};
use super::counted::ReadCounter;
use super::processor_time::ProcessorTime;
use crate::{DeviceId, Probe, Scope, Status};

/// Where to look, and for how long.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The folder of the powercap class.
    pub root: PathBuf,
    /// The folder of `stat`, which says whether the processors are busy.
    pub proc_root: PathBuf,
    /// How long a processor is kept busy to see the counters move. Live ones move every millisecond.
    pub watch: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            root: PathBuf::from("/sys/class/powercap"),
            proc_root: PathBuf::from("/proc"),
            watch: Duration::from_millis(50),
        }
    }
}

/// A zone and its counter.
type OpenZone = (Zone, Box<dyn ReadCounter>);

const SOURCE: &str = "RAPL";
const LOAD_DRIVER: &str = "sudo modprobe intel_rapl_msr";

/// Looks for RAPL. Keeps one processor busy for [`Options::watch`] where there are counters.
///
/// ```
/// let probe = ergometer_telemetry::sensors::rapl::probe(&Default::default());
/// assert!(!probe.findings.is_empty(), "what is missing is said too");
/// ```
#[must_use]
pub fn probe(options: &Options) -> Probe {
    probe_with(options, &Sysfs)
}

fn probe_with(options: &Options, opener: &dyn OpenCounter) -> Probe {
    let mut probe = Probe::default();
    let tree = match read_tree(&options.root) {
        Ok(tree) => tree,
        Err(error) => {
            probe.find("CPU", SOURCE, absent_tree(&options.root, &error));
            return probe;
        }
    };
    tell_about_tree(&tree, &options.root, &mut probe);
    let opened = open_zones(tree.zones, opener, &mut probe);
    let mut devices: BTreeMap<DeviceId, Vec<OpenZone>> = BTreeMap::new();
    for (zone, file, verdict) in watch(opened, options.watch) {
        let why = match verdict {
            Verdict::Alive => {
                devices.entry(zone.device).or_default().push((zone, file));
                continue;
            }
            Verdict::Stuck => {
                "counter does not move though a processor is busy (a virtual machine may show counters that nothing feeds)".to_owned()
            }
            Verdict::MirrorOf(label) => format!("counter repeats that of {label} and is not counted twice"),
            Verdict::Unreadable(error) => format!("cannot read {}: {error}", zone.energy_path.display()),
        };
        probe.find(format!("CPU {}", zone.label), SOURCE, Status::Absent { why, fix: None });
    }
    for (device, zones) in devices {
        probe.find(format!("CPU {} ({device})", zones[0].0.label), SOURCE, describe(&zones));
        let activity = ProcessorTime::open(&options.proc_root).ok();
        probe.sensors.push(Box::new(Rapl::new(device, zones, activity)));
    }
    probe
}

fn absent_tree(root: &Path, error: &io::Error) -> Status {
    if error.kind() != io::ErrorKind::NotFound {
        return Status::Absent { why: format!("cannot list {}: {error}", root.display()), fix: None };
    }
    if !cfg!(target_os = "linux") {
        return Status::Absent { why: "RAPL is read on Linux only".to_owned(), fix: None };
    }
    Status::Absent {
        why: format!(
            "there is no {}: no RAPL driver is loaded, or this is a virtual machine without one",
            root.display()
        ),
        fix: Some(LOAD_DRIVER.to_owned()),
    }
}

fn tell_about_tree(tree: &Tree, root: &Path, probe: &mut Probe) {
    if !tree.masked.is_empty() {
        let why = format!("{} hold nothing: a container masks them", tree.masked.join(", "));
        let fix = Some("docker run --security-opt systempaths=unconfined …".to_owned());
        probe.find("CPU", SOURCE, Status::Absent { why, fix });
    } else if tree.zones.is_empty() && tree.unknown.is_empty() {
        let why = format!("{} has no intel-rapl zone: the driver is not loaded", root.display());
        probe.find("CPU", SOURCE, Status::Absent { why, fix: Some(LOAD_DRIVER.to_owned()) });
    }
    if !tree.unknown.is_empty() {
        let why = format!("{}, which is no zone known here", tree.unknown.join(", "));
        probe.find("CPU", SOURCE, Status::Limited { why, fix: None });
    }
    if !tree.mirrors.is_empty() {
        let text = format!("{} repeat zones that are read already and are not counted twice", tree.mirrors.join(", "));
        probe.find("CPU", "RAPL mirrors", Status::Works(text));
    }
}

/// Opens what can be opened. All that is denied is one finding, since one command mends it.
fn open_zones(zones: Vec<Zone>, opener: &dyn OpenCounter, probe: &mut Probe) -> Vec<OpenZone> {
    let mut opened = Vec::new();
    let mut denied = Vec::new();
    for zone in zones {
        match opener.open(&zone.energy_path) {
            Ok(file) => opened.push((zone, file)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => denied.push(zone),
            Err(error) => {
                let why = format!("cannot open {}: {error}", zone.energy_path.display());
                probe.find(format!("CPU {}", zone.label), SOURCE, Status::Absent { why, fix: None });
            }
        }
    }
    if let Some(first) = denied.first() {
        let others = if denied.len() > 1 { format!(" and {} others", denied.len() - 1) } else { String::new() };
        let why = format!(
            "no permission to read {}{others} (root only by default); the fix lasts until reboot",
            first.energy_path.display()
        );
        // The class folder holds a link per zone and sub-zone, so that this glob reaches every counter and nothing
        // else. `chmod -R` on the class folder would not: it follows no link that it meets on its way.
        let class = first.energy_path.parent().and_then(Path::parent).unwrap_or(Path::new("/sys/class/powercap"));
        let fix = Some(format!("sudo chmod a+r {}/intel-rapl*:*/energy_uj", class.display()));
        probe.find("CPU", SOURCE, Status::Absent { why, fix });
    }
    opened
}

fn describe(zones: &[OpenZone]) -> Status {
    let scopes: Vec<String> = zones.iter().map(|(zone, _)| zone.scope.to_string()).collect();
    let gives = format!("energy counter of {}, updated every 1 ms", scopes.join(", "));
    if zones.iter().all(|(zone, _)| zone.range_uj.is_some()) {
        let contains = if zones[0].0.scope == Scope::Psys { "; contains the packages, never add them" } else { "" };
        return Status::Works(format!("{gives}{contains}"));
    }
    let why = format!("{gives}; max_energy_range_uj is missing, so a wrap cannot be told from a reset and loses 50 ms");
    Status::Limited { why, fix: None }
}

#[cfg(test)]
mod tests;
