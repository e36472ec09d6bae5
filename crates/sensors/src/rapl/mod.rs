//! RAPL: the energy counters of CPU packages, their parts and the platform, by Linux powercap or by perf events.
//!
//! In go the folder of the powercap class and that of the event sources; out come one sensor for each package (or die)
//! and one for the platform, and a finding for everything that is missing, with its remedy. Perf events are opened
//! where no counter of powercap can be. What always holds: no energy has two channels with the same scope (the
//! `intel-rapl-mmio` view and mirrored dies are left out), and a counter that does not move while a processor spins is
//! no sensor. Psys contains the packages and packages contain core and uncore: whoever sums
//! chooses disjoint scopes.

mod counter_file;
#[cfg(test)]
mod fake;
mod liveness;
mod perf;
mod powercap;
mod sensor;
mod zone;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use self::counter_file::{OpenCounter, Sysfs};
use self::liveness::{Verdict, watch};
use self::perf::{Kernel, OpenEvent};
use self::sensor::of_zones;
use self::zone::{Counts, Zone};
use super::counted::ReadCounter;
use super::processor_time::ProcessorTime;
use ergometer_telemetry::{DeviceId, Probe, Scope, Status};

/// Where to look, and for how long.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The folder of the powercap class.
    pub root: PathBuf,
    /// The folder of the sources of perf events.
    pub event_root: PathBuf,
    /// The folder of the processors, which says to which package each belongs.
    pub processor_root: PathBuf,
    /// The folder of `stat`, which says whether the processors are busy.
    pub proc_root: PathBuf,
    /// The driver to load where there is no counter; `None` on machines that have none, where nothing is said of it.
    pub driver: Option<&'static str>,
    /// How long a processor is kept busy to see the counters move. Live ones move every millisecond.
    pub watch: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            root: PathBuf::from("/sys/class/powercap"),
            event_root: PathBuf::from("/sys/bus/event_source/devices"),
            processor_root: PathBuf::from("/sys/devices/system/cpu"),
            proc_root: PathBuf::from("/proc"),
            driver: DRIVER,
            watch: Duration::from_millis(50),
        }
    }
}

/// A zone and its counter.
type OpenZone = (Zone, Box<dyn ReadCounter>);

const SOURCE: &str = "RAPL";

/// Only processors of Intel and AMD count so, and only Linux shows it.
const DRIVER: Option<&str> = if cfg!(all(target_os = "linux", any(target_arch = "x86", target_arch = "x86_64"))) {
    Some("intel_rapl_msr")
} else {
    None
};

/// Looks for RAPL. Keeps one processor busy for [`Options::watch`] where there are counters.
///
/// ```
/// use ergometer_sensors::rapl;
/// let options = rapl::Options::default();
/// let probe = rapl::probe(&options);
/// assert!(options.driver.is_none() || !probe.findings.is_empty(), "what is missing is said too");
/// ```
#[must_use]
pub fn probe(options: &Options) -> Probe {
    probe_with(options, &Sysfs, &Kernel)
}

fn probe_with(options: &Options, counters: &dyn OpenCounter, events: &dyn OpenEvent) -> Probe {
    let mut powercap = powercap::open(options, counters);
    let opened = std::mem::take(&mut powercap.opened);
    if !opened.is_empty() {
        let mut probe = powercap.told;
        probe.extend(live_sensors(opened, options));
        return probe;
    }
    let (opened, told) = perf::open(options, events);
    let mut by_perf = live_sensors(opened, options);
    by_perf.extend(told);
    if by_perf.sensors.is_empty() {
        powercap.told.extend(by_perf);
        return powercap.told;
    }
    // One or the other, never zone by zone: what powercap would have is told where it is more.
    let has = |zone: &&Zone| {
        let mut channels = by_perf.sensors.iter().flat_map(|sensor| sensor.channels());
        channels.any(|channel| (channel.device, channel.scope) == (zone.device, zone.scope))
    };
    let missing: Vec<&str> = powercap.denied.iter().filter(|zone| !has(zone)).map(|zone| zone.label.as_str()).collect();
    if !missing.is_empty() {
        let why = format!(
            "powercap would add {}, but there is no permission to read it; the fix lasts until reboot",
            missing.join(", ")
        );
        by_perf.find("CPU", SOURCE, Status::Limited { why, fix: powercap.permission() });
    }
    by_perf
}

/// A sensor for each device of which a counter is alive, and what is said of those that are not.
fn live_sensors(opened: Vec<OpenZone>, options: &Options) -> Probe {
    let mut probe = Probe::default();
    let mut devices: BTreeMap<DeviceId, Vec<OpenZone>> = BTreeMap::new();
    for (zone, file, verdict) in watch(opened, options.watch) {
        let why = match verdict {
            Verdict::Alive => {
                devices.entry(zone.device).or_default().push((zone, file));
                continue;
            }
            Verdict::Stuck => format!(
                "counter{} does not move though a processor is busy (a virtual machine may show counters that nothing feeds)",
                zone.counts.by()
            ),
            Verdict::MirrorOf(label) => format!("counter repeats that of {label} and is not counted twice"),
            Verdict::Unreadable(error) => format!("cannot read {}: {error}", zone.energy_path.display()),
        };
        probe.find(format!("CPU {}", zone.label), SOURCE, Status::Absent { why, fix: None });
    }
    for (device, zones) in devices {
        probe.find(format!("CPU {} ({device})", zones[0].0.label), SOURCE, describe(&zones));
        let activity = ProcessorTime::open(&options.proc_root).ok();
        probe.sensors.push(Box::new(of_zones(device, zones, activity)));
    }
    probe
}

fn describe(zones: &[OpenZone]) -> Status {
    let scopes: Vec<String> = zones.iter().map(|(zone, _)| zone.scope.to_string()).collect();
    let gives = format!("energy counter of {}{}, updated every 1 ms", scopes.join(", "), zones[0].0.counts.by());
    if zones.iter().all(|(zone, _)| zone.counts != Counts::Microjoules { range: None }) {
        let contains = if zones[0].0.scope == Scope::Psys { "; contains the packages, never add them" } else { "" };
        return Status::Works(format!("{gives}{contains}"));
    }
    let why = format!("{gives}; max_energy_range_uj is missing, so a wrap cannot be told from a reset and loses 50 ms");
    Status::Limited { why, fix: None }
}

#[cfg(test)]
mod tests;
