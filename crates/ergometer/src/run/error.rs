//! Why a run could not be made or went no further.

use std::path::{Path, PathBuf};

use ergometer_diagnostics::{Message, hint};
use ergometer_sensors::external::{ExternalError, SpecError};

use crate::close::CloseError;
use crate::config::DeviceError;
use crate::journal::JournalError;
use crate::review::JudgeError;
use ergometer_clients::ClientError;
use ergometer_clients::server_metrics::MetricsError;
use ergometer_datasets::DatasetError;
use ergometer_datasets::grade::GraderError;

/// Why a run could not be made or went no further.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The dataset cannot be used.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The client cannot be used.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The judge cannot be used.
    #[error(transparent)]
    Judge(#[from] JudgeError),
    /// The grader does not exist.
    #[error(transparent)]
    Grader(#[from] GraderError),
    /// A device that does not exist, or has no energy.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A sensor the user brings along does not work.
    #[error(transparent)]
    Sensor(#[from] ExternalError),
    /// A sensor is not written as it should be.
    #[error("--sensor: {0}")]
    SensorSpec(#[from] SpecError),
    /// The server's metrics were asked for and are not there.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// What was asked for cannot be.
    #[error("{0}")]
    Config(String),
    /// The run folder is there already.
    #[error("{} exists. hint: `--overwrite` replaces it, `--name SUFFIX` makes another, `--resume {}` goes on with it", path.display(), path.display())]
    Exists {
        /// Which folder.
        path: PathBuf,
    },
    /// What is there is no run.
    #[error("{} exists and is no run folder, so it is left alone. hint: `--name SUFFIX` or `--output-dir DIR` makes another", path.display())]
    NotARun {
        /// Which folder.
        path: PathBuf,
    },
    /// A run cannot be resumed as it is.
    #[error("cannot resume {}: {why}", path.display())]
    NotResumable {
        /// The run folder.
        path: PathBuf,
        /// Why not.
        why: Message,
    },
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The readings cannot be written.
    #[error(transparent)]
    Recording(#[from] ergometer_telemetry::recording::RecordingError),
    /// The files of the run could not be derived.
    #[error(transparent)]
    Close(#[from] CloseError),
}

impl RunError {
    /// A run that cannot be resumed.
    pub(crate) fn not_resumable(folder: &Path, why: impl Into<Message>) -> Self {
        Self::NotResumable { path: folder.to_path_buf(), why: why.into() }
    }

    /// A run that cannot be resumed without a secret, which is never stored.
    pub(crate) fn missing_secret(folder: &Path, secret: &str) -> Self {
        let why = Message::new(format!("{secret} is a secret and was not stored"));
        Self::not_resumable(folder, why.with_hint(hint!("pass it again")))
    }
}
