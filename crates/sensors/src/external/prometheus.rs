//! Reads one metric of a Prometheus text file whenever the file is rewritten.
//!
//! A file that is not rewritten gives no readings, so it does not look like a steady meter. The time of a value is the
//! timestamp of its sample if it has one, else the file's modification time if that lies between the last two reads,
//! else the time of the read. A value whose timestamp goes backwards is skipped and reported once.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use ergometer_diagnostics::Message;
use ergometer_telemetry::exposition::{Line, Sample, lines};
use ergometer_telemetry::{Clock, EventKind};
use ergometer_units::{Seconds, Timestamp};

use super::meter::{Moment, Source, SourceError, Update, Value};
use super::output::excerpt;
use super::time;
use super::unit::{Quantity, Unit};
use super::with_hint;

const SIZE_LIMIT: u64 = 1024 * 1024;
/// How many metrics an error lists.
const LISTED: usize = 8;

/// The name of a metric, and labels that the sample must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MetricSelector {
    name: String,
    labels: Vec<(String, String)>,
}

impl MetricSelector {
    /// Parses `name` or `name{label="value"}`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let line = format!("{text} 0");
        let Some(Ok(Line::Sample(sample))) = lines(&line).next() else { return None };
        let is_whole = sample.value == 0.0 && sample.time.is_none() && !text.contains(['\n', '\r']);
        let labels = sample.labels.into_iter().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
        is_whole.then(|| Self { name: sample.name.into_owned(), labels })
    }

    fn matches(&self, sample: &Sample<'_>) -> bool {
        let has = |(name, value): &(String, String)| sample.label(name) == Some(value);
        sample.name == self.name && self.labels.iter().all(has)
    }
}

/// The unit at the end of a metric's name, by the naming rules of Prometheus: `_watts`, `_joules_total`.
fn named_unit(name: &str) -> Option<Unit> {
    let name = name.strip_suffix("_total").unwrap_or(name);
    let (_, word) = name.rsplit_once('_')?;
    (word.len() > 3).then(|| Unit::from_word(word)).flatten()
}

/// How to find the value in a file.
#[derive(Debug, Clone)]
pub(super) struct Finder {
    pub(super) metric: Option<MetricSelector>,
    pub(super) unit: Option<Unit>,
    pub(super) quantity: Option<Quantity>,
}

/// The value of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Metric {
    pub(super) unit: Unit,
    pub(super) amount: f64,
    time: Option<Timestamp>,
}

impl Finder {
    /// The only sample that matches.
    pub(super) fn find(&self, text: &str) -> Result<Metric, Message> {
        // The first half of a value that is being written is also a number.
        if !text.is_empty() && !text.ends_with('\n') {
            return Err(with_hint(
                "the file does not end with a line break",
                "the program that writes the file must write a temporary file, then rename it to this name",
            ));
        }
        let mut samples = Vec::new();
        for line in lines(text) {
            if let Line::Sample(sample) = line.map_err(|malformed| malformed.to_string())? {
                samples.push(sample);
            }
        }
        let fits = |sample: &&Sample<'_>| match &self.metric {
            Some(metric) => metric.matches(sample),
            None => named_unit(&sample.name)
                .is_some_and(|unit| self.quantity.is_none_or(|quantity| unit.quantity == quantity)),
        };
        let fitting: Vec<&Sample<'_>> = samples.iter().filter(fits).collect();
        let [sample] = fitting[..] else { return Err(self.no_single_match(&fitting, &samples)) };
        let by_name = named_unit(&sample.name);
        let by_name = by_name.filter(|unit| self.quantity.is_none_or(|quantity| unit.quantity == quantity));
        let unit = self.unit.or(by_name).unwrap_or(self.quantity.unwrap_or(Quantity::Power).base());
        if !sample.value.is_finite() || sample.value < 0.0 {
            return Err(format!("{} is {}, which is not a valid value", sample.name, sample.value).into());
        }
        let time = match sample.time {
            Some(time) => Some(time::from_number(time).ok_or_else(|| format!("{time} is not a time since the epoch"))?),
            None => None,
        };
        Ok(Metric { unit, amount: sample.value * unit.factor, time })
    }

    fn no_single_match(&self, fitting: &[&Sample<'_>], all: &[Sample<'_>]) -> Message {
        let list = |samples: &mut dyn Iterator<Item = &Sample<'_>>| {
            samples.take(LISTED).map(selector_text).collect::<Vec<_>>().join(", ")
        };
        match (fitting.is_empty(), &self.metric) {
            (false, _) => {
                let listed = list(&mut fitting.iter().copied());
                let hint = format!("set metric='…' to one of {listed}");
                with_hint(format!("{} samples match", fitting.len()), hint)
            }
            (true, Some(metric)) => {
                let labels = if metric.labels.is_empty() { "" } else { " with these labels" };
                let why = format!("there is no metric {}{labels}", metric.name);
                with_hint(why, format!("choose one of {}", list(&mut all.iter())))
            }
            (true, None) => with_hint(
                "no metric name ends in _watts or _joules_total",
                format!("set unit=, and metric='…' to one of {}", list(&mut all.iter())),
            ),
        }
    }
}

