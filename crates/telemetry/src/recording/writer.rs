//! Writes batches of readings to a recording while they arrive.
//!
//! The file is flushed every half second, so a killed process loses at most the last half second.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::header::{End, FORMAT, Header, Note, RecordedSensor};
use super::{LIMITS, RecordingError, VERSION};
use crate::{Batch, Channel, Event, SensorInfo, SensorKey, Tap, Timeline};

/// The longest time that may be lost when the process is killed. Flushing gzip costs a few bytes, so not every batch.
const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// Writes a recording while readings arrive.
///
/// ```no_run
/// use std::sync::Arc;
/// use ergometer_telemetry::{Clock, Sampler, Sensor, recording::RecordingWriter};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sensors: Vec<Box<dyn Sensor>> = Vec::new();
/// let described = sensors.iter().map(|sensor| (sensor.info(), sensor.channels()));
/// let (tap, recording) = RecordingWriter::create("run.jsonl.gz", described)?.into_tap();
/// let sampler = Sampler::start(sensors, Arc::new(Clock::start()), Some(tap));
/// let timeline = sampler.stop();
/// recording.finish()?;
/// # Ok(())
/// # }
/// ```
pub struct RecordingWriter {
    out: Output,
    /// The indices of each sensor's channels among all channels.
    channels: Vec<Range<usize>>,
    readings: u64,
    /// The line that is being written.
    text: Vec<u8>,
    flushed: Instant,
}

enum Output {
    Plain(Box<dyn Write + Send>),
    Gzip(GzEncoder<Box<dyn Write + Send>>),
}

/// Whether the text is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Not compressed.
    Plain,
    /// gzip.
    Gzip,
}

impl RecordingWriter {
    /// Starts a recording in a file and overwrites an existing one; uses gzip if the name ends in `.gz`. Pass the
    /// sensors in the same order as to the sampler.
    pub fn create<'a>(
        path: impl AsRef<Path>,
        sensors: impl IntoIterator<Item = (&'a SensorInfo, &'a [Channel])>,
    ) -> Result<Self, RecordingError> {
        Self::start(path.as_ref(), |path| File::create(path), sensors)
    }

    /// Starts a recording in a file that must not exist. A symbolic link is not followed.
    pub fn create_new<'a>(
        path: impl AsRef<Path>,
        sensors: impl IntoIterator<Item = (&'a SensorInfo, &'a [Channel])>,
    ) -> Result<Self, RecordingError> {
        Self::start(path.as_ref(), |path| File::create_new(path), sensors)
    }

    fn start<'a>(
        path: &Path,
        open: impl FnOnce(&Path) -> io::Result<File>,
        sensors: impl IntoIterator<Item = (&'a SensorInfo, &'a [Channel])>,
    ) -> Result<Self, RecordingError> {
        let packing = if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz")) {
            Packing::Gzip
        } else {
            Packing::Plain
        };
        let file = open(path).map_err(|cause| RecordingError::Io {
            action: "create",
            path: Some(path.to_path_buf()),
            cause,
        })?;
        Self::new(Box::new(BufWriter::new(file)), packing, sensors)
    }

    /// Starts a recording in any writer.
    pub fn new<'a>(
        out: Box<dyn Write + Send>,
        packing: Packing,
        sensors: impl IntoIterator<Item = (&'a SensorInfo, &'a [Channel])>,
    ) -> Result<Self, RecordingError> {
        let mut first = 0;
        let mut channels = Vec::new();
        let mut described = Vec::new();
        for (info, of_sensor) in sensors {
            channels.push(first..first + of_sensor.len());
            first += of_sensor.len();
            described.push(RecordedSensor::new(info, of_sensor));
        }
        let out = match packing {
            Packing::Plain => Output::Plain(out),
            Packing::Gzip => Output::Gzip(GzEncoder::new(out, Compression::default())),
        };
        let mut writer = Self { out, channels, readings: 0, text: Vec::new(), flushed: Instant::now() };
        let header = Header { format: FORMAT.to_owned(), version: VERSION, sensors: described };
        writer.line(&header).map_err(RecordingError::write)?;
        writer.flush()?;
        Ok(writer)
    }

    /// Writes a batch of a sensor. Invalid readings (an unknown channel, or a value that is not finite) are skipped, as
    /// in a timeline.
    pub fn append(&mut self, key: SensorKey, batch: &Batch) -> Result<(), RecordingError> {
        let of_sensor = self.channels.get(key.index()).cloned().unwrap_or(0..0);
        for reading in &batch.readings {
            let channel = of_sensor.start.saturating_add(reading.channel);
            if of_sensor.contains(&channel) && reading.value.is_finite() {
                let at_ns = reading.at.nanos_since_epoch();
                let early_ns = at_ns.saturating_sub(reading.after.nanos_since_epoch()).max(0);
                self.reading(channel, at_ns, u32::try_from(early_ns).unwrap_or(u32::MAX), reading.value)?;
            }
        }
        for event in &batch.events {
            self.event(event)?;
        }
        if self.flushed.elapsed() >= FLUSH_EVERY { self.flush() } else { Ok(()) }
    }

    /// Writes the end line. A recording without it is read as truncated.
    pub fn finish(mut self) -> Result<(), RecordingError> {
        let end = Note { end: Some(End { readings: self.readings }), ..Note::default() };
        let ended = self.line(&end).and_then(|()| match self.out {
            Output::Plain(mut out) => out.flush(),
            Output::Gzip(out) => out.finish()?.flush(),
        });
        ended.map_err(RecordingError::write)
    }

    /// Splits into a tap for a [`Sampler`](crate::Sampler) and a handle that finishes the recording afterwards.
    #[must_use]
    pub fn into_tap(self) -> (Tap, RecordingHandle) {
        let shared = Arc::new(Mutex::new(State::Writing(Box::new(self))));
        let handle = RecordingHandle(Arc::clone(&shared));
        let tap = move |_: &SensorInfo, key: SensorKey, batch: &Batch| {
            let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if let State::Writing(writer) = &mut *state
                && let Err(error) = writer.append(key, batch)
            {
                *state = State::Failed(error);
            }
        };
        (Box::new(tap), handle)
    }

    fn reading(&mut self, channel: usize, at_ns: i64, early_ns: u32, value: f64) -> Result<(), RecordingError> {
        self.readings += 1;
        self.line(&(channel, at_ns, early_ns, value)).map_err(RecordingError::write)
    }

    fn event(&mut self, event: &Event) -> Result<(), RecordingError> {
        let note = Note { event: Some(Cow::Borrowed(event)), ..Note::default() };
        self.line(&note).map_err(RecordingError::write)
    }

    fn line(&mut self, line: &impl serde::Serialize) -> io::Result<()> {
        self.text.clear();
        serde_json::to_writer(&mut self.text, line)?;
        self.text.push(b'\n');
        // A longer line could not be read back.
        if self.text.len() as u64 > LIMITS.line {
            let limit = LIMITS.line >> 20;
            return Err(io::Error::other(format!("a line of {} bytes is longer than {limit} MiB", self.text.len())));
        }
        self.out.as_write().write_all(&self.text)
    }

    /// Flushes everything written so far. [`append`](Self::append) does this every half second.
    pub fn flush(&mut self) -> Result<(), RecordingError> {
        self.flushed = Instant::now();
        self.out.as_write().flush().map_err(RecordingError::write)
    }
}

