//! How the sender of requests did: what tells whether it, and not the server, was the limit.

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
