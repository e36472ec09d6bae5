//! Errors of clients and of single requests.

use std::time::Duration;

use ergometer_diagnostics::{Diagnostic, Hint, Message, hint};

use super::FailureKind;

/// Why a client cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No client has this id.
    #[error("unknown client `{id}`")]
    Unknown {
        /// The requested id.
        id: String,
        /// The ids that exist.
        known: String,
    },
    /// A parameter or option that the client does not have or whose value is invalid.
    #[error("{0}")]
    Parameter(Message),
    /// The model cannot be used.
    #[error("{0}")]
    Model(Message),
    /// No server answers at the address.
    #[error("{0}")]
    Unreachable(Message),
    /// The server answers but cannot be used.
    #[error("{0}")]
    Unavailable(Message),
}

impl Diagnostic for ClientError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Unknown { known, .. } => Some(hint!("the clients are ", known.clone())),
            Self::Parameter(message)
            | Self::Model(message)
            | Self::Unreachable(message)
            | Self::Unavailable(message) => message.hint(),
        }
    }
}

/// Maximum length of a cause in characters; a server may send any amount of text.
pub(super) const LONGEST_CAUSE: usize = 2000;

/// Why one request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct RequestError {
    /// The kind of failure, by which failures are counted.
    pub kind: FailureKind,
    /// What happened.
    pub cause: String,
    /// What to do about it.
    pub hint: Option<Hint>,
    /// How long the server asks the client to wait before a retry.
    pub retry_after: Option<Duration>,
    /// Whether the request was lost because the server closed an idle connection at the same moment. Such a request is
    /// sent again even when retries are off.
    pub is_stale: bool,
}

impl RequestError {
    /// A failure of this kind.
    pub fn new(kind: FailureKind, cause: impl Into<String>) -> Self {
        let mut cause = cause.into();
        if let Some((end, _)) = cause.char_indices().nth(LONGEST_CAUSE) {
            cause.truncate(end);
            cause.push('…');
        }
        Self { kind, cause, hint: None, retry_after: None, is_stale: false }
    }

    /// The same failure with a hint.
    #[must_use]
    pub fn with_hint(self, hint: Hint) -> Self {
        Self { hint: Some(hint), ..self }
    }
}

impl Diagnostic for RequestError {
    fn hint(&self) -> Option<Hint> {
        self.hint.clone()
    }
}
