//! Opens the energy counter of an AMD GPU and detects a stuck one.
//!
//! On some GPUs (MI100) the counter can stop until a reboot. A counter that does not move while the GPU is busy or
//! draws power is stuck.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use ergometer_units::Joules;

use super::card::{Card, Chip};
use super::files::read_whole;
use super::metrics::{UNIT_J, parse};
use crate::energy_counter::ReadCounter;
use crate::gpu_energy::Activity;
use crate::sysfs::Attribute;

/// A counter that does not move at this utilization or more is stuck.
const BUSY_PERCENT: f64 = 50.0;
/// A counter that does not move at this power or more is stuck: it is a million counts a second.
const DRAWN_W: f64 = 20.0;
/// The pause between two reads while a counter is probed.
const PROBE_PAUSE: Duration = Duration::from_millis(10);

/// An open counter and its unit.
pub(super) struct OpenCounter {
    pub(super) file: Box<dyn ReadCounter>,
    pub(super) unit: Joules,
    /// The display name of the source.
    pub(super) origin: String,
}

/// Why a GPU has no usable counter.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoCounter {
    /// The GPU has no counter.
    #[error("this GPU has no energy counter")]
    None,
    /// The counter cannot be opened.
    #[error("cannot open {0}: {1}")]
    Closed(String, io::Error),
    /// The counter was opened and cannot be read.
    #[error("cannot read {0}: {1}")]
    Unreadable(String, io::Error),
    /// The layout of the table is unknown.
    #[error(transparent)]
    Unknown(#[from] super::metrics::UnknownTable),
    /// The energy field is not set (all ones).
    #[error("gpu_metrics has no energy (a virtual machine does not get it from its host)")]
    Absent,
}

/// Opens the counter of a card: the one in hwmon, or else the one in `gpu_metrics`.
pub(super) fn open_counter(card: &Card) -> Result<OpenCounter, NoCounter> {
    let closed = |path: &Path| {
        let path = path.display().to_string();
        move |error| NoCounter::Closed(path, error)
    };
    let unreadable = |path: &Path| {
        let path = path.display().to_string();
        move |error| NoCounter::Unreadable(path, error)
    };
    if let Some(path) = card.hwmon.as_ref().map(|hwmon| hwmon.join("energy1_input")).filter(|path| path.exists()) {
        let mut file = Attribute::open(&path).map_err(closed(&path))?;
        file.read::<u64>().map_err(unreadable(&path))?;
        let origin = "hwmon's energy1_input".to_owned();
        return Ok(OpenCounter { file: Box::new(file), unit: Joules::from_micros(1.0), origin });
    }
    let path = card.file("gpu_metrics");
    let mut file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(NoCounter::None),
        file => file.map_err(closed(&path))?,
    };
    let bytes = read_whole(&mut file).map_err(unreadable(&path))?;
    let metrics = parse(&bytes, card.chip)?;
    metrics.energy.ok_or(NoCounter::Absent)?;
    let origin = format!("gpu_metrics {}.{}", bytes[2], bytes[3]);
    Ok(OpenCounter { file: Box::new(MetricsEnergy { file, chip: card.chip }), unit: Joules::new(UNIT_J), origin })
}

/// The energy counter in `gpu_metrics`.
struct MetricsEnergy {
    file: File,
    chip: Chip,
}

impl ReadCounter for MetricsEnergy {
    fn read(&mut self) -> io::Result<u64> {
        let invalid = |why: NoCounter| io::Error::new(io::ErrorKind::InvalidData, why.to_string());
        let bytes = read_whole(&mut self.file)?;
        let metrics = parse(&bytes, self.chip).map_err(|unknown| invalid(unknown.into()))?;
        metrics.energy.ok_or_else(|| invalid(NoCounter::Absent))
    }
}

/// The files that show whether a GPU is busy.
pub(super) struct CardActivity {
    busy: Option<Attribute>,
    power: Option<Attribute>,
}

impl CardActivity {
    pub(super) fn open(card: &Card) -> Self {
        let power = card.hwmon.as_ref().and_then(|hwmon| {
            let files = ["power1_input", "power1_average"].map(|name| Attribute::open(&hwmon.join(name)));
            files.into_iter().find_map(Result::ok)
        });
        Self { busy: Attribute::open(&card.file("gpu_busy_percent")).ok(), power }
    }
}

impl Activity for CardActivity {
    fn busy_reason(&mut self) -> Option<String> {
        let read = |file: &mut Option<Attribute>| file.as_mut().and_then(|file| file.read::<f64>().ok());
        if let Some(power_w) = read(&mut self.power).map(|power_uw| power_uw * 1e-6).filter(|power| *power >= DRAWN_W) {
            return Some(format!("the GPU draws {power_w:.0} W"));
        }
        let busy = read(&mut self.busy).filter(|busy| *busy >= BUSY_PERCENT);
        busy.map(|busy| format!("the GPU is {busy:.0} % busy"))
    }
}

/// Waits up to `time` for a counter to move. If it did not and the GPU is busy, returns why it should have moved.
pub(super) fn find_stuck_reason(
    counter: &mut OpenCounter,
    activity: &mut CardActivity,
    time: Duration,
) -> Option<String> {
    let first = counter.file.read().ok()?;
    let start = Instant::now();
    while start.elapsed() < time {
        std::thread::sleep(PROBE_PAUSE.min(time));
        if counter.file.read().ok()? != first {
            return None;
        }
    }
    if time.is_zero() { None } else { activity.busy_reason() }
}
