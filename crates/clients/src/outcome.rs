//! Outcomes of requests, and the kinds of failures by which they are counted.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Outcome {
    /// The answer is complete.
    Completed,
    /// The request failed; the run went on.
    Failed {
        /// The kind of failure.
        kind: FailureKind,
        /// What happened.
        cause: String,
    },
    /// The run was stopped while the request was in flight.
    Cancelled,
    /// The run was killed while the request was in flight.
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

    /// Whether a resumed run does not send the query again.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        !matches!(self, Self::Cancelled | Self::Lost)
    }
}

/// The kind of a failure. Written as one word: `connect`, `timeout_first_token`, `http_429`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// No connection: connection refused, unknown host, no route.
    Connect,
    /// No trusted connection: an untrusted certificate, or a server without TLS.
    Tls,
    /// No connection within `--connect-timeout`.
    TimeoutConnect,
    /// This process reached its limit of open files, and each connection needs one.
    Descriptors,
    /// This machine has no local port left for connections to the server.
    Ports,
    /// No content within `--first-token-timeout`.
    TimeoutFirstToken,
    /// No further content within `--token-timeout`.
    TimeoutBetweenTokens,
    /// The request took longer than `--timeout`.
    TimeoutTotal,
    /// The server answered with this HTTP status, which is not success.
    HttpStatus(u16),
    /// The connection was closed or reset before any part of the answer arrived.
    Disconnected,
    /// The answer does not follow the protocol.
    Malformed,
    /// The server reported an error inside the answer.
    MidStream,
    /// The answer stopped without an end marker.
    Truncated,
    /// The answer is complete but empty.
    Empty,
    /// The client rejected the request: the prompt is too long, or a parameter is unknown.
    Rejected,
    /// The request was not sent, because an earlier turn of its conversation failed.
    Conversation,
    /// The request and its answer are too large to be kept.
    TooLarge,
}

/// The kinds with a fixed name.
const NAMED: [(FailureKind, &str); 16] = [
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
    (FailureKind::TooLarge, "too_large"),
];

impl FailureKind {
    /// The name in tables and columns.
    #[must_use]
    pub fn name(self) -> Cow<'static, str> {
        match (self, NAMED.iter().find(|(kind, _)| *kind == self)) {
            (Self::HttpStatus(status), _) => Cow::Owned(format!("http_{status}")),
            (_, Some((_, name))) => Cow::Borrowed(name),
            // A test checks that every other kind is in the list.
            (_, None) => Cow::Borrowed("unknown"),
        }
    }

    /// Whether the same request may succeed a moment later, so that a retry makes sense.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        match self {
            Self::Connect
            | Self::TimeoutConnect
            // Other requests may release theirs in the meantime.
            | Self::Descriptors
            | Self::Ports
            | Self::TimeoutFirstToken
            | Self::TimeoutBetweenTokens
            | Self::Disconnected
            | Self::MidStream
            | Self::Truncated
            | Self::Empty => true,
            Self::HttpStatus(status) => matches!(status, 408 | 425 | 429 | 500 | 502..=504 | 529),
            Self::Tls | Self::TimeoutTotal | Self::Malformed | Self::Rejected | Self::Conversation | Self::TooLarge => false,
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}

/// A text that is not a kind of failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a kind of failure")]
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
    fn every_kind_has_a_unique_name() {
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
    fn only_transient_failures_are_retried() {
        let transient = [408, 429, 500, 502, 503, 504].map(FailureKind::HttpStatus);
        assert!(transient.iter().all(|kind| kind.is_transient()));
        let lasting = [400, 401, 403, 404, 413, 422, 501].map(FailureKind::HttpStatus);
        assert!(!lasting.iter().any(|kind| kind.is_transient()));
        assert!(FailureKind::Connect.is_transient() && !FailureKind::Tls.is_transient());
    }
}
