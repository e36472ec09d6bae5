//! Power meters and rails by Linux hwmon: ACPI's meters (NVIDIA Grace), the shunts of Jetson and other Arm boards, what
//! an Arm machine's firmware measures, and AMD's energy counters.
//!
//! In goes the folder of the class; out come one sensor of power and one of energy for each device that has it. What
//! always holds: only chips known by name are read; no device has two channels of one scope; a CPU that is measured
//! already is left alone; a meter of a CPU or of the machine that shows 0 W is no sensor, nor is a counter of a CPU that
//! does not move while a processor spins; more power than the part can draw is an error. A machine without any of these chips is told nothing.

mod chip;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::chip::{Found, Quantity, Subject, find};
use self::source::{OpenFile, Source, open};
use super::counted::{BusyProcessors, CountedEnergy, Identity};
use super::counters::{Counters, stands_still};
use super::gauges::{Gauge, Gauges};
use super::processor_time::ProcessorTime;
use super::sysfs::Attribute;
use ergometer_telemetry::{
    Channel, DeviceId, DeviceKind, Probe, Provenance, Scope, Sensor, SensorInfo, Signal, Status,
};

/// Where to look, and what is known already.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The folder of the hwmon class.
    pub root: PathBuf,
    /// The first free number of a rail.
    pub first_rail: u32,
    /// The first free number of a meter.
    pub first_meter: u32,
    /// The devices that other sensors measure: CPUs among them are left alone.
    pub measured: Vec<DeviceId>,
    /// The folder of `stat`, which says whether the processors are busy.
    pub proc_root: PathBuf,
    /// How long, at most, a processor is kept busy to see a counter of a CPU move. Live ones move every millisecond.
    pub watch: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            root: PathBuf::from("/sys/class/hwmon"),
            first_rail: 0,
            first_meter: 0,
            measured: Vec::new(),
            proc_root: PathBuf::from("/proc"),
            watch: Duration::from_millis(50),
        }
    }
}

impl Options {
    /// For a machine that has these sensors already.
    #[must_use]
    pub fn beside(sensors: &[Box<dyn Sensor>]) -> Self {
        let measures = |channel: &&Channel| !matches!(channel.provenance, Provenance::Modelled | Provenance::Gauge);
        let channels = sensors.iter().flat_map(|sensor| sensor.channels()).filter(measures);
        Self {
            first_rail: super::next_index(sensors, DeviceKind::Rail),
            first_meter: super::next_index(sensors, DeviceKind::Meter),
            measured: channels.map(|channel| channel.device).collect(),
            ..Self::default()
        }
    }
}

/// Jetson's shunts and Grace's meters are new every 50 to 100 ms, and a read over I2C takes a millisecond.
const INTERVAL: Duration = Duration::from_millis(100);
/// Every so many samples (1 s) each counter of a CPU is asked whether it moved.
const WATCH_SAMPLES: u32 = 10;
const GONE: &str = "its files in hwmon are gone (was its driver unloaded?)";

/// Looks for meters and rails.
///
/// ```
/// let probe = ergometer_sensors::hwmon::probe(&Default::default());
/// assert!(probe.sensors.is_empty() || !probe.findings.is_empty(), "what there is, is said");
/// ```
#[must_use]
pub fn probe(options: &Options) -> Probe {
    probe_with(options, &Attribute::open)
}

fn probe_with(options: &Options, open: OpenFile<'_>) -> Probe {
    let mut look = Look { options, open, probe: Probe::default(), devices: BTreeMap::new(), denied: Vec::new() };
    // Without the class there is no hardware of this kind.
    for (device, scope, found) in numbered(find(&options.root).unwrap_or_default(), options) {
        look.take(device, scope, found);
    }
    look.finish()
}

/// Gives each channel its device. What is measured already is left out, and so is a second channel of one part.
fn numbered(all: Vec<Found>, options: &Options) -> Vec<(DeviceId, Scope, Found)> {
    let (mut rails, mut meters) = (options.first_rail.., options.first_meter..);
    let mut numbered: Vec<(DeviceId, Scope, Found)> = Vec::new();
    for found in all {
        let is_energy = |found: &Found| matches!(found.quantity, Quantity::Energy { .. });
        let (device, scope) = match found.subject {
            Subject::Socket { number, scope } => (DeviceId::cpu(number), scope),
            Subject::Supply => (meters.next().map_or(DeviceId::meter(0), DeviceId::meter), Scope::Psys),
            Subject::Rail => {
                // Power and energy by one name and chip are of one rail.
                let same = numbered.iter().find(|(_, scope, other)| {
                    let alike = (&other.label, &other.chip) == (&found.label, &found.chip);
                    *scope == Scope::Rail && alike && is_energy(other) != is_energy(&found)
                });
                let device =
                    same.map_or_else(|| rails.next().map_or(DeviceId::rail(0), DeviceId::rail), |(device, ..)| *device);
                (device, Scope::Rail)
            }
        };
        let is_taken = numbered.iter().any(|(other, part, present)| {
            (*other, *part) == (device, scope) && is_energy(present) == is_energy(&found)
        });
        if !is_taken && !options.measured.contains(&device) {
            numbered.push((device, scope, found));
        }
    }
    numbered
}

/// What a look has found so far.
struct Look<'a> {
    options: &'a Options,
    open: OpenFile<'a>,
    probe: Probe,
    devices: BTreeMap<DeviceId, Opened>,
    denied: Vec<PathBuf>,
}

/// The open channels of one device.
#[derive(Default)]
struct Opened {
    gauges: Vec<Gauge>,
    counters: Vec<(Channel, CountedEnergy)>,
    labels: Vec<String>,
    chip: String,
}

