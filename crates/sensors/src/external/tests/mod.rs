//! Tests with real commands and real files.

mod command;
mod csv;
mod prometheus;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use ergometer_diagnostics::CommandLine;
use ergometer_telemetry::{Batch, Clock, EventKind, Provenance, Signal};
use ergometer_units::Timestamp;

use super::*;

fn spec(text: &str) -> Spec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn open(spec: &Spec, number: u32) -> Result<Box<dyn Sensor>, ExternalError> {
    open_each(std::slice::from_ref(spec), number).remove(0)
}

/// The error of a sensor that cannot be opened, with its hint.
fn open_error(text: &str) -> String {
    match open(&spec(text), 0) {
        Ok(_) => panic!("{text} opens"),
        Err(error) => error.one_line(&CommandLine),
    }
}

/// A sensor with its clock.
struct Bench {
    sensor: Box<dyn Sensor>,
    clock: Clock,
}

impl Bench {
    fn new(text: &str) -> Self {
        let sensor = open(&spec(text), 0).unwrap_or_else(|error| panic!("{text}: {error}"));
        Self { sensor, clock: Clock::start() }
    }

    fn sample(&mut self) -> Batch {
        let mut batch = Batch::default();
        self.sensor.sample(&self.clock, &mut batch).unwrap();
        batch
    }

    fn values(&mut self) -> Vec<f64> {
        values(&self.sample())
    }

    /// Samples until there is a reading or an event: a command takes some time.
    fn until_something(&mut self) -> Batch {
        loop {
            let batch = self.sample();
            if !batch.readings.is_empty() || !batch.events.is_empty() {
                return batch;
            }
        }
    }

    /// Seconds since the epoch at this many seconds from now.
    fn time(&self, seconds: f64) -> String {
        let now = self.clock.now().nanos_since_epoch() as f64 / 1e9;
        format!("{:.6}", now + seconds)
    }
}

fn values(batch: &Batch) -> Vec<f64> {
    batch.readings.iter().map(|reading| reading.value).collect()
}

fn kinds(batch: &Batch) -> Vec<EventKind> {
    batch.events.iter().map(|event| event.kind).collect()
}

/// A temporary folder with one file.
struct Fixture {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Fixture {
    fn new(name: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        Self { folder, path }
    }

    fn append(&self, text: impl AsRef<[u8]>) {
        OpenOptions::new().append(true).open(&self.path).unwrap().write_all(text.as_ref()).unwrap();
    }

    /// Replaces the file by another one, as log rotation and atomic writers do.
    fn replace(&self, text: &str) {
        let other = self.folder.path().join("other");
        fs::write(&other, text).unwrap();
        fs::rename(&other, &self.path).unwrap();
    }

    fn spec(&self, start: &str) -> String {
        format!("{start}:{}", self.path.display())
    }
}

#[test]
fn ids_are_unique_and_meters_are_numbered() {
    let specs = ["command:echo 1 W", "command[name=echo-2]:echo 2 W", "command:echo 3 W"].map(spec);
    let sensors = open_all(&specs, 4).unwrap();
    let found: Vec<(&str, u32)> =
        sensors.iter().map(|sensor| (sensor.info().id.as_str(), sensor.info().device.index)).collect();
    assert_eq!(found, [("command:echo", 4), ("command:echo-2", 5), ("command:echo-3", 6)]);
    let wrong = ["command:echo 1 W", "command:false"].map(spec);
    assert!(open_all(&wrong, 0).is_err_and(|error| error.sensor == "command:false"));
}

#[test]
fn a_failed_sensor_keeps_its_id_and_number() {
    let specs = ["command:echo fish. hint: eat it", "command:echo 2 W", "command:echo 3 W"].map(spec);
    let found: Vec<String> = open_each(&specs, 1)
        .into_iter()
        .map(|opened| match opened {
            Ok(sensor) => format!("{} {}", sensor.info().id, sensor.info().device),
            Err(error) => {
                assert_eq!(error.hint(), Some(Hint::text("set pattern='…([0-9.]+)…' to match the value")));
                assert!(error.cause.text.ends_with("`fish. hint: eat it`"), "the output is not a hint: {error}");
                assert_eq!(error.to_string(), format!("command:echo gives no value: {}", error.cause));
                error.sensor
            }
        })
        .collect();
    assert_eq!(found, ["command:echo", "command:echo-2 meter:2", "command:echo-3 meter:3"]);
}
