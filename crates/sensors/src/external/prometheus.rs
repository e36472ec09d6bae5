//! A file in Prometheus' text format: it goes in whenever it was rewritten, and the value of one metric comes out.
//!
//! A file that nobody rewrites gives no reading: it must not look like a steady meter. The time of a value is the one
//! that stands with it; else when the file was written, where that lies between the last look and this one; else that
//! of this look. A value whose own time goes back is left out and told once.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use ergometer_units::{Seconds, Timestamp};

use super::complaint::Complaint;
use super::meter::{Found, Moment, Source, Trouble, Value};
use super::output::start_of;
use super::time;
use super::unit::{Quantity, Unit};
use ergometer_telemetry::exposition::{Line, Sample, lines};
use ergometer_telemetry::{Clock, EventKind};

const SIZE_LIMIT: u64 = 1024 * 1024;
/// How many metrics an error lists.
const LISTED: usize = 8;

/// A metric's name and the labels it must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selector {
    name: String,
    labels: Vec<(String, String)>,
}

impl Selector {
    /// Of `name` or `name{label="value"}`.
    pub(super) fn of(text: &str) -> Option<Self> {
        let line = format!("{text} 0");
        let Some(Ok(Line::Sample(sample))) = lines(&line).next() else { return None };
        let is_whole = sample.value == 0.0 && sample.time.is_none() && !text.contains(['\n', '\r']);
        let labels = sample.labels.into_iter().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
        is_whole.then(|| Self { name: sample.name.into_owned(), labels })
    }

    fn takes(&self, sample: &Sample<'_>) -> bool {
        let has = |(name, value): &(String, String)| sample.label(name) == Some(value);
        sample.name == self.name && self.labels.iter().all(has)
    }
}

/// The unit at the end of a metric's name, as Prometheus' rules want it: `_watts`, `_joules_total`.
fn named_unit(name: &str) -> Option<Unit> {
    let name = name.strip_suffix("_total").unwrap_or(name);
    let (_, word) = name.rsplit_once('_')?;
    (word.len() > 3).then(|| Unit::of_word(word)).flatten()
}

/// What to look for in a text.
#[derive(Debug, Clone)]
pub(super) struct Finder {
    pub(super) metric: Option<Selector>,
    pub(super) unit: Option<Unit>,
    pub(super) quantity: Option<Quantity>,
}

/// A value that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Metric {
    pub(super) unit: Unit,
    pub(super) amount: f64,
    time: Option<Timestamp>,
}

impl Finder {
    /// The one sample that fits, or why there is none.
    pub(super) fn find(&self, text: &str) -> Result<Metric, Complaint> {
        // Of a value that is only half written, half is a number, too.
        if !text.is_empty() && !text.ends_with('\n') {
            return Err(Complaint::with_hint(
                "it does not end with a line break",
                "write it under another name and rename it",
            ));
        }
        let mut samples = Vec::new();
        for line in lines(text) {
            if let Line::Sample(sample) = line.map_err(|malformed| malformed.to_string())? {
                samples.push(sample);
            }
        }
        let fits = |sample: &&Sample<'_>| match &self.metric {
            Some(metric) => metric.takes(sample),
            None => named_unit(&sample.name)
                .is_some_and(|unit| self.quantity.is_none_or(|quantity| unit.quantity == quantity)),
        };
        let fitting: Vec<&Sample<'_>> = samples.iter().filter(fits).collect();
        let [sample] = fitting[..] else { return Err(self.ambiguous(&fitting, &samples)) };
        let by_name = named_unit(&sample.name);
        let by_name = by_name.filter(|unit| self.quantity.is_none_or(|quantity| unit.quantity == quantity));
        let unit = self.unit.or(by_name).unwrap_or(self.quantity.unwrap_or(Quantity::Power).base());
        if !sample.value.is_finite() || sample.value < 0.0 {
            return Err(format!("{} is {}, which is no value", sample.name, sample.value).into());
        }
        let time = match sample.time {
            Some(time) => Some(time::of_number(time).ok_or_else(|| format!("{time} is no time since the epoch"))?),
            None => None,
        };
        Ok(Metric { unit, amount: sample.value * unit.factor, time })
    }

    fn ambiguous(&self, fitting: &[&Sample<'_>], all: &[Sample<'_>]) -> Complaint {
        let list = |samples: &mut dyn Iterator<Item = &Sample<'_>>| {
            samples.take(LISTED).map(written).collect::<Vec<_>>().join(", ")
        };
        match (fitting.is_empty(), &self.metric) {
            (false, _) => {
                let listed = list(&mut fitting.iter().copied());
                let hint = format!("give metric='…' one of {listed}");
                Complaint::with_hint(format!("{} samples fit", fitting.len()), hint)
            }
            (true, Some(metric)) => {
                let why = format!("there is no {} with these labels", metric.name);
                Complaint::with_hint(why, format!("it has {}", list(&mut all.iter())))
            }
            (true, None) => Complaint::with_hint(
                "no name ends in _watts or _joules_total",
                format!("give metric='…' and unit=; it has {}", list(&mut all.iter())),
            ),
        }
    }
}

