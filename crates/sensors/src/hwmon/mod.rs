//! Reads power meters and rails from Linux hwmon: ACPI meters (NVIDIA Grace), the shunts of Jetson and other Arm
//! boards, the sensors of Arm firmware, and AMD's energy counters.
//!
//! Each device has one sensor for power and one for energy, if it has them. Only chips with a known name are read. No
//! device has two channels of one scope, and a CPU that is already measured is skipped. A meter of a CPU or of the
//! machine that shows 0 W has no sensor, nor has a CPU counter that does not move while a processor is busy. More power
//! than the part can draw is an error. A machine without these chips gets no finding.

mod chip;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ergometer_diagnostics::{Message, hint};
use ergometer_telemetry::{
    Channel, DeviceId, DeviceKind, Probe, Provenance, Scope, Sensor, SensorInfo, Signal, Status,
};

use self::chip::{ChipChannel, Quantity, Subject, find};
use self::source::{OpenFile, Source, open};
use crate::counters::{Counters, is_stuck};
use crate::energy_counter::{BusyProcessors, EnergyCounter, Identity};
use crate::gauges::{Gauge, Gauges};
use crate::processor_time::ProcessorTime;
use crate::sysfs::Attribute;

/// Options of [`probe`].
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The folder of the hwmon class.
    pub root: PathBuf,
    /// The index of the first rail.
    pub first_rail: u32,
    /// The index of the first meter.
    pub first_meter: u32,
    /// The devices that other sensors measure. CPUs among them are skipped.
    pub measured: Vec<DeviceId>,
    /// The folder with the file `stat`, which shows whether the processors are busy.
    pub proc_root: PathBuf,
    /// The longest time for which a processor is kept busy to see a CPU counter move. A working one moves every
    /// millisecond.
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
    /// The options for a machine that already has these sensors.
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

/// Jetson's shunts and Grace's meters update every 50 to 100 ms, and a read over I2C takes a millisecond.
const INTERVAL: Duration = Duration::from_millis(100);
/// The number of samples (1 s) between two checks whether each CPU counter moved.
const WATCH_SAMPLES: u32 = 10;

/// The error when all files of a device are gone.
fn gone() -> Message {
    Message::new("its hwmon files are gone").with_hint(hint!("check that the driver of the sensor is loaded"))
}

/// Opens the known power meters and rails.
///
/// ```
/// let probe = ergometer_sensors::hwmon::probe(&Default::default());
/// assert!(probe.sensors.is_empty() || !probe.findings.is_empty(), "every sensor has a finding");
/// ```
#[must_use]
pub fn probe(options: &Options) -> Probe {
    probe_with(options, &Attribute::open)
}

fn probe_with(options: &Options, open: OpenFile<'_>) -> Probe {
    let mut search = Search { options, open, probe: Probe::default(), devices: BTreeMap::new(), denied: Vec::new() };
    // Without the folder there are no such chips.
    for (device, scope, found) in assign_devices(find(&options.root).unwrap_or_default(), options) {
        search.add(device, scope, found);
    }
    search.finish()
}