fn selector_text(sample: &Sample<'_>) -> String {
    let labels: Vec<String> = sample.labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    if labels.is_empty() { sample.name.to_string() } else { format!("{}{{{}}}", sample.name, labels.join(",")) }
}

/// Identifies one version of a file that is rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    inode: u64,
    size: u64,
    seconds: i64,
    nanos: i64,
}

impl FileVersion {
    fn from_metadata(file: &Metadata) -> Self {
        Self { inode: file.ino(), size: file.len(), seconds: file.mtime(), nanos: file.mtime_nsec() }
    }
}

/// A Prometheus text file as the source of a meter.
pub(super) struct Prometheus {
    path: PathBuf,
    finder: Finder,
    /// The version that was read last.
    version: Option<FileVersion>,
    /// The timestamp of the sample that was read last.
    time: Option<Timestamp>,
    /// The time of the last reading.
    last: Option<Timestamp>,
    /// Whether timestamps that go backwards were reported.
    is_reported: bool,
    /// When the last read began.
    read_at: Option<Timestamp>,
}

impl Prometheus {
    /// Opens the file and finds the metric.
    pub(super) fn open(path: &Path, mut finder: Finder) -> Result<(Self, Metric), SourceError> {
        let (text, _) =
            read(path).map_err(|cause| SourceError::failed(format!("cannot read {}: {cause}", path.display())))?;
        let metric = finder.find(&text).map_err(|message| SourceError::Failed(message.at(path.display())))?;
        finder.quantity = Some(metric.unit.quantity);
        let source = Self {
            path: path.to_owned(),
            finder,
            version: None,
            time: None,
            last: None,
            is_reported: false,
            read_at: None,
        };
        Ok((source, metric))
    }
}