fn written(sample: &Sample<'_>) -> String {
    let labels: Vec<String> = sample.labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    if labels.is_empty() { sample.name.to_string() } else { format!("{}{{{}}}", sample.name, labels.join(",")) }
}

/// What tells one writing of a file from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Writing {
    inode: u64,
    size: u64,
    seconds: i64,
    nanos: i64,
}

impl Writing {
    fn of(file: &Metadata) -> Self {
        Self { inode: file.ino(), size: file.len(), seconds: file.mtime(), nanos: file.mtime_nsec() }
    }
}

/// See the module.
pub(super) struct Prometheus {
    path: PathBuf,
    finder: Finder,
    /// What was read last.
    writing: Option<Writing>,
    time: Option<Timestamp>,
    /// When the last reading was.
    last: Option<Timestamp>,
    /// Whether it was told that times go back.
    is_told: bool,
    looked: Option<Timestamp>,
}

impl Prometheus {
    /// Reads the file once: is there such a metric?
    pub(super) fn open(path: &Path, mut finder: Finder) -> Result<(Self, Metric), Trouble> {
        let (text, _) =
            read(path).map_err(|cause| Trouble::failed(format!("cannot read {}: {cause}", path.display())))?;
        let metric = finder.find(&text).map_err(|complaint| Trouble::Failed(complaint.at(path.display())))?;
        finder.quantity = Some(metric.unit.quantity);
        let source =
            Self { path: path.to_owned(), finder, writing: None, time: None, last: None, is_told: false, looked: None };
        Ok((source, metric))
    }
}