/// Assigns a device to each channel. Devices that are already measured and second channels of one part are skipped.
fn assign_devices(all: Vec<ChipChannel>, options: &Options) -> Vec<(DeviceId, Scope, ChipChannel)> {
    let (mut rails, mut meters) = (options.first_rail.., options.first_meter..);
    let mut numbered: Vec<(DeviceId, Scope, ChipChannel)> = Vec::new();
    for found in all {
        let is_energy = |found: &ChipChannel| matches!(found.quantity, Quantity::Energy { .. });
        let (device, scope) = match found.subject {
            Subject::Socket { number, scope } => (DeviceId::cpu(number), scope),
            Subject::Supply => (meters.next().map_or(DeviceId::meter(0), DeviceId::meter), Scope::Psys),
            Subject::Rail => {
                // Power and energy with the same label and chip belong to one rail.
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

/// The channels that were opened so far.
struct Search<'a> {
    options: &'a Options,
    open: OpenFile<'a>,
    probe: Probe,
    devices: BTreeMap<DeviceId, DeviceChannels>,
    denied: Vec<PathBuf>,
}

/// The open channels of one device.
#[derive(Default)]
struct DeviceChannels {
    gauges: Vec<Gauge>,
    counters: Vec<(Channel, EnergyCounter)>,
    labels: Vec<String>,
    chip: String,
}

impl Search<'_> {
    fn add(&mut self, device: DeviceId, scope: Scope, found: ChipChannel) {
        let channel = channel(device, scope, &found.quantity);
        let why = match open(&found.quantity, scope, self.open) {
            Ok(Source::Gauge(mut source)) => match source.read() {
                Ok(Some(watts)) if watts == 0.0 && scope != Scope::Rail => {
                    "the meter shows 0 W and is probably not connected".to_owned()
                }
                Ok(_) => {
                    let gauge = Gauge { channel, what: format!("power of {}", found.label), source };
                    let opened = self.channels_of(device, found);
                    opened.gauges.push(gauge);
                    return;
                }
                Err(error) => format!("cannot read the sensor: {error}"),
            },
            Ok(Source::Counter(mut file, limits)) => {
                // A rail need not draw power.
                let watch = if device.kind == DeviceKind::Cpu { self.options.watch } else { Duration::ZERO };
                match is_stuck(&mut *file, watch) {
                    Ok(true) => "the counter does not change although a CPU is busy".to_owned(),
                    Ok(false) => {
                        let identity = Identity { label: found.label.clone(), device };
                        let opened = self.channels_of(device, found);
                        opened.counters.push((channel, EnergyCounter::new(identity, limits, file)));
                        return;
                    }
                    Err(error) => format!("cannot read the sensor: {error}"),
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

    fn channels_of(&mut self, device: DeviceId, found: ChipChannel) -> &mut DeviceChannels {
        let opened = self.devices.entry(device).or_default();
        if !opened.labels.contains(&found.label) {
            opened.labels.push(found.label);
        }
        opened.chip = found.chip;
        opened
    }

    /// Creates the sensors, with one finding for all rails and one for each other device.
    fn finish(mut self) -> Probe {
        let mut rails = Vec::new();
        for (device, opened) in self.devices {
            if device.kind == DeviceKind::Rail {
                rails.push(format!("{device} {}", opened.labels.join(", ")));
            } else {
                let name = format!("{} ({device})", opened.labels[0]);
                self.probe.find(name, opened.chip.clone(), Status::Works(describe(&opened)));
            }
            opened.into_sensors(device, &self.options.proc_root, &mut self.probe);
        }
        if !rails.is_empty() {
            let text = format!(
                "power every 100 ms of {}; a rail may include other rails, so they are never summed",
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

impl DeviceChannels {
    fn into_sensors(self, device: DeviceId, proc_root: &Path, probe: &mut Probe) {
        let name = self.labels.join(", ");
        let info = |id: String| SensorInfo { id, name: name.clone(), device, interval: INTERVAL };
        if !self.gauges.is_empty() {
            probe.sensors.push(Box::new(Gauges::new(info(format!("hwmon-{device}")), self.gauges, gone())));
        }
        if !self.counters.is_empty() {
            let mut counters = Counters::new(info(format!("hwmon-energy-{device}")), self.counters, gone());
            if device.kind == DeviceKind::Cpu {
                let time = ProcessorTime::open(proc_root).ok();
                counters = counters.moved_by(BusyProcessors::new(time, WATCH_SAMPLES));
            }
            probe.sensors.push(Box::new(counters));
        }
    }
}

fn describe(opened: &DeviceChannels) -> String {
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
            "the whole machine"
        } else {
            "the module, without the rest of the board"
        };
        return format!("{how} of {what}{often}; includes the packages, do not add them");
    }
    format!("{how} of {}{often}", scopes.join(", "))
}

fn channel(device: DeviceId, scope: Scope, quantity: &Quantity) -> Channel {
    let (signal, provenance, update_period) = match *quantity {
        Quantity::Power { period, .. } | Quantity::Product { period, .. } => {
            (Signal::PowerInstant, Provenance::SampledPower, period)
        }
        // A mean over some time updates after that time.
        Quantity::Average { over, .. } => (Signal::PowerAverage, Provenance::AveragedPower, over),
        Quantity::Energy { period, .. } => (Signal::Energy, Provenance::Counter, period),
    };
    Channel { device, scope, signal, provenance, update_period }
}