impl Output {
    fn as_write(&mut self) -> &mut dyn Write {
        match self {
            Self::Plain(out) => out,
            Self::Gzip(out) => out,
        }
    }
}

impl fmt::Debug for RecordingWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingWriter").field("readings", &self.readings).finish_non_exhaustive()
    }
}

/// Writes a whole timeline as a recording: all channels, then all events.
pub fn write(timeline: &Timeline, out: Box<dyn Write + Send>, packing: Packing) -> Result<(), RecordingError> {
    let sensors: Vec<_> = timeline
        .sensors()
        .map(|(key, info)| (info, timeline.channels_of(key).map(|(_, channel)| channel.clone()).collect::<Vec<_>>()))
        .collect();
    let described = sensors.iter().map(|(info, channels)| (*info, channels.as_slice()));
    let mut writer = RecordingWriter::new(out, packing, described)?;
    for (id, _) in timeline.channels() {
        let readings = timeline.column(id).readings();
        for ((&at_ns, &early_ns), &value) in readings.at_ns.iter().zip(readings.early_ns).zip(readings.values) {
            writer.reading(id.index(), at_ns, early_ns, value)?;
        }
    }
    for event in timeline.events() {
        writer.event(event)?;
    }
    writer.finish()
}

/// Finishes a recording that a tap writes.
#[derive(Debug)]
pub struct RecordingHandle(Arc<Mutex<State>>);

#[derive(Debug)]
enum State {
    Writing(Box<RecordingWriter>),
    Failed(RecordingError),
    Finished,
}

impl RecordingHandle {
    /// Whether writing has failed; later readings are not written. [`finish`](Self::finish) returns the error.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        matches!(&*self.0.lock().unwrap_or_else(PoisonError::into_inner), State::Failed(_))
    }

    /// Writes the end line; call it after the sampler is stopped. Returns the first write error: readings before it can
    /// be read, later ones were not written.
    pub fn finish(self) -> Result<(), RecordingError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Finished) {
            State::Writing(writer) => writer.finish(),
            State::Failed(error) => Err(error),
            State::Finished => Ok(()),
        }
    }
}
