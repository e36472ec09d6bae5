//! Why a command could not be measured.

use std::io;

use ergometer_diagnostics::{Diagnostic, Hint, command, hint};

/// Why a command could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The command is empty.
    #[error("no command to measure")]
    NoCommand,
    /// No sensor measures or models energy or power.
    #[error("this machine has no energy or power sensor")]
    NoSensor,
    /// The command cannot be started.
    #[error("cannot run `{program}`: {source}")]
    Spawn {
        /// The program.
        program: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The command cannot be waited for.
    #[error("cannot wait for the command: {0}")]
    Command(io::Error),
    /// The caller interrupted the measurement before the first run.
    #[error("interrupted before the command was started")]
    Interrupted,
}

impl Diagnostic for MeasureError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NoSensor => Some(hint!(command("doctor"), " says what is missing and how to fix it")),
            Self::Spawn { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => {
                    Some(Hint::text("check that it is installed and on the PATH; shell syntax needs `sh -c '…'`"))
                }
                io::ErrorKind::PermissionDenied => Some(Hint::text("make it executable with `chmod +x`")),
                _ => None,
            },
            Self::NoCommand | Self::Command(_) | Self::Interrupted => None,
        }
    }
}
