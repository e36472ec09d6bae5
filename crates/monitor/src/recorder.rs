//! Records readings to files, started and stopped while sampling continues. Existing files are never overwritten.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use ergometer_diagnostics::{Diagnostic, Hint, Message, flag, hint};
use ergometer_telemetry::recording::{Packing, RecordingError, RecordingWriter};
use ergometer_telemetry::{Batch, Channel, Sensor, SensorInfo, SensorKey, Tap};

/// Writes readings to files while it is on.
pub(crate) struct Recorder {
    described: Vec<(SensorInfo, Vec<Channel>)>,
    /// The file name from the settings.
    wanted: Option<PathBuf>,
    state: Arc<Mutex<State>>,
    /// Errors of recordings that the user started or stopped with a key, shown again after the full screen closes.
    lost: Mutex<Vec<RecordError>>,
}

#[derive(Default)]
enum State {
    #[default]
    Off,
    On(Box<Open>),
    Failed(PathBuf, RecordingError),
}

struct Open {
    path: PathBuf,
    writer: RecordingWriter,
    readings: usize,
}

/// A complete recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The file.
    pub path: PathBuf,
    /// The number of readings.
    pub readings: usize,
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "recorded {} readings in {}", self.readings, self.path.display())
    }
}

/// The result of starting or stopping a recording with a key.
#[derive(Debug)]
pub(crate) enum Toggled {
    Started(PathBuf),
    Stopped(Recorded),
    Failed(Message),
}

/// A recording could not be written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file already has content.
    #[error("{} already exists, and recordings are not overwritten", .0.display())]
    FileExists(PathBuf),
    /// The file could not be created.
    #[error("cannot create {}: {source}", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Every numbered name beside this file is taken.
    #[error("every numbered name for {} is already taken", .0.display())]
    NoFreeName(PathBuf),
    /// Readings could not be written.
    #[error(transparent)]
    Write(RecordingError),
}

impl Diagnostic for RecordError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::FileExists(_) | Self::NoFreeName(_) => {
                Some(hint!("choose another file name, or move this file away"))
            }
            Self::Create { .. } => None,
            Self::Write(_) => Some(hint!(
                "check the free space and the permissions of the folder; ",
                flag("lenient"),
                " reads the part that was written"
            )),
        }
    }
}

/// Starts a recording in a file. A file that already has content is an error: repeating a command with the up key must
/// not destroy a recording.
pub fn create_recording<'a>(
    path: &Path,
    sensors: impl IntoIterator<Item = (&'a SensorInfo, &'a [Channel])>,
) -> Result<RecordingWriter, RecordError> {
    if fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0) {
        return Err(RecordError::FileExists(path.to_path_buf()));
    }
    RecordingWriter::create(path, sensors).map_err(RecordError::Write)
}

impl Recorder {
    /// Describes these sensors in every recording; `wanted` is the file. Pass the tap to the sampler.
    pub(crate) fn new(sensors: &[Box<dyn Sensor>], wanted: Option<&Path>) -> (Tap, Self) {
        let described = sensors.iter().map(|sensor| (sensor.info().clone(), sensor.channels().to_vec())).collect();
        let state = Arc::new(Mutex::new(State::default()));
        let recorder = Self {
            described,
            wanted: wanted.map(Path::to_path_buf),
            state: Arc::clone(&state),
            lost: Mutex::default(),
        };
        let tap = move |_: &SensorInfo, key: SensorKey, batch: &Batch| {
            let mut state = lock(&state);
            if let State::On(open) = &mut *state {
                open.readings += batch.readings.len();
                if let Err(error) = open.writer.append(key, batch) {
                    *state = State::Failed(open.path.clone(), error);
                }
            }
        };
        (Box::new(tap), recorder)
    }

    fn sensors(&self) -> impl Iterator<Item = (&SensorInfo, &[Channel])> {
        self.described.iter().map(|(info, channels)| (info, channels.as_slice()))
    }

    /// Starts recording to the file of the settings, if there is one.
    pub(crate) fn start_wanted(&self) -> Result<(), RecordError> {
        let Some(path) = &self.wanted else { return Ok(()) };
        let writer = create_recording(path, self.sensors())?;
        *lock(&self.state) = State::On(Box::new(Open { path: path.clone(), writer, readings: 0 }));
        Ok(())
    }

