//! Records readings to a file with `--record`, and prints the events of sensors.

use std::path::Path;

use ergometer_monitor::{RecordError, create_recording};
use ergometer_telemetry::recording::RecordingHandle;
use ergometer_telemetry::{Event, Sensor, Tap};

use crate::exit::Failure;
use crate::screen::Screen;

/// A recording in progress, if one was requested.
#[derive(Default)]
pub(crate) struct Recorder(Option<RecordingHandle>);

impl Recorder {
    /// Creates the file. Pass the tap to the sampler.
    pub(crate) fn start(path: Option<&Path>, sensors: &[Box<dyn Sensor>]) -> Result<(Option<Tap>, Self), Failure> {
        let Some(path) = path else { return Ok((None, Self(None))) };
        let described = sensors.iter().map(|sensor| (sensor.info(), sensor.channels()));
        let (tap, handle) = create_recording(path, described).map_err(record_failure)?.into_tap();
        Ok((Some(tap), Self(Some(handle))))
    }

    /// Ends the file. After an error the file is incomplete, but the readings can still be printed.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        self.0.map_or(Ok(()), |handle| handle.finish().map_err(|error| record_failure(RecordError::Write(error))))
    }
}

/// An existing file is a usage error, because another name solves it.
pub(crate) fn record_failure(error: RecordError) -> Failure {
    match error {
        RecordError::FileExists(_) => Failure::usage(error),
        RecordError::Create { .. } | RecordError::NoFreeName(_) | RecordError::Write(_) => Failure::failed(error),
    }
}

/// Prints each event of the sensors once.
pub(crate) fn print_events(events: &[Event], screen: Screen) {
    let mut printed: Vec<&str> = Vec::new();
    for event in events {
        if !printed.contains(&event.message.as_str()) {
            screen.warning(event);
            printed.push(&event.message);
        }
    }
}
