//! Reads AMD GPUs from the files of the amdgpu driver: hwmon, sysfs and the table `gpu_metrics`.
//!
//! Each GPU has a sensor for its power and gauges and, if it has a reliable counter, one for its energy. AMD's library
//! (amdsmi) reads the same files and is not needed.
//!
//! A counter with an uncertain layout or unit is not read. A counter that does not move is reported as stuck, and power
//! is used instead. A sleeping GPU is not woken. On a chip with processors and graphics, the power is that of the whole
//! chip: it belongs to the module of `cpu:0`, which is not added to a measured CPU package.

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

use ergometer_diagnostics::{Message, hint};
use ergometer_telemetry::{DeviceId, Probe, Scope, Sensor, SensorInfo, Status};
use ergometer_units::Seconds;

use self::card::{Card, find_cards};
use self::energy::{CardActivity, NoCounter, find_stuck_reason, open_counter};
use self::files::{CardGauges, find_gauges, read_whole};
use crate::gauges::{Gauge, Gauges};
use crate::gpu_energy::{GpuCounter, GpuEnergy};
use crate::while_awake::WhileAwake;

pub use gpu_info::system_gpus;

/// Options of [`probe`] and [`system_gpus`].
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The folder of the DRM class.
    pub root: PathBuf,
    /// The file with the driver version, if the driver is not part of the kernel.
    pub driver_version: PathBuf,
    /// The index of the first GPU. GPUs of other makers may come before it.
    pub first_gpu: u32,
    /// How long to wait for a counter to move. A working counter moves every few milliseconds.
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

/// The firmware takes up to a millisecond to report power.
const INTERVAL: Duration = Duration::from_millis(100);
/// Twice as often as power. A read makes the firmware write a table of up to 4 KB, which takes up to a millisecond.
const ENERGY_INTERVAL: Duration = Duration::from_millis(50);
const GAUGES: &str = "amdgpu";
const ENERGY: &str = "energy counter";

/// The error of a GPU whose files are gone.
fn gone() -> Message {
    let hint = hint!("check `sudo dmesg | grep amdgpu` for an unloaded driver or a GPU reset");
    Message::new("its files in /sys are gone").with_hint(hint)
}

/// Opens the sensors of all AMD GPUs. A machine without one has no finding.
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
    let kind = PowerScope::for_card(card);
    if kind == PowerScope::SecondDie {
        found.power.clear();
    }
    probe.find(label.clone(), GAUGES, describe(card, kind, &found));
    if !found.unreadable.is_empty() {
        let why = format!("cannot read {}", found.unreadable.join(", "));
        probe.find(label.clone(), GAUGES, Status::Limited { why, fix: None });
    }
    let CardGauges { power, mut others, .. } = found;
    if kind == PowerScope::SharedChip {
        let device = DeviceId::cpu(0);
        push_gauges(card, &format!("amdgpu-socket:{}", device.index), device, as_module(power, device), probe);
    } else if kind == PowerScope::WithProcessors {
        others.splice(0..0, as_module(power, device));
    } else {
        others.splice(0..0, power);
    }
    push_gauges(card, &format!("amdgpu:{}", device.index), device, others, probe);
    if matches!(kind, PowerScope::Card | PowerScope::WithProcessors) {
        let scope = if kind == PowerScope::WithProcessors { Scope::Module } else { Scope::Device };
        probe_energy(card, (device, scope), watch, probe);
    }
}

fn push_gauges(card: &Card, id: &str, device: DeviceId, gauges: Vec<Gauge>, probe: &mut Probe) {
    if !gauges.is_empty() {
        let info = SensorInfo { id: id.to_owned(), name: card.name.clone(), device, interval: INTERVAL };
        push(card, Box::new(Gauges::new(info, gauges, gone())), probe);
    }
}

fn push(card: &Card, sensor: Box<dyn Sensor>, probe: &mut Probe) {
    probe.sensors.push(Box::new(WhileAwake::new(sensor, card.runtime_status())));
}

/// Assigns power to the module of a device.
fn as_module(mut power: Vec<Gauge>, device: DeviceId) -> Vec<Gauge> {
    for gauge in &mut power {
        gauge.channel.device = device;
        gauge.channel.scope = Scope::Module;
    }
    power
}

