//! Opens the gauges of an AMD GPU: power, temperatures, clocks, memory, utilization.
//!
//! A power of zero is not a reading: the second die of an MI250 reports it, because the first die reports both. A file
//! that the driver does not support has no channel.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use ergometer_telemetry::{Channel, DeviceId, Provenance, Scope, Signal};
use ergometer_units::Seconds;

use super::card::Card;
use super::metrics::parse;
use super::throttle::ThrottleReasons;
use crate::drm::find_labelled;
use crate::gauges::{Gauge, ReadGauge, ScaledFile};
use crate::sysfs::{Attribute, read_text};

/// The largest known table has 3872 bytes. Sysfs returns at most a page per read.
const LARGEST: usize = 16 * 1024;

/// The driver updates power every millisecond, and every 100 ms for Navi in kernels 5.3 to 5.8. The period is set here
/// because most chips report whole watts, so a steady power would look like one that is rarely updated.
const POWER_PERIOD: Seconds = Seconds::new(0.1);

/// The gauges of a card.
#[derive(Default)]
pub(super) struct CardGauges {
    /// The power gauges.
    pub(super) power: Vec<Gauge>,
    /// All other gauges.
    pub(super) others: Vec<Gauge>,
    /// The files that exist and cannot be read, with the error.
    pub(super) unreadable: Vec<String>,
}

/// Opens the gauges of a card. If the GPU is awake, each is read once.
pub(super) fn find_gauges(card: &Card, device: DeviceId) -> CardGauges {
    let mut search = Search { device, awake: !card.sleeps(), found: CardGauges::default() };
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
            Some(path) => search.file(GaugeKind::device(signal), &path, 1e-6),
            None => search.level(signal, &card.file(levels)),
        }
    }
    for (signal, name) in [
        (Signal::MemoryUsed, "mem_info_vram_used"),
        (Signal::MemoryTotal, "mem_info_vram_total"),
        (Signal::Utilization, "gpu_busy_percent"),
        (Signal::MemoryUtilization, "mem_busy_percent"),
    ] {
        search.file(GaugeKind::device(signal), &card.file(name), 1.0);
    }
    search.throttling(card);
    search.found
}

/// The scope and signal of a gauge.
#[derive(Clone, Copy)]
struct GaugeKind(Scope, Signal);

impl GaugeKind {
    const fn device(signal: Signal) -> Self {
        Self(Scope::Device, signal)
    }
}

struct Search {
    device: DeviceId,
    awake: bool,
    found: CardGauges,
}

impl Search {
    fn power(&mut self, hwmon: &Path, name: &str, signal: Signal, provenance: Provenance) {
        let path = hwmon.join(name);
        let open = |path: &Path| Ok(Box::new(Power(Attribute::open(path)?)) as Box<dyn ReadGauge>);
        if let Some(source) = self.try_open(signal, &path, open) {
            let update_period = Some(POWER_PERIOD);
            let channel = Channel { provenance, update_period, ..self.channel(GaugeKind::device(signal)) };
            self.found.power.push(Gauge { channel, what: display_name(GaugeKind::device(signal)).to_owned(), source });
        }
    }

    /// The temperature at the edge, or at the junction if a chip of many dies has no edge (MI300). The junction is the
    /// hottest point.
    fn temperatures(&mut self, hwmon: &Path) {
        let [edge, junction, memory] = ["edge", "junction", "mem"].map(|label| find_labelled(hwmon, "temp", label));
        let chip = edge.or_else(|| junction.clone());
        for (kind, path) in [
            (GaugeKind::device(Signal::Temperature), chip),
            (GaugeKind::device(Signal::TemperatureHotspot), junction),
            (GaugeKind(Scope::Memory, Signal::Temperature), memory),
        ] {
            if let Some(path) = path {
                self.file(kind, &path, 1e-3);
            }
        }
    }

