//! Records readings to a file with `--record`, and prints the events of sensors.

use std::path::Path;

use ergometer_diagnostics::{hint, option};
use ergometer_telemetry::recording::{RecordingError, RecordingHandle, RecordingWriter};
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
        refuse_existing(path)?;
        let described = sensors.iter().map(|sensor| (sensor.info(), sensor.channels()));
        let (tap, handle) = RecordingWriter::create(path, described).map_err(write_failure)?.into_tap();
        Ok((Some(tap), Self(Some(handle))))
    }

    /// Ends the file. After an error the file is incomplete, but the readings can still be printed.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        self.0.map_or(Ok(()), |handle| handle.finish().map_err(write_failure))
    }
}

fn write_failure(error: RecordingError) -> Failure {
    Failure::failed(error)
        .hint(hint!("check free space and permissions; read the part that was written with ", option("lenient")))
}

/// Refuses to overwrite a file: repeating a command with the up key must not destroy a recording.
fn refuse_existing(path: &Path) -> Result<(), Failure> {
    if std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0) {
        let message = format!("{} already exists, and recordings are not overwritten", path.display());
        return Err(Failure::usage(message).hint("choose another file name, or move this file away"));
    }
    Ok(())
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
