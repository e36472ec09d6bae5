//! Errors of preparing or making a run.

use std::path::{Path, PathBuf};

use ergometer_diagnostics::{Diagnostic, Hint, Message, hint, option};
use ergometer_runs::Closing;
use ergometer_runs::config::MissingSecret;
use ergometer_sensors::external::ExternalError;

use crate::close::CloseError;
use crate::config::DeviceError;
use crate::journal::JournalError;
use crate::review::JudgeError;
use ergometer_clients::server_metrics::MetricsError;
use ergometer_clients::{ClientError, FailureKind, Protocol};
use ergometer_datasets::DatasetError;

/// Why a run could not be prepared, or stopped.
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
    /// A device that does not exist, or has no energy.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A sensor configured by the user does not work.
    #[error(transparent)]
    Sensor(#[from] ExternalError),
    /// The server's metrics are configured but not available.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The configuration is invalid.
    #[error("{0}")]
    Config(Message),
    /// A bug in ergo or a lack of resources: a task panicked, or a thread could not be started.
    #[error("{0}")]
    Internal(Message),
    /// The server does not answer any more.
    #[error("the server did not answer {cause}")]
    ServerGone {
        /// Since when, and the last error.
        cause: String,
    },
    /// The server answers, but not in the HTTP version of the configuration, so resuming the run cannot help.
    #[error("the server did not answer with {} {cause}", protocol.name().to_uppercase())]
    OtherProtocol {
        /// The HTTP version of the requests.
        protocol: Protocol,
        /// Since when, and the last error.
        cause: String,
    },
    /// The run folder already exists.
    #[error("{} already exists", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// The folder is not a run.
    #[error("{} exists and is not a run folder, so it was not changed", path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
    },
    /// The old run could not be moved aside, or the new one could not be renamed.
    #[error("cannot replace {}: {cause}", path.display())]
    NotReplaced {
        /// The folder to replace.
        path: PathBuf,
        /// Where the new run is.
        new: PathBuf,
        /// What went wrong.
        cause: Box<Self>,
    },
    /// The run cannot be resumed.
    #[error("cannot resume {}: {why}", path.display())]
    NotResumable {
        /// The run folder.
        path: PathBuf,
        /// What prevents it, with a hint.
        why: Message,
    },
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The readings cannot be written.
    #[error(transparent)]
    Recording(#[from] ergometer_telemetry::recording::RecordingError),
    /// The result files of the run could not be written.
    #[error(transparent)]
    Close(#[from] CloseError),
}

impl Diagnostic for RunError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Dataset(error) => error.hint(),
            Self::Client(error) => error.hint(),
            Self::Judge(error) => error.hint(),
            Self::Device(error) => error.hint(),
            Self::Sensor(error) => error.hint(),
            Self::Metrics(error) => error.hint(),
            Self::Config(message) | Self::Internal(message) | Self::NotResumable { why: message, .. } => {
                message.hint.clone()
            }
            Self::ServerGone { .. } => {
                Some(hint!("check that the server runs and speaks the version of HTTP that ", option("http"), " sets"))
            }
            Self::OtherProtocol { protocol: Protocol::Http2, .. } => {
                Some(hint!("the server does not speak HTTP/2: start a new run with ", option("http").value("1.1")))
            }
            Self::OtherProtocol { protocol: Protocol::Http1, .. } => Some(hint!(
                "the server does not speak HTTP/1.1: check ",
                option("base-url"),
                ", or start a new run with ",
                option("http").value("2")
            )),
            Self::Exists { path } => Some(hint!(
                option("overwrite"),
                " replaces it, ",
                option("name").value("SUFFIX"),
                " creates another folder, ",
                option("resume").value(path.display().to_string()),
                " continues it"
            )),
            Self::NotARun { .. } => Some(hint!(
                "create another folder with ",
                option("name").value("SUFFIX"),
                " or ",
                option("output-dir").value("DIR")
            )),
            Self::NotReplaced { new, .. } => {
                Some(hint!(format!("the new run is in {0}; rename {0} to keep the new run", new.display())))
            }
            Self::Recording(error) => error.hint(),
            Self::Journal(error) => error.hint(),
            Self::Close(error) => error.hint(),
        }
    }
}

impl RunError {
    /// Creates the error of a server that did not answer any request, the last one with this kind of failure.
    pub(crate) fn no_answer(kind: FailureKind, protocol: Protocol, cause: String) -> Self {
        // Without a byte of an answer in this version of HTTP, only the bytes of another protocol are malformed.
        match kind {
            FailureKind::Malformed => Self::OtherProtocol { protocol, cause },
            _ => Self::ServerGone { cause },
        }
    }

    /// Creates an error of an invalid configuration.
    pub(crate) fn config(message: impl Into<Message>) -> Self {
        Self::Config(message.into())
    }

    /// Creates an error of a bug in ergo.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::Internal(Message::new(message).with_hint(hint!("this is a bug in ergo; please report it")))
    }

    /// Why a session ended if it ended with this error.
    pub(crate) fn closing(&self) -> Closing {
        match self {
            // A configuration was valid at the start, so only a query can break it later.
            Self::Dataset(_) | Self::Config(_) => Closing::Unreadable,
            Self::ServerGone { .. } | Self::OtherProtocol { .. } => Closing::TooManyFailures,
            Self::Journal(_)
            | Self::Recording(_)
            | Self::Close(_)
            | Self::Exists { .. }
            | Self::NotARun { .. }
            | Self::NotReplaced { .. } => Closing::Unwritable,
            // All but the first end a run before its session starts.
            Self::Internal(_)
            | Self::Client(_)
            | Self::Judge(_)
            | Self::Device(_)
            | Self::Sensor(_)
            | Self::Metrics(_)
            | Self::NotResumable { .. } => Closing::Failed,
        }
    }

    /// Creates the error of a run that cannot be resumed.
    pub(crate) fn not_resumable(folder: &Path, why: impl Into<Message>) -> Self {
        Self::NotResumable { path: folder.to_path_buf(), why: why.into() }
    }

    /// Creates the error of a run that needs a secret to resume; secrets are never stored.
    pub(crate) fn missing_secret(folder: &Path, secret: &MissingSecret) -> Self {
        let why = Message::new(format!("{} is a secret and was not stored", secret.what));
        Self::not_resumable(folder, why.with_hint(hint!("pass it again with ", option(secret.option))))
    }
}
