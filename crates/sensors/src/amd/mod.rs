//! AMD GPUs, by the files of the amdgpu driver: hwmon, sysfs and the table `gpu_metrics`.
//!
//! In goes the folder of the DRM class; out come per GPU a sensor of its gauges and power and, where there is a counter
//! that can be trusted, one of its energy, and what `ergo doctor` says about both. AMD's library (amdsmi) reads the
//! same files and is not needed.
//!
//! What always holds: a counter whose layout or unit is not certain is not read; one that stands still is called stuck
//! and leaves the word to power; a GPU that sleeps is not woken. Of a chip that holds processors and graphics, power is
//! that of all of it: it is told as the module of `cpu:0`, which sums leave out where a package is measured.

mod card;
mod energy;
#[cfg(all(test, unix))]
mod fake;
mod files;
mod gpu_info;
mod metrics;
mod throttle;

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use ergometer_units::Seconds;

use self::card::{Card, find_cards};
use self::energy::{Activity, NoCounter, open_counter, stands_still};
use self::files::{Found, find_gauges, read_whole};
use super::gauges::{Gauge, Gauges};
use super::gpu_energy::{GpuCounter, GpuEnergy};
use super::while_awake::WhileAwake;
use ergometer_telemetry::{DeviceId, Probe, Scope, Sensor, SensorInfo, Status};

pub use gpu_info::system_gpus;

/// Where to look, and how to number what is found.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The folder of the DRM class.
    pub root: PathBuf,
    /// The file with the version of a driver that did not come with the kernel.
    pub driver_version: PathBuf,
    /// The number of the first GPU: those of other makes may come before.
    pub first_gpu: u32,
    /// How long a counter has, at most, to show that it moves. Live ones move every few milliseconds.
    pub watch: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            root: PathBuf::from("/sys/class/drm"),
            driver_version: PathBuf::from("/sys/module/amdgpu/version"),
            first_gpu: 0,
            watch: Duration::from_millis(200),
        }
    }
}

/// The firmware answers a read of power in up to a millisecond.
const INTERVAL: Duration = Duration::from_millis(100);
/// Twice as often as power: a read makes the firmware write a table of up to 4 KB, which takes it up to a millisecond.
const ENERGY_INTERVAL: Duration = Duration::from_millis(50);
const GAUGES: &str = "amdgpu";
const ENERGY: &str = "energy counter";
const GONE: &str =
    "its files are gone. hint: was the driver unloaded or the GPU reset? look at `sudo dmesg | grep amdgpu`";

/// Looks for AMD GPUs. A machine without one has no finding.
///
/// ```
/// let options = ergometer_sensors::amd::Options { first_gpu: 1, ..Default::default() };
/// let probe = ergometer_sensors::amd::probe(&options);
/// assert!(probe.sensors.iter().all(|sensor| sensor.info().id.starts_with("amdgpu")));
/// ```
#[must_use]
pub fn probe(options: &Options) -> Probe {
    let mut probe = Probe::default();
    let cards = match find_cards(&options.root) {
        Ok(cards) => cards,
        Err(error) => {
            let why = format!("cannot list {}: {error}", options.root.display());
            probe.find("AMD GPU", GAUGES, Status::Absent { why, fix: None });
            return probe;
        }
    };
    for (index, card) in (options.first_gpu..).zip(cards) {
        probe_card(&card, DeviceId::gpu(index), options.watch, &mut probe);
    }
    probe
}

fn probe_card(card: &Card, device: DeviceId, watch: Duration, probe: &mut Probe) {
    let label = format!("{} ({device})", card.name);
    let mut found = find_gauges(card, device);
    let kind = Kind::of(card);
    if kind == Kind::SecondDie {
        found.power.clear();
    }
    probe.find(label.clone(), GAUGES, describe(card, kind, &found));
    if !found.refused.is_empty() {
        let why = format!("cannot read {}", found.refused.join(", "));
        probe.find(label.clone(), GAUGES, Status::Limited { why, fix: None });
    }
    let Found { power, mut others, .. } = found;
    if kind == Kind::SharedChip {
        let device = DeviceId::cpu(0);
        push_gauges(card, &format!("amdgpu-socket:{}", device.index), device, of_module(power, device), probe);
    } else if kind == Kind::WithProcessors {
        others.splice(0..0, of_module(power, device));
    } else {
        others.splice(0..0, power);
    }
    push_gauges(card, &format!("amdgpu:{}", device.index), device, others, probe);
    if matches!(kind, Kind::Card | Kind::WithProcessors) {
        let scope = if kind == Kind::WithProcessors { Scope::Module } else { Scope::Device };
        probe_energy(card, (device, scope), watch, probe);
    }
}

fn push_gauges(card: &Card, id: &str, device: DeviceId, gauges: Vec<Gauge>, probe: &mut Probe) {
    if !gauges.is_empty() {
        let info = SensorInfo { id: id.to_owned(), name: card.name.clone(), device, interval: INTERVAL };
        push(card, Box::new(Gauges::new(info, gauges, GONE)), probe);
    }
}

fn push(card: &Card, sensor: Box<dyn Sensor>, probe: &mut Probe) {
    probe.sensors.push(Box::new(WhileAwake::new(sensor, card.runtime_status())));
}

