//! Reads Intel graphics cards from the hwmon files of the drivers xe and i915.
//!
//! Each card has a sensor for its energy counter and one for its gauges. The counter is that of the whole card, or else
//! that of its package, never both. A sleeping card is not woken. Integrated graphics have no such files: their energy
//! is part of the CPU package (RAPL).

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ergometer_diagnostics::{Message, hint};
use ergometer_telemetry::{Channel, DeviceId, Probe, Provenance, Scope, SensorInfo, Signal, Status};
use ergometer_units::{Joules, Seconds};

use crate::drm::{DrmCard, find_cards, find_labelled, is_asleep};
use crate::gauges::{Gauge, Gauges, ScaledFile};
use crate::gpu_energy::{Activity, GpuCounter, GpuEnergy};
use crate::sysfs::Attribute;
use crate::while_awake::WhileAwake;

/// Options of [`probe`].
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The folder of the DRM class.
    pub root: PathBuf,
    /// The index of the first GPU. GPUs of other makers may come before it.
    pub first_gpu: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { root: PathBuf::from("/sys/class/drm"), first_gpu: 0 }
    }
}

const INTERVAL: Duration = Duration::from_millis(100);
/// The update period of the counter is not documented. It is assumed to be the time between two reads.
const UPDATE_PERIOD: Seconds = Seconds::new(0.1);
const SOURCE: &str = "energy counter";

/// The error of a card whose files are gone.
fn gone() -> Message {
    let hint = hint!("check `sudo dmesg | grep -e xe -e i915` for an unloaded driver or a reset of the card");
    Message::new("its files in /sys are gone").with_hint(hint)
}

/// Opens the sensors of all Intel graphics cards. A machine without one has no finding.
///
/// ```
/// let probe = ergometer_sensors::intel_gpu::probe(&Default::default());
/// assert!(probe.sensors.iter().all(|sensor| sensor.info().id.starts_with("intel-gpu")));
/// ```
#[must_use]
pub fn probe(options: &Options) -> Probe {
    let mut probe = Probe::default();
    // The probe of AMD GPUs reads the same folder and reports it if it cannot be listed.
    let cards = find_cards(&options.root).unwrap_or_default();
    let cards = cards.into_iter().filter_map(|card| {
        let driver = card.driver.clone().filter(|driver| driver == "xe" || driver == "i915")?;
        let hwmon = card.hwmon(&driver)?;
        Some((card, hwmon))
    });
    for (index, (card, hwmon)) in (options.first_gpu..).zip(cards) {
        let name = format!("Intel GPU {:#06x}", card.device_id());
        let found = IntelCard { device: DeviceId::gpu(index), name, hwmon, card };
        found.probe_energy(&mut probe);
        found.push_gauges(&mut probe);
    }
    probe
}

struct IntelCard {
    card: DrmCard,
    hwmon: PathBuf,
    device: DeviceId,
    name: String,
}

/// The part whose energy a counter includes.
#[derive(Debug, Clone, Copy)]
enum Extent {
    Card,
    Package,
}

impl IntelCard {
    fn probe_energy(&self, probe: &mut Probe) {
        let label = format!("{} ({})", self.name, self.device);
        let Some((path, extent)) = self.find_counter() else {
            let why =
                format!("the driver {} has no energy counter for the card at {}", self.driver(), self.card.address);
            return probe.find(label, SOURCE, Status::Absent { why, fix: None });
        };
        let opened = Attribute::open(&path).and_then(|mut file| {
            if !is_asleep(&self.card.runtime_status()) {
                file.read::<u64>()?;
            }
            Ok(file)
        });
        let file = match opened {
            Ok(file) => file,
            Err(error) => {
                let why = format!("cannot read {}: {error}", path.display());
                let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
                let fix = is_denied.then(|| format!("sudo chmod a+r {}", path.display()));
                return probe.find(label, SOURCE, Status::Absent { why, fix });
            }
        };
        let covers = match extent {
            Extent::Card => "of the whole card",
            Extent::Package => "of the package, without the rest of the board",
        };
        let text = format!("energy {covers}, read every 100 ms; driver {}; at {}", self.driver(), self.card.address);
        probe.find(label, SOURCE, Status::Works(text));
        let counter = GpuCounter {
            file: Box::new(file),
            unit: Joules::from_micros(1.0),
            update_period: UPDATE_PERIOD,
            activity: Box::new(CoreClock(self.clock())),
            scope: Scope::Device,
            gone: gone(),
        };
        let sensor = Box::new(GpuEnergy::new(self.info("intel-gpu-energy"), counter));
        probe.sensors.push(Box::new(WhileAwake::new(sensor, self.card.runtime_status())));
    }

    /// Finds the counter: xe labels its counters, i915 has one for the whole card.
    fn find_counter(&self) -> Option<(PathBuf, Extent)> {
        if let Some(path) = find_labelled(&self.hwmon, "energy", "card").filter(|path| path.exists()) {
            return Some((path, Extent::Card));
        }
        if let Some(path) = find_labelled(&self.hwmon, "energy", "pkg").filter(|path| path.exists()) {
            return Some((path, Extent::Package));
        }
        let path = self.hwmon.join("energy1_input");
        path.exists().then_some((path, Extent::Card))
    }

    fn push_gauges(&self, probe: &mut Probe) {
        let labelled = |label: &str| find_labelled(&self.hwmon, "temp", label);
        let files = [
            (Scope::Device, Signal::Temperature, labelled("pkg"), 1e-3, "temperature"),
            (Scope::Memory, Signal::Temperature, labelled("vram"), 1e-3, "memory temperature"),
            (Scope::Device, Signal::ClockCore, self.clock_path(), 1.0, "clock"),
        ];
        let gauges = files.into_iter().filter_map(|(scope, signal, path, factor, what)| {
            let file = Attribute::open(&path?).ok()?;
            let provenance = Provenance::Gauge;
            let channel = Channel { device: self.device, scope, signal, provenance, update_period: None };
            Some(Gauge { channel, what: what.to_owned(), source: Box::new(ScaledFile { file, factor }) })
        });
        let gauges: Vec<Gauge> = gauges.collect();
        if !gauges.is_empty() {
            let sensor = Box::new(Gauges::new(self.info("intel-gpu"), gauges, gone()));
            probe.sensors.push(Box::new(WhileAwake::new(sensor, self.card.runtime_status())));
        }
    }

    /// The file with the clock of the first tile, which is zero while its cores are idle.
    fn clock_path(&self) -> Option<PathBuf> {
        let of_xe = self.card.folder.join("tile0/gt0/freq0/act_freq");
        [of_xe, self.card.card.join("gt_act_freq_mhz")].into_iter().find(|path| Path::exists(path))
    }

    fn clock(&self) -> Option<Attribute> {
        self.clock_path().and_then(|path| Attribute::open(&path).ok())
    }

    fn info(&self, kind: &str) -> SensorInfo {
        let id = format!("{kind}:{}", self.device.index);
        SensorInfo { id, name: self.name.clone(), device: self.device, interval: INTERVAL }
    }

    fn driver(&self) -> &str {
        self.card.driver.as_deref().unwrap_or("?")
    }
}

/// The clock of the cores, which is zero while they are idle.
struct CoreClock(Option<Attribute>);

impl Activity for CoreClock {
    fn busy_reason(&mut self) -> Option<String> {
        let clock_mhz: f64 = self.0.as_mut()?.read().ok()?;
        (clock_mhz > 0.0).then(|| format!("the cores run at {clock_mhz:.0} MHz"))
    }
}

#[cfg(all(test, unix))]
mod tests;