impl Source for Prometheus {
    fn read(&mut self, _moment: Moment, clock: &Clock, found: &mut Found) -> Result<(), Trouble> {
        let now = clock.now();
        let since = self.looked.replace(now);
        let failed = |cause: io::Error| Trouble::failed(format!("its file cannot be read: {cause}"));
        let seen = std::fs::metadata(&self.path).map_err(failed)?;
        if self.writing == Some(Writing::of(&seen)) {
            return Ok(());
        }
        let (text, file) = read(&self.path).map_err(failed)?;
        let is_first = self.writing.replace(Writing::of(&file)).is_none();
        let metric = self.finder.find(&text).map_err(|why| {
            Trouble::failed(format!("its file cannot be understood: {}", start_of(&why.to_string()).trim_matches('`')))
        })?;
        let last = self.last;
        let is_back = |at: Timestamp| last.is_some_and(|last| at <= last);
        let at = match metric.time {
            Some(time) if self.time == Some(time) => return Ok(()),
            Some(time) => Some(clock.from_wall(time)),
            None => written_at(&file).map(|time| clock.from_wall(time)).filter(|&at| {
                let least = since.unwrap_or(now - super::meter::LEAST_SILENCE);
                (least..=clock.now()).contains(&at) && !is_back(at)
            }),
        };
        if at.is_some_and(is_back) {
            if !std::mem::replace(&mut self.is_told, true) {
                let message = "the time of a value is not after that of the value before: such values are left out";
                found.notices.push((EventKind::ReadFailed, message.to_owned()));
            }
            return Ok(());
        }
        // An old file says what was, and nobody knows whether it still is.
        if is_first && at.is_none_or(|at| now - at > super::meter::LEAST_SILENCE) {
            self.time = metric.time;
            return Ok(());
        }
        if at.is_some_and(|at| at - clock.now() > Seconds::new(60.0)) {
            return Err(Trouble::failed("the time of its value lies ahead of this machine's by over a minute"));
        }
        self.time = metric.time;
        let (after, at) = at.map_or((since.unwrap_or(now), clock.now()), |at| (at, at));
        self.last = Some(at);
        found.values.push(Value { after, at, amount: metric.amount });
        Ok(())
    }
}

fn written_at(file: &Metadata) -> Option<Timestamp> {
    let since = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok().map(Timestamp::from_nanos_since_epoch)
}

fn read(path: &Path) -> io::Result<(String, Metadata)> {
    let refused = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    // A pipe would block until somebody writes.
    if !std::fs::metadata(path)?.is_file() {
        return refused("it is no plain file");
    }
    let file = File::open(path)?;
    let mut bytes = Vec::new();
    (&file).take(SIZE_LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > SIZE_LIMIT {
        return refused("it is larger than 1 MiB");
    }
    let metadata = file.metadata()?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), metadata))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(metric: Option<&str>, text: &str) -> Result<f64, String> {
        let metric = metric.map(|text| Selector::of(text).unwrap());
        Finder { metric, unit: None, quantity: None }
            .find(text)
            .map(|metric| metric.amount)
            .map_err(|complaint| complaint.to_string())
    }

    #[test]
    fn the_only_power_or_energy_is_taken() {
        assert_eq!(find(None, "# TYPE node_power_watts gauge\nnode_power_watts 312.5\nup 1\n"), Ok(312.5));
        assert_eq!(find(None, "kepler_node_platform_joules_total{source=\"acpi\"} 1e6\n"), Ok(1e6));
        assert_eq!(find(None, "scaph_host_power_microwatts 312500000\n"), Ok(312.5));
        assert_eq!(find(Some("p{a=\"1\"}"), "p{a=\"1\",b=\"2\"} 5\np{a=\"2\"} 6\n"), Ok(5.0));
    }

    #[test]
    fn what_does_not_fit_is_told_with_what_is_there() {
        let told = |metric, text: &str| find(metric, text).unwrap_err();
        let two = "a_watts{n=\"1\"} 5\na_watts{n=\"2\"} 6\n";
        assert!(
            told(None, two).contains("2 samples fit. hint: give metric='…' one of a_watts{n=\"1\"}, a_watts{n=\"2\"}")
        );
        assert!(told(Some("b_watts"), two).contains("there is no b_watts"));
        assert!(told(None, "up 1\n").contains("it has up"));
        assert!(told(None, "a_watts NaN\n").contains("no value"));
        assert!(told(None, "a_watts -1\n").contains("no value"));
        assert!(told(None, "a_watts 31").contains("line break"));
        assert!(told(None, "a_watts 31 12\n").contains("12 is no time"));
        assert!(told(None, "<html>\n").contains("line 1 is no metric"));
    }

    #[test]
    fn selectors_are_names_with_labels() {
        for wrong in ["", "a b", "a 1", "a{b}", "a{b=~\"c\"}", "a\nb", "1a"] {
            assert_eq!(Selector::of(wrong), None, "{wrong}");
        }
    }
}