fn of_module(mut power: Vec<Gauge>, device: DeviceId) -> Vec<Gauge> {
    for gauge in &mut power {
        gauge.channel.device = device;
        gauge.channel.scope = Scope::Module;
    }
    power
}

fn probe_energy(card: &Card, (device, scope): (DeviceId, Scope), watch: Duration, probe: &mut Probe) {
    let label = format!("{} ({device})", card.name);
    if card.sleeps() {
        let why = "the GPU sleeps, so that its counter cannot be looked at".to_owned();
        let fix = Some(format!("echo on | sudo tee {}", card.file("power/control").display()));
        return probe.find(label, ENERGY, Status::Limited { why, fix });
    }
    let mut counter = match open_counter(card) {
        Ok(counter) => counter,
        Err(why) => return probe.find(label, ENERGY, without_counter(&why)),
    };
    let mut activity = Activity::open(card);
    if let Some(reason) = stands_still(&mut counter, &mut activity, watch) {
        let why =
            format!("it does not move though {reason}: power speaks instead (such were seen to last until a reboot)");
        return probe.find(label, ENERGY, Status::Limited { why, fix: Some("sudo reboot".to_owned()) });
    }
    let text = format!("counts of {:.3} µJ, read every 50 ms from {}", counter.unit.get() * 1e6, counter.origin);
    probe.find(label, ENERGY, Status::Works(text));
    let id = format!("amdgpu-energy:{}", device.index);
    let info = SensorInfo { id, name: card.name.clone(), device, interval: ENERGY_INTERVAL };
    let counter = GpuCounter {
        file: counter.file,
        unit: counter.unit,
        update_period: Seconds::new(metrics::UPDATE_PERIOD_S),
        working: Box::new(activity),
        scope,
        gone_hint: GONE,
    };
    push(card, Box::new(GpuEnergy::new(info, counter)), probe);
}

fn without_counter(why: &NoCounter) -> Status {
    const EPERM: i32 = 1;
    const EACCES: i32 = 13;
    let text = format!("{why}; energy comes from its power");
    match why {
        NoCounter::None | NoCounter::Unknown(metrics::Unknown::Chip { .. }) => Status::Absent { why: text, fix: None },
        NoCounter::Closed(path, error) if error.raw_os_error() == Some(EACCES) => {
            Status::Limited { why: text, fix: Some(format!("sudo chmod a+r {path}")) }
        }
        // The mode of an open file is not what refuses: amdgpu answers so while the GPU is reset or asleep.
        NoCounter::Unreadable(_, error) if error.raw_os_error() == Some(EPERM) => {
            Status::Limited { why: format!("{text} (it is being reset or asleep; later it may be read)"), fix: None }
        }
        _ => Status::Limited { why: text, fix: None },
    }
}

/// What the power of a card is the power of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The GPU and its memory.
    Card,
    /// An MI300A: GPU, memory and the processors of the socket.
    WithProcessors,
    /// Processors with graphics.
    SharedChip,
    /// Nothing: the other die of its module tells for both.
    SecondDie,
}

impl Kind {
    fn of(card: &Card) -> Self {
        if card.chip.is_mi300a() {
            return Self::WithProcessors;
        }
        let metrics = if card.sleeps() { None } else { File::open(card.file("gpu_metrics")).ok() };
        let bytes = metrics.and_then(|mut file| read_whole(&mut file).ok()).unwrap_or_default();
        if card.has_northbridge() || metrics::is_shared_chip(&bytes) {
            return Self::SharedChip;
        }
        // The driver gives the second die's energy as zero, and its power too.
        let counted = metrics::parse(&bytes, card.chip).ok().and_then(|told| told.energy);
        if card.chip.is_mi200() && counted == Some(0) { Self::SecondDie } else { Self::Card }
    }

    const fn covers(self) -> &'static str {
        match self {
            Self::Card => "power is what its firmware tracks (PPT): GPU and memory, not always the whole board",
            Self::WithProcessors => {
                "power is that of the socket, with its processors, which are then not added by RAPL"
            }
            Self::SharedChip => "power is that of the chip, processors and graphics together, and is told of cpu:0",
            Self::SecondDie => "its power is in that of the first die of its module",
        }
    }
}

fn describe(card: &Card, kind: Kind, found: &Found) -> Status {
    let mut parts: Vec<String> = found.power.iter().chain(&found.others).map(|gauge| gauge.what.clone()).collect();
    parts.dedup();
    if parts.is_empty() {
        let why = format!("the driver shows no file that says anything, at {}", card.address);
        return Status::Absent { why, fix: None };
    }
    if found.power.is_empty() && kind != Kind::SecondDie {
        let why = format!("no power, so no energy; {} every 100 ms, at {}", parts.join(", "), card.address);
        return Status::Limited { why, fix: None };
    }
    let partition =
        card.partition().map(|mode| format!("; its partitions ({mode}) are told as one")).unwrap_or_default();
    let sleep = if card.sleeps() { "; it sleeps now and is read when it wakes" } else { "" };
    let parts = parts.join(", ");
    Status::Works(format!("{parts} every 100 ms; {}{partition}{sleep}; at {}", kind.covers(), card.address))
}

#[cfg(all(test, unix))]
mod tests;
