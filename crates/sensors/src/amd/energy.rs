//! The energy counters of AMD GPUs, and what says that one has to move.
//!
//! In goes a card; out comes a counter that is open, or why there is none. Such counters were seen to stand still until
//! a reboot (MI100): one that does not move while the GPU is busy or draws power is stuck.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use ergometer_units::Joules;

use super::card::{Card, Chip};
use super::files::read_whole;
use super::metrics::{UNIT_J, parse};
use crate::counted::ReadCounter;
use crate::gpu_energy::Working;
use crate::sysfs::Attribute;

/// From this utilization on, a counter that stands still is stuck.
const BUSY_PERCENT: f64 = 50.0;
/// From this power on, too: it is a million counts a second.
const DRAWN_W: f64 = 20.0;
/// How long between two looks at a counter while it is probed.
const LOOK: Duration = Duration::from_millis(10);

/// A counter before it is a sensor.
pub(super) struct OpenCounter {
    pub(super) file: Box<dyn ReadCounter>,
    pub(super) unit: Joules,
    /// Where the count comes from, for people.
    pub(super) origin: String,
}

/// Why there is no counter to use.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoCounter {
    /// Nothing that could count.
    #[error("this GPU has no energy counter")]
    None,
    /// It cannot be opened.
    #[error("cannot open {0}: {1}")]
    Closed(String, io::Error),
    /// It is open and cannot be read.
    #[error("cannot read {0}: {1}")]
    Unreadable(String, io::Error),
    /// It is not known how to read it.
    #[error(transparent)]
    Unknown(#[from] super::metrics::Unknown),
    /// All ones.
    #[error("gpu_metrics tells no energy (in a virtual machine, the host keeps it)")]
    Absent,
}

/// Opens the counter of a card: hwmon's where there is one, else that of the table of metrics.
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
    let told = parse(&bytes, card.chip)?;
    told.energy.ok_or(NoCounter::Absent)?;
    let origin = format!("gpu_metrics {}.{}", bytes[2], bytes[3]);
    Ok(OpenCounter { file: Box::new(MetricsEnergy { file, chip: card.chip }), unit: Joules::new(UNIT_J), origin })
}

/// Counts of the table.
struct MetricsEnergy {
    file: File,
    chip: Chip,
}

impl ReadCounter for MetricsEnergy {
    fn read(&mut self) -> io::Result<u64> {
        let invalid = |why: NoCounter| io::Error::new(io::ErrorKind::InvalidData, why.to_string());
        let bytes = read_whole(&mut self.file)?;
        let told = parse(&bytes, self.chip).map_err(|unknown| invalid(unknown.into()))?;
        told.energy.ok_or_else(|| invalid(NoCounter::Absent))
    }
}

/// What says that a GPU works.
pub(super) struct Activity {
    busy: Option<Attribute>,
    power: Option<Attribute>,
}

impl Activity {
    pub(super) fn open(card: &Card) -> Self {
        let power = card.hwmon.as_ref().and_then(|hwmon| {
            let files = ["power1_input", "power1_average"].map(|name| Attribute::open(&hwmon.join(name)));
            files.into_iter().find_map(Result::ok)
        });
        Self { busy: Attribute::open(&card.file("gpu_busy_percent")).ok(), power }
    }
}

impl Working for Activity {
    fn reason(&mut self) -> Option<String> {
        let read = |file: &mut Option<Attribute>| file.as_mut().and_then(|file| file.read::<f64>().ok());
        if let Some(power_w) = read(&mut self.power).map(|power_uw| power_uw * 1e-6).filter(|power| *power >= DRAWN_W) {
            return Some(format!("the GPU draws {power_w:.0} W"));
        }
        let busy = read(&mut self.busy).filter(|busy| *busy >= BUSY_PERCENT);
        busy.map(|busy| format!("the GPU is {busy:.0} % busy"))
    }
}

/// Watches a counter until it moves, for this long at most. A reason where it had to and did not; an idle GPU gives none.
pub(super) fn stands_still(counter: &mut OpenCounter, activity: &mut Activity, time: Duration) -> Option<String> {
    let first = counter.file.read().ok()?;
    let start = Instant::now();
    while start.elapsed() < time {
        std::thread::sleep(LOOK.min(time));
        if counter.file.read().ok()? != first {
            return None;
        }
    }
    if time.is_zero() { None } else { activity.reason() }
}
