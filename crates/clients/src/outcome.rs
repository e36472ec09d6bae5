//! How a request ended.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Outcome {
    /// The answer came to its end.
    Completed,
    /// It failed; the run goes on.
    Failed {
        /// What kind of failure.
        kind: FailureKind,
        /// What happened, for people.
        cause: String,
    },
    /// The run was stopped while it was in flight.
    Cancelled,
    /// The run was killed while it was in flight.
    Lost,
}

impl Outcome {
    /// The name in tables and columns.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed { .. } => "failed",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
        }
    }

    /// Whether the query has been dealt with: a resumed run does not send it again.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        !matches!(self, Self::Cancelled | Self::Lost)
    }
}

/// The kinds of failure, by which they are counted. Written as one word: `connect`, `timeout_first_token`, `http_429`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// No connection: refused, no such host, no route.
    Connect,
    /// No connection that can be trusted: the certificate, or no TLS at all.
    Tls,
    /// No connection within `--connect-timeout`.
    TimeoutConnect,
    /// This process may open no more files, and a connection is one.
    Descriptors,
    /// This machine has no local port left towards the server.
    Ports,
    /// No content within `--first-token-timeout`.
    TimeoutFirstToken,
    /// No further content within `--token-timeout`.
    TimeoutBetweenTokens,
    /// It took longer than `--timeout`.
    TimeoutTotal,
    /// The server answered with another status than success.
    HttpStatus(u16),
    /// The connection was closed or reset before anything of the answer came.
    Disconnected,
    /// What came is not what was agreed on.
    Malformed,
    /// The server reported an error inside the answer.
    MidStream,
    /// The answer broke off: no end, and no reason.
    Truncated,
    /// The answer came to its end and there was nothing in it.
    Empty,
    /// The client did not take the request: a prompt too long, a parameter it does not know.
    Rejected,
    /// It was not sent, as an earlier turn of its conversation failed.
    Conversation,
}

/// Those with a fixed name.
const NAMED: [(FailureKind, &str); 15] = [
    (FailureKind::Connect, "connect"),
    (FailureKind::Tls, "tls"),
    (FailureKind::TimeoutConnect, "timeout_connect"),
    (FailureKind::Descriptors, "descriptors"),
    (FailureKind::Ports, "ports"),
    (FailureKind::TimeoutFirstToken, "timeout_first_token"),
    (FailureKind::TimeoutBetweenTokens, "timeout_between_tokens"),
    (FailureKind::TimeoutTotal, "timeout_total"),
    (FailureKind::Disconnected, "disconnected"),
    (FailureKind::Malformed, "malformed"),
    (FailureKind::MidStream, "mid_stream"),
    (FailureKind::Truncated, "truncated"),
    (FailureKind::Empty, "empty"),
    (FailureKind::Rejected, "rejected"),
    (FailureKind::Conversation, "conversation"),
];

impl FailureKind {
    /// The name in tables and columns.
    #[must_use]
    pub fn name(self) -> Cow<'static, str> {
        match (self, NAMED.iter().find(|(kind, _)| *kind == self)) {
            (Self::HttpStatus(status), _) => Cow::Owned(format!("http_{status}")),
            (_, Some((_, name))) => Cow::Borrowed(name),
            // Every kind but the one above stands in the list; a test looks.
            (_, None) => Cow::Borrowed("unknown"),
        }
    }

    /// Whether the same request may well succeed a moment later, so that a retry makes sense.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        match self {
            Self::Connect
            | Self::TimeoutConnect
            // Others let go of theirs meanwhile.
            | Self::Descriptors
            | Self::Ports
            | Self::TimeoutFirstToken
            | Self::TimeoutBetweenTokens
            | Self::Disconnected
            | Self::MidStream
            | Self::Truncated
            | Self::Empty => true,
            Self::HttpStatus(status) => matches!(status, 408 | 425 | 429 | 500 | 502..=504 | 529),
            Self::Tls | Self::TimeoutTotal | Self::Malformed | Self::Rejected | Self::Conversation => false,
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}

/// A word that is no kind of failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no kind of failure")]
pub struct ParseFailureKindError(String);

impl FromStr for FailureKind {
    type Err = ParseFailureKindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some((kind, _)) = NAMED.iter().find(|(_, name)| *name == text) {
            return Ok(*kind);
        }
        let status = text.strip_prefix("http_").and_then(|status| status.parse().ok());
        status.map(Self::HttpStatus).ok_or_else(|| ParseFailureKindError(text.to_owned()))
    }
}

impl Serialize for FailureKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

impl<'de> Deserialize<'de> for FailureKind {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_word_of_its_own() {
        let kinds = NAMED.iter().map(|(kind, _)| *kind).chain([429, 500].map(FailureKind::HttpStatus));
        for kind in kinds {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert_eq!(serde_json::from_str::<FailureKind>(&serde_json::to_string(&kind).unwrap()).unwrap(), kind);
            assert_ne!(kind.name(), "unknown");
        }
        assert_eq!(FailureKind::HttpStatus(429).to_string(), "http_429");
        assert!("http_".parse::<FailureKind>().is_err() && "gone".parse::<FailureKind>().is_err());
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let transient = [408, 429, 500, 502, 503, 504].map(FailureKind::HttpStatus);
        assert!(transient.iter().all(|kind| kind.is_transient()));
        let lasting = [400, 401, 403, 404, 413, 422, 501].map(FailureKind::HttpStatus);
        assert!(!lasting.iter().any(|kind| kind.is_transient()));
        assert!(FailureKind::Connect.is_transient() && !FailureKind::Tls.is_transient());
    }
}