    fn file(&mut self, kind: GaugeKind, path: &Path, factor: f64) {
        let open =
            |path: &Path| Ok(Box::new(ScaledFile { file: Attribute::open(path)?, factor }) as Box<dyn ReadGauge>);
        let source = self.try_open(kind.1, path, open);
        self.add(kind, source);
    }

    fn level(&mut self, signal: Signal, path: &Path) {
        let open = |path: &Path| {
            File::open(path)?;
            Ok(Box::new(CurrentLevel(path.to_owned())) as Box<dyn ReadGauge>)
        };
        let source = self.try_open(signal, path, open);
        self.add(GaugeKind::device(signal), source);
    }

    fn throttling(&mut self, card: &Card) {
        let Ok(mut file) = File::open(card.file("gpu_metrics")) else { return };
        if !self.awake {
            return;
        }
        let metrics = read_whole(&mut file).ok().and_then(|bytes| parse(&bytes, card.chip).ok());
        if metrics.is_some_and(|metrics| metrics.residency.is_some() || metrics.limiters.is_some()) {
            // Cycles counted before the first read do not count.
            let reasons = ThrottleReasons { file, chip: card.chip, before: None };
            self.add(GaugeKind::device(Signal::ThrottleReasons), Some(Box::new(reasons)));
        }
    }

    fn add(&mut self, kind: GaugeKind, source: Option<Box<dyn ReadGauge>>) {
        if let Some(source) = source {
            let channel = self.channel(kind);
            self.found.others.push(Gauge { channel, what: display_name(kind).to_owned(), source });
        }
    }

    fn channel(&self, GaugeKind(scope, signal): GaugeKind) -> Channel {
        Channel { device: self.device, scope, signal, provenance: Provenance::Gauge, update_period: None }
    }

    /// Opens a source and reads it once if the GPU is awake.
    fn try_open(
        &mut self,
        signal: Signal,
        path: &Path,
        open: impl Fn(&Path) -> io::Result<Box<dyn ReadGauge>>,
    ) -> Option<Box<dyn ReadGauge>> {
        let (mut source, opened) = match open(path) {
            Ok(source) => (Some(source), Ok(None)),
            Err(error) => (None, Err(error)),
        };
        let read = match &mut source {
            Some(source) if self.awake => source.read(),
            _ => opened,
        };
        match read {
            Ok(_) => source,
            // During a GPU reset the driver refuses every read. Later reads work.
            Err(error) if source.is_some() && error.kind() == io::ErrorKind::PermissionDenied => source,
            Err(error) if is_unsupported(&error) => None,
            Err(error) => {
                self.found.unreadable.push(format!("{signal} ({}: {error})", path.display()));
                None
            }
        }
    }
}

/// The display name of a gauge.
const fn display_name(GaugeKind(scope, signal): GaugeKind) -> &'static str {
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

/// Power in microwatts. Zero is no value.
struct Power(Attribute);

impl ReadGauge for Power {
    fn read(&mut self) -> io::Result<Option<f64>> {
        let power_uw: f64 = self.0.read()?;
        Ok((power_uw > 0.0).then_some(power_uw * 1e-6))
    }
}

/// The clock marked as current in a list: `1: 2581Mhz *`.
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
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("`{line}` is not a clock"))),
        }
    }
}

/// Whether the error means that the file does not exist or is not supported by the driver.
fn is_unsupported(error: &io::Error) -> bool {
    const EINVAL: i32 = 22;
    const ENODATA: i32 = 61;
    const EOPNOTSUPP: i32 = 95;
    error.kind() == io::ErrorKind::NotFound || matches!(error.raw_os_error(), Some(EINVAL | ENODATA | EOPNOTSUPP))
}

/// Reads a whole table from the start of its file, where the driver generates it anew.
pub(super) fn read_whole(file: &mut File) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut bytes = vec![0; LARGEST];
    let mut length = 0;
    while length < LARGEST {
        let more = file.read(&mut bytes[length..])?;
        length += more;
        let size = if length >= 2 { usize::from(u16::from_le_bytes([bytes[0], bytes[1]])) } else { LARGEST };
        if more == 0 || length >= size {
            break;
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}
