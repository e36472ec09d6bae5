//! Facts about the sender of a session, and how the session ended.

use serde::{Deserialize, Serialize};

use ergometer_clients::Connections;

/// Facts about the sender during the requests of one session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SenderFacts {
    /// The start, in nanoseconds since the epoch.
    pub start_ns: i64,
    /// The end, in nanoseconds since the epoch.
    pub end_ns: i64,
    /// The processor time of this process, in seconds.
    pub processor_s: f64,
    /// The cores it may use, which is the number of sending threads.
    pub cores: u32,
    /// The utilization of the machine's processors by all processes, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_utilization: Option<f64>,
    /// How late timers woke tasks, in milliseconds. Times of arrival can be late by as much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_lag_ms: Option<WakeLag>,
    /// The most requests in flight.
    pub most_in_flight: u64,
    /// The limit on open files and sockets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub descriptor_limit: Option<u64>,
    /// Counts of connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
}

/// How late timers woke tasks, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "a count and percentiles")]
pub struct WakeLag {
    pub count: u64,
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closing {
    /// Every query is done.
    Finished,
    /// The requested duration was over.
    Duration,
    /// Too many requests failed.
    TooManyFailures,
    /// The user stopped it.
    Interrupted,
    /// The journal could not be written.
    Unwritable,
    /// The dataset could not be read.
    Unreadable,
    /// Ergometer itself failed.
    Failed,
}

impl Closing {
    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Duration => "duration",
            Self::TooManyFailures => "too_many_failures",
            Self::Interrupted => "interrupted",
            Self::Unwritable => "unwritable",
            Self::Unreadable => "unreadable",
            Self::Failed => "failed",
        }
    }
}
