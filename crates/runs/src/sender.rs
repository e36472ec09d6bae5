//! How a session ended, and how its sender did.

use serde::{Deserialize, Serialize};

use ergometer_clients::Connections;

/// How the sender did over the time of the requests of one session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SenderFacts {
    /// From when, in nanoseconds since the epoch.
    pub start_ns: i64,
    /// To when.
    pub end_ns: i64,
    /// The processor time of this process, in seconds.
    pub processor_s: f64,
    /// How many cores it may use: as many as it has threads that send.
    pub cores: u32,
    /// How much of the machine's processors was in use, 0 to 1, by whomever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_utilization: Option<f64>,
    /// How late a task that asked to be woken was woken, in milliseconds: so late may an arrival have been seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_lag_ms: Option<WakeLag>,
    /// How many requests were in flight at most.
    pub most_in_flight: u64,
    /// How many files and sockets may be open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub descriptor_limit: Option<u64>,
    /// What the connections came to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
}

/// How late a task was woken, in milliseconds.
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
    /// Every query was dealt with.
    Finished,
    /// The time asked for was over.
    Duration,
    /// There were as many failures as were allowed.
    TooManyFailures,
    /// The user stopped it.
    Interrupted,
    /// What was measured could not be written any more.
    Unwritable,
    /// The dataset could not be read any more.
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
