//! What amdgpu's files say as they stand: power, temperatures, clocks, memory, utilization.
//!
//! In goes a card; out come gauges for the files it has, each in the unit of its signal. What always holds: a power of
//! zero is no power (the second die of an MI250 says so, since the first tells for both), and a file that says it is
//! not supported has no channel.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use ergometer_units::Seconds;

use super::card::Card;
use super::metrics::parse;
use super::throttle::ThrottleReasons;
use crate::drm::find_labelled;
use crate::gauges::{Gauge, ReadGauge, Scaled};
use crate::sysfs::{Attribute, read_text};
use ergometer_telemetry::{Channel, DeviceId, Provenance, Scope, Signal};

/// The largest table there is has 3872 bytes, and sysfs hands out at most a page at once.
const LARGEST: usize = 16 * 1024;

/// The driver asks the firmware anew after a millisecond, and after 100 ms for Navi in kernels 5.3 to 5.8. It is told
/// because power is in whole watts on most chips: a steady one would pass for a figure that is seldom renewed.
const POWER_PERIOD: Seconds = Seconds::new(0.1);

/// The gauges of a card.
#[derive(Default)]
pub(super) struct Found {
    /// Of the GPU's power, by the names people read.
    pub(super) power: Vec<Gauge>,
    /// All others.
    pub(super) others: Vec<Gauge>,
    /// What is there and cannot be read: which, and why.
    pub(super) refused: Vec<String>,
}

/// Looks which gauges a card has. One that is awake is read once.
pub(super) fn find_gauges(card: &Card, device: DeviceId) -> Found {
    let mut search = Search { device, awake: !card.sleeps(), found: Found::default() };
    if let Some(hwmon) = &card.hwmon {
        search.power(hwmon, "power1_average", Signal::PowerAverage, Provenance::AveragedPower);
        search.power(hwmon, "power1_input", Signal::PowerInstant, Provenance::SampledPower);
        search.temperatures(hwmon);
    }
    for (signal, label, levels) in
        [(Signal::ClockCore, "sclk", "pp_dpm_sclk"), (Signal::ClockMemory, "mclk", "pp_dpm_mclk")]
    {
        let labelled = card.hwmon.as_ref().and_then(|hwmon| find_labelled(hwmon, "freq", label));
        match labelled {
            Some(path) => search.file(Place::device(signal), &path, 1e-6),
            None => search.level(signal, &card.file(levels)),
        }
    }
    for (signal, name) in [
        (Signal::MemoryUsed, "mem_info_vram_used"),
        (Signal::MemoryTotal, "mem_info_vram_total"),
        (Signal::Utilization, "gpu_busy_percent"),
        (Signal::MemoryUtilization, "mem_busy_percent"),
    ] {
        search.file(Place::device(signal), &card.file(name), 1.0);
    }
    search.throttling(card);
    search.found
}

/// The scope and signal of a gauge that is no power.
#[derive(Clone, Copy)]
struct Place(Scope, Signal);

impl Place {
    const fn device(signal: Signal) -> Self {
        Self(Scope::Device, signal)
    }
}

struct Search {
    device: DeviceId,
    awake: bool,
    found: Found,
}

impl Search {
    fn power(&mut self, hwmon: &Path, name: &str, signal: Signal, provenance: Provenance) {
        let path = hwmon.join(name);
        let open = |path: &Path| Ok(Box::new(Power(Attribute::open(path)?)) as Box<dyn ReadGauge>);
        if let Some(source) = self.try_open(signal, &path, open) {
            let update_period = Some(POWER_PERIOD);
            let channel = Channel { provenance, update_period, ..self.channel(Place::device(signal)) };
            self.found.power.push(Gauge { channel, what: words(Place::device(signal)).to_owned(), source });
        }
    }

    /// The edge's, or the junction's where a chip of many dies has no edge (MI300); the junction is the hottest place.
    fn temperatures(&mut self, hwmon: &Path) {
        let [edge, junction, memory] = ["edge", "junction", "mem"].map(|label| find_labelled(hwmon, "temp", label));
        let chip = edge.or_else(|| junction.clone());
        for (place, path) in [
            (Place::device(Signal::Temperature), chip),
            (Place::device(Signal::TemperatureHotspot), junction),
            (Place(Scope::Memory, Signal::Temperature), memory),
        ] {
            if let Some(path) = path {
                self.file(place, &path, 1e-3);
            }
        }
    }

    fn file(&mut self, place: Place, path: &Path, factor: f64) {
        let open = |path: &Path| Ok(Box::new(Scaled { file: Attribute::open(path)?, factor }) as Box<dyn ReadGauge>);
        let source = self.try_open(place.1, path, open);
        self.add(place, source);
    }

    fn level(&mut self, signal: Signal, path: &Path) {
        let open = |path: &Path| {
            File::open(path)?;
            Ok(Box::new(CurrentLevel(path.to_owned())) as Box<dyn ReadGauge>)
        };
        let source = self.try_open(signal, path, open);
        self.add(Place::device(signal), source);
    }

