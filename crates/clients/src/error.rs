//! What can be wrong with a client, and with one request.

use std::time::Duration;

use super::FailureKind;

/// Why a client cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No client of this id.
    #[error("unknown client `{id}`. hint: there are {known}")]
    Unknown {
        /// What was asked for.
        id: String,
        /// What there is.
        known: String,
    },
    /// A parameter or an option the client does not have, or cannot take.
    #[error("{0}")]
    Parameter(String),
    /// The model cannot be used.
    #[error("{0}")]
    Model(String),
    /// It does not answer.
    #[error("{0}")]
    Unavailable(String),
}

/// The most characters of a cause: a server may say anything.
pub(super) const LONGEST_CAUSE: usize = 2000;

/// Why one request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct RequestError {
    /// What kind of failure.
    pub kind: FailureKind,
    /// What happened.
    pub cause: String,
    /// How long the server wants to be left alone, where it says so.
    pub retry_after: Option<Duration>,
    /// Whether it was lost on a connection that the server was just closing: another attempt is due, whatever was asked for.
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
        Self { kind, cause, retry_after: None, is_stale: false }
    }
}