impl Look<'_> {
    fn take(&mut self, device: DeviceId, scope: Scope, found: Found) {
        let channel = channel(device, scope, &found.quantity);
        let why = match open(&found.quantity, scope, self.open) {
            Ok(Source::Gauge(mut source)) => match source.read() {
                Ok(Some(watts)) if watts == 0.0 && scope != Scope::Rail => {
                    "it shows 0 W, so nothing feeds it".to_owned()
                }
                Ok(_) => {
                    let gauge = Gauge { channel, what: format!("power of {}", found.label), source };
                    let opened = self.opened(device, found);
                    opened.gauges.push(gauge);
                    return;
                }
                Err(error) => format!("cannot read it: {error}"),
            },
            Ok(Source::Counter(mut file, limits)) => {
                // Nothing says when a rail has to draw.
                let watch = if device.kind == DeviceKind::Cpu { self.options.watch } else { Duration::ZERO };
                match stands_still(&mut *file, watch) {
                    Ok(true) => "its counter does not move though a processor is busy".to_owned(),
                    Ok(false) => {
                        let identity = Identity { label: found.label.clone(), device };
                        let opened = self.opened(device, found);
                        opened.counters.push((channel, CountedEnergy::new(identity, limits, file)));
                        return;
                    }
                    Err(error) => format!("cannot read it: {error}"),
                }
            }
            Err((path, error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.denied.push(path);
                return;
            }
            Err((path, error)) => format!("cannot open {}: {error}", path.display()),
        };
        self.probe.find(format!("{} ({device})", found.label), found.chip, Status::Absent { why, fix: None });
    }

    fn opened(&mut self, device: DeviceId, found: Found) -> &mut Opened {
        let opened = self.devices.entry(device).or_default();
        if !opened.labels.contains(&found.label) {
            opened.labels.push(found.label);
        }
        opened.chip = found.chip;
        opened
    }

    /// Makes the sensors, and says what there is: rails in one line, everything else in one each.
    fn finish(mut self) -> Probe {
        let mut rails = Vec::new();
        for (device, opened) in self.devices {
            if device.kind == DeviceKind::Rail {
                rails.push(format!("{device} {}", opened.labels.join(", ")));
            } else {
                let name = format!("{} ({device})", opened.labels[0]);
                self.probe.find(name, opened.chip.clone(), Status::Works(describe(&opened)));
            }
            opened.make_sensors(device, &self.options.proc_root, &mut self.probe);
        }
        if !rails.is_empty() {
            let text = format!(
                "power every 100 ms of {}; which rails contain others is not known, so they are never summed",
                rails.join(", ")
            );
            self.probe.find("rails", "hwmon", Status::Works(text));
        }
        if let Some(first) = self.denied.first() {
            let others =
                if self.denied.len() > 1 { format!(" and {} others", self.denied.len() - 1) } else { String::new() };
            let why = format!("no permission to read {}{others}; the fix lasts until reboot", first.display());
            let paths: Vec<String> = self.denied.iter().map(|path| path.display().to_string()).collect();
            let fix = Some(format!("sudo chmod a+r {}", paths.join(" ")));
            self.probe.find("CPU", "hwmon", Status::Absent { why, fix });
        }
        self.probe
    }
}

impl Opened {
    fn make_sensors(self, device: DeviceId, proc_root: &Path, probe: &mut Probe) {
        let name = self.labels.join(", ");
        let info = |id: String| SensorInfo { id, name: name.clone(), device, interval: INTERVAL };
        if !self.gauges.is_empty() {
            probe.sensors.push(Box::new(Gauges::new(info(format!("hwmon-{device}")), self.gauges, GONE)));
        }
        if !self.counters.is_empty() {
            let mut counters = Counters::new(info(format!("hwmon-energy-{device}")), self.counters, GONE);
            if device.kind == DeviceKind::Cpu {
                let time = ProcessorTime::open(proc_root).ok();
                counters = counters.moved_by(BusyProcessors::new(time, WATCH_SAMPLES));
            }
            probe.sensors.push(Box::new(counters));
        }
    }
}

fn describe(opened: &Opened) -> String {
    let channels = || opened.gauges.iter().map(|gauge| &gauge.channel).chain(opened.counters.iter().map(|(it, _)| it));
    let scopes: Vec<String> = channels().map(|channel| channel.scope.to_string()).collect();
    let how = match channels().next() {
        Some(channel) if channel.signal == Signal::Energy => "energy counter",
        Some(channel) if channel.signal == Signal::PowerAverage => "mean power",
        _ => "power",
    };
    let period = channels().find_map(|channel| channel.update_period);
    let often = period.map_or_else(
        || ", read every 100 ms".to_owned(),
        |period| format!(", updated every {:.0} ms", period.as_millis()),
    );
    if channels().any(|channel| channel.scope == Scope::Psys) {
        let what = if opened.chip == "power_meter" {
            "all that the supply feeds"
        } else {
            "the module, without what else its board feeds"
        };
        return format!("{how} of {what}{often}; contains the packages, never add them");
    }
    format!("{how} of {}{often}", scopes.join(", "))
}

fn channel(device: DeviceId, scope: Scope, quantity: &Quantity) -> Channel {
    let (signal, provenance, update_period) = match *quantity {
        Quantity::Power { period, .. } | Quantity::Product { period, .. } => {
            (Signal::PowerInstant, Provenance::SampledPower, period)
        }
        // A mean over some time is new after that time.
        Quantity::Average { over, .. } => (Signal::PowerAverage, Provenance::AveragedPower, over),
        Quantity::Energy { period, .. } => (Signal::Energy, Provenance::Counter, period),
    };
    Channel { device, scope, signal, provenance, update_period }
}