impl Source for Prometheus {
    fn read(&mut self, _moment: Moment, clock: &Clock, update: &mut Update) -> Result<(), SourceError> {
        let now = clock.now();
        let since = self.read_at.replace(now);
        let failed = |cause: io::Error| SourceError::failed(format!("cannot read the file: {cause}"));
        let seen = std::fs::metadata(&self.path).map_err(failed)?;
        if self.version == Some(FileVersion::from_metadata(&seen)) {
            return Ok(());
        }
        let (text, file) = read(&self.path).map_err(failed)?;
        let is_first = self.version.replace(FileVersion::from_metadata(&file)).is_none();
        let metric = self.finder.find(&text).map_err(|why| {
            SourceError::failed(format!("cannot parse the file: {}", excerpt(&why.text).trim_matches('`')))
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
            if !std::mem::replace(&mut self.is_reported, true) {
                let message =
                    "the time of a value is not after the time of the previous value; such values are skipped";
                update.notices.push((EventKind::ReadFailed, message.into()));
            }
            return Ok(());
        }
        // The value of an old file may be out of date.
        if is_first && at.is_none_or(|at| now - at > super::meter::LEAST_SILENCE) {
            self.time = metric.time;
            return Ok(());
        }
        if at.is_some_and(|at| at - clock.now() > Seconds::new(60.0)) {
            return Err(SourceError::failed(
                "the time of the value is more than a minute ahead of this machine's clock",
            ));
        }
        self.time = metric.time;
        let (after, at) = at.map_or((since.unwrap_or(now), clock.now()), |at| (at, at));
        self.last = Some(at);
        update.values.push(Value { after, at, amount: metric.amount });
        Ok(())
    }
}

fn written_at(file: &Metadata) -> Option<Timestamp> {
    let since = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok().map(Timestamp::from_nanos_since_epoch)
}

fn read(path: &Path) -> io::Result<(String, Metadata)> {
    let refused = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    // A pipe would block until something is written.
    if !std::fs::metadata(path)?.is_file() {
        return refused("not a regular file");
    }
    let file = File::open(path)?;
    let mut bytes = Vec::new();
    (&file).take(SIZE_LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > SIZE_LIMIT {
        return refused("larger than 1 MiB");
    }
    let metadata = file.metadata()?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), metadata))
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::{CommandLine, Diagnostic};

    use super::*;

    fn find(metric: Option<&str>, text: &str) -> Result<f64, String> {
        let metric = metric.map(|text| MetricSelector::parse(text).unwrap());
        Finder { metric, unit: None, quantity: None }
            .find(text)
            .map(|metric| metric.amount)
            .map_err(|message| message.one_line(&CommandLine))
    }

    #[test]
    fn the_only_power_or_energy_metric_is_used() {
        assert_eq!(find(None, "# TYPE node_power_watts gauge\nnode_power_watts 312.5\nup 1\n"), Ok(312.5));
        assert_eq!(find(None, "kepler_node_platform_joules_total{source=\"acpi\"} 1e6\n"), Ok(1e6));
        assert_eq!(find(None, "scaph_host_power_microwatts 312500000\n"), Ok(312.5));
        assert_eq!(find(Some("p{a=\"1\"}"), "p{a=\"1\",b=\"2\"} 5\np{a=\"2\"} 6\n"), Ok(5.0));
    }

    #[test]
    fn the_error_lists_the_metrics_of_the_file() {
        let error = |metric, text: &str| find(metric, text).unwrap_err();
        let two = "a_watts{n=\"1\"} 5\na_watts{n=\"2\"} 6\n";
        let expected = "2 samples match. hint: set metric='…' to one of a_watts{n=\"1\"}, a_watts{n=\"2\"}";
        assert_eq!(error(None, two), expected);
        assert!(error(Some("b_watts"), two).starts_with("there is no metric b_watts. hint: choose one of a_watts"));
        let labelled = error(Some("a_watts{n=\"3\"}"), two);
        assert!(labelled.starts_with("there is no metric a_watts with these labels. hint: "), "{labelled}");
        assert!(error(None, "up 1\n").contains("to one of up"));
        assert!(error(None, "a_watts NaN\n").contains("not a valid value"));
        assert!(error(None, "a_watts -1\n").contains("not a valid value"));
        assert!(error(None, "a_watts 31").contains("line break"));
        assert!(error(None, "a_watts 31 12\n").contains("12 is not a time"));
        assert!(error(None, "<html>\n").starts_with("line 1 "));
    }

    #[test]
    fn selectors_are_names_with_labels() {
        for wrong in ["", "a b", "a 1", "a{b}", "a{b=~\"c\"}", "a\nb", "1a"] {
            assert_eq!(MetricSelector::parse(wrong), None, "{wrong}");
        }
    }
}