    /// Starts a new file and returns its path. The name is that of the settings, or the time; a number makes it unique.
    pub(crate) fn start(&self) -> Result<PathBuf, RecordError> {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let wanted = self.wanted.clone().unwrap_or_else(|| PathBuf::from(format!("ergo-{}.jsonl.gz", stamp(seconds))));
        let mut path = wanted.clone();
        for number in 2.. {
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => {
                    let packing = if path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gz")) {
                        Packing::Gzip
                    } else {
                        Packing::Plain
                    };
                    let out = Box::new(BufWriter::new(file));
                    let writer = RecordingWriter::new(out, packing, self.sensors()).map_err(|error| {
                        remove_empty(&path);
                        RecordError::Write(error)
                    })?;
                    *lock(&self.state) = State::On(Box::new(Open { path: path.clone(), writer, readings: 0 }));
                    return Ok(path);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => path = numbered(&wanted, number),
                Err(source) => return Err(RecordError::Create { path, source }),
            }
        }
        Err(RecordError::NoFreeName(wanted))
    }

    /// Stops the recording, if there is one.
    pub(crate) fn stop(&self) -> Result<Option<Recorded>, RecordError> {
        match std::mem::take(&mut *lock(&self.state)) {
            State::Off => Ok(None),
            State::On(open) => {
                if let Err(error) = open.writer.finish() {
                    remove_empty(&open.path);
                    return Err(RecordError::Write(error));
                }
                Ok(Some(Recorded { path: open.path, readings: open.readings }))
            }
            State::Failed(path, error) => {
                remove_empty(&path);
                Err(RecordError::Write(error))
            }
        }
    }

    /// Stops the recording, or starts a new one.
    pub(crate) fn toggle(&self) -> Toggled {
        let toggled = self.stop().and_then(|recorded| match recorded {
            Some(recorded) => Ok(Toggled::Stopped(recorded)),
            None => self.start().map(Toggled::Started),
        });
        toggled.unwrap_or_else(|error| {
            let message = error.to_message();
            self.lost.lock().unwrap_or_else(PoisonError::into_inner).push(error);
            Toggled::Failed(message)
        })
    }

    /// Errors of recordings that the user started or stopped with a key.
    pub(crate) fn into_lost(self) -> Vec<RecordError> {
        self.lost.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file being written.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        match &*lock(&self.state) {
            State::On(open) => Some(open.path.clone()),
            State::Off | State::Failed(..) => None,
        }
    }

    /// Why the recording stopped, if writing failed.
    pub(crate) fn failure(&self) -> Option<String> {
        match &*lock(&self.state) {
            State::Failed(path, error) => Some(format!("recording to {} stopped: {error}", path.display())),
            State::Off | State::On(_) => None,
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the file if it is empty.
fn remove_empty(path: &Path) {
    if fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() == 0) {
        let _ = fs::remove_file(path);
    }
}

/// `run.jsonl.gz` becomes `run-2.jsonl.gz`.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (stem, ending) = name.split_at(name.find('.').filter(|&place| place > 0).unwrap_or(name.len()));
    path.with_file_name(format!("{stem}-{number}{ending}"))
}

/// A time in UTC as part of a file name: `20261116T064334Z`.
fn stamp(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years start in March here, so that the leap day comes last (Hinnant, "chrono-compatible low-level date
    // algorithms").
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year_of_era + carry;
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use ergometer_telemetry::recording;

    use super::*;

    #[test]
    fn file_names_have_the_time_or_a_number() {
        assert_eq!(stamp(0), "19700101T000000Z");
        assert_eq!(stamp(951_827_696), "20000229T123456Z");
        assert_eq!(stamp(1_794_811_414), "20261116T064334Z");
        assert_eq!(numbered(Path::new("a/run.jsonl.gz"), 2), Path::new("a/run-2.jsonl.gz"));
        assert_eq!(numbered(Path::new("run"), 3), Path::new("run-3"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn failed_recordings_are_reported_at_the_end() {
        let failure = |recorder: &Recorder| match recorder.toggle() {
            Toggled::Failed(message) => message,
            other => panic!("{other:?}"),
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        let (_, recorder) = Recorder::new(&[], Some(&folder.path().join("not there/run.jsonl")));
        let first = failure(&recorder);
        assert!(first.text.contains("not there"), "{first}");
        let full = RecordingWriter::create("/dev/full", recorder.sensors()).map(|_| ()).unwrap_err();
        fs::write(&path, "").unwrap();
        *lock(&recorder.state) = State::Failed(path.clone(), full);
        let second = failure(&recorder);
        assert!(!path.exists(), "nothing was written to it");
        assert!(recorder.stop().unwrap().is_none());
        let lost: Vec<Message> = recorder.into_lost().iter().map(Diagnostic::to_message).collect();
        assert_eq!(lost, [first, second]);
    }

    #[test]
    fn a_file_with_content_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        fs::write(&path, "{}").unwrap();
        let (_, recorder) = Recorder::new(&[], Some(&path));
        assert!(matches!(recorder.start_wanted(), Err(RecordError::FileExists(taken)) if taken == path));
        assert_eq!(fs::read(path).unwrap(), b"{}");
    }

    #[test]
    fn a_second_recording_gets_a_numbered_name() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = folder.path().join("run.jsonl");
        let (_, recorder) = Recorder::new(&[], Some(&wanted));
        recorder.start_wanted().unwrap();
        assert_eq!(recorder.path(), Some(wanted.clone()));
        assert_eq!(recorder.stop().unwrap().unwrap().path, wanted);
        assert_eq!(recorder.path(), None);
        let second = recorder.start().unwrap();
        assert_eq!(second, folder.path().join("run-2.jsonl"));
        recorder.stop().unwrap();
        assert!(recorder.stop().unwrap().is_none(), "nothing is being recorded");
        for path in [wanted, second] {
            assert!(recording::read_file(path).unwrap().is_empty(), "each file is complete");
        }
    }
}
