//! How a request ended.

use std::fmt;

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

/// The kinds of failure, by which they are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The client or the server did not take the request: a prompt too long, a parameter it does not know.
    Rejected,
    /// It took longer than `--timeout`.
    TimedOut,
    /// The answer broke off with an error.
    MidStream,
}

impl FailureKind {
    /// The name in tables and columns.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::TimedOut => "timed_out",
            Self::MidStream => "mid_stream",
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
