//! The load of a run: rates, latencies, requests in flight, and the steady state.

use std::collections::BTreeMap;

use ergometer_clients::{Connections, FailureKind};
use ergometer_statistics::{Distribution, Estimate};
use serde::{Deserialize, Serialize};

use super::{ClientSummary, EnergySource};
use crate::config::Axis;

/// The load of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named in METRICS")]
pub struct LoadSummary {
    pub mode: Axis,
    pub concurrency: Option<u32>,
    pub rate: Option<f64>,
    /// The scheduled rate of an open loop, in requests per second.
    pub rate_asked: Option<f64>,
    #[serde(flatten)]
    pub whole: LoadFigures,
    /// Whether the client, and not the server, was the limit.
    #[serde(default)]
    pub client_limited: bool,
    #[serde(default)]
    pub client: ClientSummary,
    /// Counts of connections, if the client reports them.
    pub connections: Option<Connections>,
    /// Requests for which a connection was opened, if the client reports it.
    pub requests_on_new_connections: Option<u64>,
    /// The TTFT of these requests, which includes the time to connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_new_connection_ms: Option<Distribution>,
    pub steady_state: Option<SteadyState>,
    /// Why there is no steady state.
    pub steady_state_reason: Option<String>,
}

/// How many requests were in flight.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct InFlightSummary {
    /// The mean over time.
    pub mean: f64,
    /// The highest number.
    pub max: u64,
}

/// The figures of the whole run or of its steady state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named in METRICS")]
pub struct LoadFigures {
    pub duration_s: f64,
    /// Completed requests.
    pub requests_per_second: Option<f64>,
    /// `None` if the tokens of some answers are unknown.
    pub output_tokens_per_second: Option<f64>,
    /// Requests sent, without retries.
    pub sent_per_second: Option<f64>,
    pub completed: u64,
    #[serde(default)]
    pub failed: BTreeMap<FailureKind, u64>,
    /// `None` without limits.
    pub goodput: Option<Goodput>,
    pub in_flight: Option<InFlightSummary>,
    pub ttft_ms: Option<Distribution>,
    /// The time to the first output that is not reasoning; `None` if it equals the TTFT of every request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttfo_ms: Option<Distribution>,
    pub ttft_scheduled_ms: Option<Distribution>,
    pub itl_ms: Option<Distribution>,
    pub tpot_ms: Option<Distribution>,
    pub e2e_ms: Option<Distribution>,
    /// Covers every request that was sent, including failed ones, without retries.
    pub schedule_lag_ms: Option<Distribution>,
}

/// Requests within every limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "a count, its rate and its share")]
pub struct Goodput {
    pub requests_per_second: f64,
    /// The share of all completed and failed requests.
    pub share: f64,
    pub good: u64,
}

/// The time in which the load was as configured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named in METRICS")]
pub struct SteadyState {
    pub mode: Axis,
    pub concurrency: Option<u32>,
    pub rate: Option<f64>,
    /// Whether the client was a limit during the whole run.
    #[serde(default)]
    pub client_limited: bool,
    /// Its start and end in each session, in nanoseconds since the epoch; null for a session without one.
    #[serde(default)]
    pub windows_ns: Vec<Option<(i64, i64)>>,
    #[serde(flatten)]
    pub figures: LoadFigures,
    /// The tokens that arrived inside it: the tokens of each request x the share of its chunks inside. `None` if the
    /// tokens of some answers are unknown.
    pub output_tokens: Option<f64>,
    pub energy: Option<SteadyEnergy>,
}

/// The energy of the steady state.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "units are in the names")]
pub struct SteadyEnergy {
    pub gross_j: Estimate,
    pub gross_j_per_output_token: Option<f64>,
    pub mean_power_w: f64,
    pub energy: EnergySource,
}
