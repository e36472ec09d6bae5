//! The load of a run: rates, latencies, what was in flight, and the steady state.

use std::collections::BTreeMap;

use ergometer_clients::{Connections, FailureKind};
use ergometer_statistics::{Distribution, Estimate};
use serde::{Deserialize, Serialize};

use super::{ClientSummary, EnergySource};
use crate::config::Axis;

/// What a run under load came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named in METRICS")]
pub struct LoadSummary {
    pub mode: Axis,
    pub concurrency: Option<u32>,
    pub rate: Option<f64>,
    /// What the schedule of an open loop came to, a second.
    pub rate_asked: Option<f64>,
    #[serde(flatten)]
    pub whole: LoadFigures,
    /// Whether the client, and not the server, was the limit.
    #[serde(default)]
    pub client_limited: bool,
    #[serde(default)]
    pub client: ClientSummary,
    /// What the connections came to, where the client has any.
    pub connections: Option<Connections>,
    /// Requests for which one was opened, where the client says.
    pub requests_on_new_connections: Option<u64>,
    /// Their TTFT, which has the connecting in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_new_connection_ms: Option<Distribution>,
    pub steady_state: Option<SteadyState>,
    /// Why there is none.
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

/// The figures of a part of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named in METRICS")]
pub struct LoadFigures {
    pub duration_s: f64,
    /// Completed ones.
    pub requests_per_second: Option<f64>,
    /// `None` where not all answers were counted.
    pub output_tokens_per_second: Option<f64>,
    /// At which rate they were sent, attempts that repeat another left out.
    pub sent_per_second: Option<f64>,
    pub completed: u64,
    #[serde(default)]
    pub failed: BTreeMap<FailureKind, u64>,
    /// `None` where there are no limits.
    pub goodput: Option<Goodput>,
    pub in_flight: Option<InFlightSummary>,
    pub ttft_ms: Option<Distribution>,
    pub ttft_scheduled_ms: Option<Distribution>,
    pub itl_ms: Option<Distribution>,
    pub tpot_ms: Option<Distribution>,
    pub e2e_ms: Option<Distribution>,
    /// Of every request that was sent, be it failed; attempts that repeat another left out.
    pub schedule_lag_ms: Option<Distribution>,
}

/// Requests that keep to every limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "a count, its rate and its share")]
pub struct Goodput {
    pub requests_per_second: f64,
    /// Of all that completed or failed.
    pub share: f64,
    pub good: u64,
}

/// The stretch in which the load was what was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named in METRICS")]
pub struct SteadyState {
    pub mode: Axis,
    pub concurrency: Option<u32>,
    pub rate: Option<f64>,
    /// As for the whole run.
    #[serde(default)]
    pub client_limited: bool,
    /// Its start and end in each session, in nanoseconds since the epoch; null where a session has none.
    #[serde(default)]
    pub windows_ns: Vec<Option<(i64, i64)>>,
    #[serde(flatten)]
    pub figures: LoadFigures,
    /// Those that arrived inside it: of each request its tokens x the share of its chunks. `None` where not all answers were
    /// counted.
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
