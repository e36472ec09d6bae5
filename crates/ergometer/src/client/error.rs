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
}

impl RequestError {
    /// A failure of this kind.
    pub fn new(kind: FailureKind, cause: impl Into<String>) -> Self {
        Self { kind, cause: cause.into(), retry_after: None }
    }
}
