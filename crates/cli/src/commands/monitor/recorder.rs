//! Readings go to a file that can be begun and ended while sampling goes on. What the user did not name is never
//! written over.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use ergometer_telemetry::recording::{Packing, RecordingError, RecordingWriter};
use ergometer_telemetry::{Batch, Channel, Sensor, SensorInfo, SensorKey, Tap};

use crate::exit::Failure;
use crate::keep::{refuse_taken, unwritten};

/// A place where recordings can be made.
pub(super) struct Recorder {
    described: Vec<(SensorInfo, Vec<Channel>)>,
    /// The name the user gave.
    wanted: Option<PathBuf>,
    state: Arc<Mutex<State>>,
    /// Why recordings that a key began or ended were lost: told again once the screen is gone.
    lost: Mutex<Vec<String>>,
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

/// A recording that was ended.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) path: PathBuf,
    pub(super) readings: usize,
}

impl Recorder {
    /// Knows the sensors, and the file the user named. The tap goes to the sampler.
    pub(super) fn new(sensors: &[Box<dyn Sensor>], wanted: Option<&Path>) -> (Tap, Self) {
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

    /// Begins with the file the user named, where they did; one that holds something is not written over.
    pub(super) fn start_wanted(&self) -> Result<(), Failure> {
        let Some(path) = &self.wanted else { return Ok(()) };
        refuse_taken(path)?;
        let writer = RecordingWriter::create(path, self.sensors()).map_err(unwritten)?;
        *lock(&self.state) = State::On(Box::new(Open { path: path.clone(), writer, readings: 0 }));
        Ok(())
    }

    /// Begins a new file beside those that are there, named by the user or by the time. Says which.
    pub(super) fn start(&self) -> Result<PathBuf, Failure> {
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
                        unwritten(error)
                    })?;
                    *lock(&self.state) = State::On(Box::new(Open { path: path.clone(), writer, readings: 0 }));
                    return Ok(path);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => path = numbered(&wanted, number),
                Err(error) => return Err(Failure::failed(format!("cannot create {}: {error}", path.display()))),
            }
        }
        Err(Failure::failed("no name is free"))
    }

    /// Ends the recording, if there is one. Readings after this are not kept.
    pub(super) fn stop(&self) -> Result<Option<Recorded>, Failure> {
        match std::mem::take(&mut *lock(&self.state)) {
            State::Off => Ok(None),
            State::On(open) => {
                if let Err(error) = open.writer.finish() {
                    remove_empty(&open.path);
                    return Err(unwritten(error));
                }
                Ok(Some(Recorded { path: open.path, readings: open.readings }))
            }
            State::Failed(path, error) => {
                remove_empty(&path);
                Err(unwritten(error))
            }
        }
    }

    /// Begins a recording or ends it, as a key asks, and says what became of it.
    pub(super) fn toggle(&self) -> Option<String> {
        let done = if self.is_off() {
            self.start().map(|path| Some(format!("recording every reading to {}", path.display())))
        } else {
            self.stop().map(|recorded| {
                recorded.map(|it| format!("recorded {} readings in {}", it.readings, it.path.display()))
            })
        };
        done.unwrap_or_else(|failure| {
            let message = failure.to_string();
            self.lost.lock().unwrap_or_else(PoisonError::into_inner).push(message.clone());
            Some(message)
        })
    }

    /// Why recordings that a key began or ended were lost.
    pub(super) fn lost(&self) -> Vec<String> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_off(&self) -> bool {
        matches!(&*lock(&self.state), State::Off)
    }

    /// The file that is written to.
    pub(super) fn path(&self) -> Option<PathBuf> {
        match &*lock(&self.state) {
            State::On(open) => Some(open.path.clone()),
            State::Off | State::Failed(..) => None,
        }
    }

    /// Why readings are no longer kept, where writing failed.
    pub(super) fn failure(&self) -> Option<String> {
        match &*lock(&self.state) {
            State::Failed(path, error) => Some(format!("recording to {} ended: {error}", path.display())),
            State::Off | State::On(_) => None,
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that nothing was written to tells nobody anything.
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

/// A time of the Gregorian calendar in UTC, as a name of a file: `20261116T064334Z`.
fn stamp(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that the leap day comes last (Hinnant, "chrono-compatible low-level date algorithms").
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
    fn names_tell_the_time_and_count() {
        assert_eq!(stamp(0), "19700101T000000Z");
        assert_eq!(stamp(951_827_696), "20000229T123456Z");
        assert_eq!(stamp(1_794_811_414), "20261116T064334Z");
        assert_eq!(numbered(Path::new("a/run.jsonl.gz"), 2), Path::new("a/run-2.jsonl.gz"));
        assert_eq!(numbered(Path::new("run"), 3), Path::new("run-3"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_a_full_disk_lost_is_told_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        let (_, recorder) = Recorder::new(&[], Some(&folder.path().join("not there/run.jsonl")));
        let first = recorder.toggle().unwrap();
        assert!(first.contains("not there"), "{first}");
        let full = RecordingWriter::create("/dev/full", recorder.sensors()).map(|_| ()).unwrap_err();
        fs::write(&path, "").unwrap();
        *lock(&recorder.state) = State::Failed(path.clone(), full);
        let second = recorder.toggle().unwrap();
        assert_eq!(recorder.lost(), [first, second], "the screen told it, and will be gone");
        assert!(!path.exists(), "nothing was written to it");
        assert!(recorder.stop().unwrap().is_none());
    }

    #[test]
    fn a_second_recording_stands_beside_the_first() {
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
        assert!(recorder.stop().unwrap().is_none(), "there is none to end");
        for path in [wanted, second] {
            assert!(recording::read_file(path).unwrap().is_empty(), "each is whole");
        }
    }
}
