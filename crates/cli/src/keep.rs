//! What every command that samples does: keep the readings in a file where one was asked for, and tell what happened.

use std::path::Path;

use ergometer_diagnostics::{hint, option};
use ergometer_telemetry::recording::{RecordingError, RecordingHandle, RecordingWriter};
use ergometer_telemetry::{Event, Sensor, Tap};

use crate::bridge::diagnosed;
use crate::exit::Failure;
use crate::screen::Screen;

/// A recording that is being written, or none.
#[derive(Default)]
pub(crate) struct Keep(Option<RecordingHandle>);

impl Keep {
    /// Starts the file. The tap goes to the sampler.
    pub(crate) fn start(path: Option<&Path>, sensors: &[Box<dyn Sensor>]) -> Result<(Option<Tap>, Self), Failure> {
        let Some(path) = path else { return Ok((None, Self(None))) };
        refuse_taken(path)?;
        let described = sensors.iter().map(|sensor| (sensor.info(), sensor.channels()));
        let (tap, handle) = RecordingWriter::create(path, described).map_err(unwritten)?.into_tap();
        Ok((Some(tap), Self(Some(handle))))
    }

    /// Ends the file. An error here means that the file is not whole; what was measured is still there to be shown.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        self.0.map_or(Ok(()), |handle| handle.finish().map_err(unwritten))
    }
}

pub(crate) fn unwritten(error: RecordingError) -> Failure {
    Failure::failed(diagnosed!(error))
        .hint(hint!("check free space and permissions; read the part that was written with ", option("lenient")))
}

/// A recording is never written over: the command that made it is one key away.
pub(crate) fn refuse_taken(path: &Path) -> Result<(), Failure> {
    if std::fs::metadata(path).is_ok_and(|there| there.is_file() && there.len() > 0) {
        let taken = format!("{} already exists, and recordings are not overwritten", path.display());
        return Err(Failure::usage(taken).hint("choose another file name, or move this file away"));
    }
    Ok(())
}

/// Tells each thing that happened to the sensors once.
pub(crate) fn tell_events(events: &[Event], screen: Screen) {
    let mut told: Vec<&str> = Vec::new();
    for event in events {
        if !told.contains(&event.message.as_str()) {
            screen.warning(event);
            told.push(&event.message);
        }
    }
}