fn probe_energy(card: &Card, (device, scope): (DeviceId, Scope), watch: Duration, probe: &mut Probe) {
    let label = format!("{} ({device})", card.name);
    if card.sleeps() {
        let why = "the GPU is asleep, so its counter cannot be checked".to_owned();
        let fix = Some(format!("echo on | sudo tee {}", card.file("power/control").display()));
        return probe.find(label, ENERGY, Status::Limited { why, fix });
    }
    let mut counter = match open_counter(card) {
        Ok(counter) => counter,
        Err(why) => return probe.find(label, ENERGY, without_counter(&why)),
    };
    let mut activity = CardActivity::open(card);
    if let Some(reason) = find_stuck_reason(&mut counter, &mut activity, watch) {
        let why = format!(
            "the counter does not change although {reason}; power is used instead (a reboot usually repairs it)"
        );
        return probe.find(label, ENERGY, Status::Limited { why, fix: Some("sudo reboot".to_owned()) });
    }
    let text = format!(
        "energy counter in steps of {:.3} µJ, read every 50 ms from {}",
        counter.unit.get() * 1e6,
        counter.origin
    );
    probe.find(label, ENERGY, Status::Works(text));
    let id = format!("amdgpu-energy:{}", device.index);
    let info = SensorInfo { id, name: card.name.clone(), device, interval: ENERGY_INTERVAL };
    let counter = GpuCounter {
        file: counter.file,
        unit: counter.unit,
        update_period: Seconds::new(metrics::UPDATE_PERIOD_S),
        activity: Box::new(activity),
        scope,
        gone: gone(),
    };
    push(card, Box::new(GpuEnergy::new(info, counter)), probe);
}

fn without_counter(why: &NoCounter) -> Status {
    const EPERM: i32 = 1;
    const EACCES: i32 = 13;
    let text = format!("{why}; energy is computed from power");
    match why {
        NoCounter::None | NoCounter::Unknown(metrics::UnknownTable::Chip { .. }) => {
            Status::Absent { why: text, fix: None }
        }
        NoCounter::Closed(path, error) if error.raw_os_error() == Some(EACCES) => {
            Status::Limited { why: text, fix: Some(format!("sudo chmod a+r {path}")) }
        }
        // The file is open, so its mode is not the cause: amdgpu returns this while the GPU is reset or asleep.
        NoCounter::Unreadable(_, error) if error.raw_os_error() == Some(EPERM) => Status::Limited {
            why: format!("{text} (the GPU is being reset or asleep and may be readable later)"),
            fix: None,
        },
        _ => Status::Limited { why: text, fix: None },
    }
}

/// The parts that the reported power of a card includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PowerScope {
    /// The GPU and its memory.
    Card,
    /// An MI300A: GPU, memory and the processors of the socket.
    WithProcessors,
    /// Processors with graphics.
    SharedChip,
    /// The second die of a module, without power: the first die reports the power of both.
    SecondDie,
}

impl PowerScope {
    fn for_card(card: &Card) -> Self {
        if card.chip.is_mi300a() {
            return Self::WithProcessors;
        }
        let metrics = if card.sleeps() { None } else { File::open(card.file("gpu_metrics")).ok() };
        let bytes = metrics.and_then(|mut file| read_whole(&mut file).ok()).unwrap_or_default();
        if card.has_northbridge() || metrics::is_shared_chip(&bytes) {
            return Self::SharedChip;
        }
        // The driver reports zero energy and power for the second die.
        let counted = metrics::parse(&bytes, card.chip).ok().and_then(|metrics| metrics.energy);
        if card.chip.is_mi200() && counted == Some(0) { Self::SecondDie } else { Self::Card }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Card => "power is the firmware's package power (PPT): GPU and memory, not always the whole board",
            Self::WithProcessors => {
                "power is that of the whole socket, including the CPU cores, so RAPL's power is not added to it"
            }
            Self::SharedChip => "power is that of the whole chip (CPU and graphics) and is reported for cpu:0",
            Self::SecondDie => "its power is included in the first die of its module",
        }
    }
}

fn describe(card: &Card, kind: PowerScope, found: &CardGauges) -> Status {
    let mut parts: Vec<String> = found.power.iter().chain(&found.others).map(|gauge| gauge.what.clone()).collect();
    parts.dedup();
    if parts.is_empty() {
        let why = format!("the driver has no readable file for the GPU at {}", card.address);
        return Status::Absent { why, fix: None };
    }
    if found.power.is_empty() && kind != PowerScope::SecondDie {
        let why = format!("no power, so no energy; {} every 100 ms, at {}", parts.join(", "), card.address);
        return Status::Limited { why, fix: None };
    }
    let partition =
        card.partition().map(|mode| format!("; its partitions ({mode}) are measured as one GPU")).unwrap_or_default();
    let sleep = if card.sleeps() { "; asleep now, it is read when it wakes up" } else { "" };
    let parts = parts.join(", ");
    Status::Works(format!("{parts} every 100 ms; {}{partition}{sleep}; at {}", kind.description(), card.address))
}

#[cfg(all(test, unix))]
mod tests;