    fn throttling(&mut self, card: &Card) {
        let Ok(mut file) = File::open(card.file("gpu_metrics")) else { return };
        if !self.awake {
            return;
        }
        let told = read_whole(&mut file).ok().and_then(|bytes| parse(&bytes, card.chip).ok());
        if told.is_some_and(|told| told.residency.is_some() || told.limiters.is_some()) {
            // What was counted up to now is not of the time that is measured.
            let reasons = ThrottleReasons { file, chip: card.chip, before: None };
            self.add(Place::device(Signal::ThrottleReasons), Some(Box::new(reasons)));
        }
    }

    fn add(&mut self, place: Place, source: Option<Box<dyn ReadGauge>>) {
        if let Some(source) = source {
            let channel = self.channel(place);
            self.found.others.push(Gauge { channel, what: words(place).to_owned(), source });
        }
    }

    fn channel(&self, Place(scope, signal): Place) -> Channel {
        Channel { device: self.device, scope, signal, provenance: Provenance::Gauge, update_period: None }
    }

    /// Opens a source and, where the GPU is awake, reads it once.
    fn try_open(
        &mut self,
        signal: Signal,
        path: &Path,
        open: impl Fn(&Path) -> io::Result<Box<dyn ReadGauge>>,
    ) -> Option<Box<dyn ReadGauge>> {
        let (mut source, asked) = match open(path) {
            Ok(source) => (Some(source), Ok(None)),
            Err(error) => (None, Err(error)),
        };
        let read = match &mut source {
            Some(source) if self.awake => source.read(),
            _ => asked,
        };
        match read {
            Ok(_) => source,
            // While it is reset, the driver refuses every read; later ones work.
            Err(error) if source.is_some() && error.kind() == io::ErrorKind::PermissionDenied => source,
            Err(error) if is_unsupported(&error) => None,
            Err(error) => {
                self.found.refused.push(format!("{signal} ({}: {error})", path.display()));
                None
            }
        }
    }
}

/// As people call it.
const fn words(Place(scope, signal): Place) -> &'static str {
    match (scope, signal) {
        (_, Signal::PowerAverage) => "average power",
        (_, Signal::PowerInstant) => "instant power",
        (Scope::Memory, Signal::Temperature) => "memory temperature",
        (_, Signal::Temperature) => "temperature",
        (_, Signal::TemperatureHotspot) => "hotspot temperature",
        (_, Signal::ClockCore) => "clock",
        (_, Signal::ClockMemory) => "memory clock",
        (_, Signal::MemoryUsed) => "memory in use",
        (_, Signal::MemoryTotal) => "memory",
        (_, Signal::Utilization) => "utilization",
        (_, Signal::MemoryUtilization) => "memory utilization",
        _ => "throttle reasons",
    }
}

/// Microwatts; none where it says zero.
struct Power(Attribute);

impl ReadGauge for Power {
    fn read(&mut self) -> io::Result<Option<f64>> {
        let power_uw: f64 = self.0.read()?;
        Ok((power_uw > 0.0).then_some(power_uw * 1e-6))
    }
}

/// The level marked as the current one in a list of clocks: `1: 2581Mhz *`.
struct CurrentLevel(PathBuf);

impl ReadGauge for CurrentLevel {
    fn read(&mut self) -> io::Result<Option<f64>> {
        let text = read_text(&self.0)?;
        let Some(line) = text.lines().map(str::trim).find(|line| line.ends_with('*')) else { return Ok(None) };
        let (_, clock) = line.split_once(':').unwrap_or_default();
        let digits: String = clock.trim().chars().take_while(char::is_ascii_digit).collect();
        let is_megahertz = clock.to_ascii_lowercase().contains("mhz");
        match digits.parse() {
            Ok(clock_mhz) if is_megahertz => Ok(Some(clock_mhz)),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("`{line}` is no clock"))),
        }
    }
}

/// Whether the error says that there is no such thing here: no file, or a driver that does not support it.
fn is_unsupported(error: &io::Error) -> bool {
    const EINVAL: i32 = 22;
    const ENODATA: i32 = 61;
    const EOPNOTSUPP: i32 = 95;
    error.kind() == io::ErrorKind::NotFound || matches!(error.raw_os_error(), Some(EINVAL | ENODATA | EOPNOTSUPP))
}

/// All of a file that is made anew for each read from its start.
pub(super) fn read_whole(file: &mut File) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut bytes = vec![0; LARGEST];
    let mut length = 0;
    while length < LARGEST {
        let more = file.read(&mut bytes[length..])?;
        length += more;
        let told = if length >= 2 { usize::from(u16::from_le_bytes([bytes[0], bytes[1]])) } else { LARGEST };
        if more == 0 || length >= told {
            break;
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}
