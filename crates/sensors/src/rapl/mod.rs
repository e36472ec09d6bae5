//! Reads RAPL, the energy counters of CPU packages, their parts and the platform, through powercap or perf events.
//!
//! Each package (or die) has a sensor, and the platform has one. Perf events are used only if no powercap counter can
//! be opened. No energy has two channels with the same scope: the `intel-rapl-mmio` view and mirrored dies are skipped.
//! A counter that does not move while a processor is busy has no sensor. Psys includes the packages, and a package
//! includes core and uncore, so a sum must use disjoint scopes.

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

use ergometer_telemetry::{DeviceId, Probe, Scope, Status};

use self::counter_file::{OpenCounter, Sysfs};
use self::liveness::{Verdict, watch};
use self::perf::{Kernel, OpenEvent};
use self::sensor::open_sensor;
use self::zone::{Counts, Zone};
use crate::energy_counter::ReadCounter;
use crate::processor_time::ProcessorTime;

/// Options of [`probe`].
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The folder of the powercap class.
    pub root: PathBuf,
    /// The folder of the perf event sources.
    pub event_root: PathBuf,
    /// The folder of the processors, with their packages.
    pub processor_root: PathBuf,
    /// The folder with the file `stat`, which shows whether the processors are busy.
    pub proc_root: PathBuf,
    /// The driver to suggest if there is no counter. `None` on machines without RAPL, which get no finding.
    pub driver: Option<&'static str>,
    /// How long a processor is kept busy to see the counters move. A working counter moves every millisecond.
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

/// Only Intel and AMD processors have RAPL, and only Linux shows it.
const DRIVER: Option<&str> = if cfg!(all(target_os = "linux", any(target_arch = "x86", target_arch = "x86_64"))) {
    Some("intel_rapl_msr")
} else {
    None
};

/// Opens the RAPL counters. If there are any, one processor is kept busy for [`Options::watch`].
///
/// ```
/// use ergometer_sensors::rapl;
/// let options = rapl::Options::default();
/// let probe = rapl::probe(&options);
/// assert!(options.driver.is_none() || !probe.findings.is_empty(), "a missing counter is a finding, too");
/// ```
#[must_use]
pub fn probe(options: &Options) -> Probe {
    probe_with(options, &Sysfs, &Kernel)
}

fn probe_with(options: &Options, counters: &dyn OpenCounter, events: &dyn OpenEvent) -> Probe {
    let mut powercap = powercap::open(options, counters);
    let opened = std::mem::take(&mut powercap.opened);
    if !opened.is_empty() {
        let mut probe = powercap.findings;
        probe.extend(live_sensors(opened, options));
        return probe;
    }
    let (opened, findings) = perf::open(options, events);
    let mut by_perf = live_sensors(opened, options);
    by_perf.extend(findings);
    if by_perf.sensors.is_empty() {
        powercap.findings.extend(by_perf);
        return powercap.findings;
    }
    // Either powercap or perf events, never both. A finding names the zones that only powercap has.
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

/// Opens a sensor for each device with a working counter, and adds a finding for each counter that does not work.
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
                "the counter{} does not change although a CPU is busy; a virtual machine may hide the real counter",
                zone.counts.suffix()
            ),
            Verdict::MirrorOf(label) => format!("the counter is a copy of {label} and is not counted twice"),
            Verdict::Unreadable(error) => format!("cannot read {}: {error}", zone.energy_path.display()),
        };
        probe.find(format!("CPU {}", zone.label), SOURCE, Status::Absent { why, fix: None });
    }
    for (device, zones) in devices {
        probe.find(format!("CPU {} ({device})", zones[0].0.label), SOURCE, describe(&zones));
        let activity = ProcessorTime::open(&options.proc_root).ok();
        probe.sensors.push(Box::new(open_sensor(device, zones, activity)));
    }
    probe
}

fn describe(zones: &[OpenZone]) -> Status {
    let scopes: Vec<String> = zones.iter().map(|(zone, _)| zone.scope.to_string()).collect();
    let gives = format!("energy counter of {}{}, updated every 1 ms", scopes.join(", "), zones[0].0.counts.suffix());
    if zones.iter().all(|(zone, _)| zone.counts != Counts::Microjoules { range: None }) {
        let contains = if zones[0].0.scope == Scope::Psys { "; includes the packages, do not add them" } else { "" };
        return Status::Works(format!("{gives}{contains}"));
    }
    let why = format!(
        "{gives}; max_energy_range_uj is missing, so when the counter overflows, the energy of up to 50 ms is lost"
    );
    Status::Limited { why, fix: None }
}

#[cfg(test)]
mod tests;
