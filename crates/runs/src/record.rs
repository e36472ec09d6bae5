//! The record of one query: the layout that tools written for intelligence-per-watt read, and the `ergometer` column
//! with further data. An unknown value is `None`, never zero.

use std::str::FromStr;

use ergometer_telemetry::SystemInfo;
use ergometer_telemetry::{DeviceId, Method, Provenance, Scope, Stats};
use ergometer_units::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cost_model::Evidence;
use ergometer_clients::{FailureKind, ServerTimes, TokenSource};

/// The record of one query.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The problem.
    pub problem: String,
    /// The correct answer.
    pub answer: String,
    /// The subject.
    pub subject: String,
    /// The other columns of the dataset.
    pub dataset_metadata: Map<String, Value>,
    /// The response of the model; `None` if the request failed.
    pub model_answer: Option<String>,
    /// The metrics of the query.
    pub model_metrics: ModelMetrics,
    /// Data that the layout of intelligence-per-watt does not have.
    pub ergometer: ErgometerColumn,
}

/// The metrics of one query.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelMetrics {
    pub compute: ComputeMetrics,
    pub energy: EnergyMetrics,
    pub latency: LatencyMetrics,
    pub memory: MemoryMetrics,
    pub power: PowerMetrics,
    pub temperature: StatColumn,
    pub tokens: TokenMetrics,
    pub phases: PhaseMetrics,
    pub utilization: HardwareUtilization,
    pub cost: Cost,
    pub gpu_info: Option<GpuColumn>,
    pub system_info: Option<SystemInfo>,
    pub lm_correctness: Option<bool>,
    pub lm_response: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ComputeMetrics {
    pub flops_per_request: Option<f64>,
    pub macs_per_request: Option<f64>,
    pub total_flops: Option<f64>,
    pub flops_per_token: Option<f64>,
}

/// Gross energy of the query. The file also has totals, with the same values.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct EnergyMetrics {
    pub per_query_joules: Option<f64>,
    pub cpu_per_query_joules: Option<f64>,
    pub ane_per_query_joules: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LatencyMetrics {
    pub per_token_ms: Option<f64>,
    pub throughput_tokens_per_sec: Option<f64>,
    pub time_to_first_token_seconds: Option<f64>,
    pub total_query_seconds: Option<f64>,
}

/// Statistics of a channel over the query's window; `None` without readings.
pub type StatColumn = Option<Stats>;

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MemoryMetrics {
    pub cpu_mb: StatColumn,
    pub gpu_mb: StatColumn,
}

/// Power during the query. The file also has `total_watts`, with the same values.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PowerMetrics {
    pub gpu: StatColumn,
    pub cpu: StatColumn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenMetrics {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub total: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PhaseMetrics {
    pub prefill_energy_j: Option<f64>,
    pub decode_energy_j: Option<f64>,
    pub prefill_duration_ms: Option<f64>,
    pub decode_duration_ms: Option<f64>,
    pub prefill_power_avg_w: Option<f64>,
    pub decode_power_avg_w: Option<f64>,
    pub prefill_energy_per_input_token_j: Option<f64>,
    pub decode_energy_per_output_token_j: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HardwareUtilization {
    pub compute_utilization_pct: Option<f64>,
    pub memory_bandwidth_utilization_pct: Option<f64>,
    pub tensor_core_utilization_pct: Option<f64>,
    pub memory_used_gb: Option<f64>,
    pub memory_total_gb: Option<f64>,
    pub mfu: Option<f64>,
    pub mbu: Option<f64>,
    pub arithmetic_intensity: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    pub input_cost_usd: Option<f64>,
    pub output_cost_usd: Option<f64>,
    pub tool_cost_usd: Option<f64>,
    pub total_cost_usd: Option<f64>,
}

/// The accelerator, in the layout of intelligence-per-watt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuColumn {
    pub name: String,
    pub vendor: String,
    pub device_id: u64,
    pub device_type: String,
    pub backend: String,
}

/// Data about a query that the layout of intelligence-per-watt does not have.
#[derive(Debug, Clone, PartialEq)]
pub struct ErgometerColumn {
    /// The index of the query in the dataset.
    pub query_index: u64,
    /// The number of the request in the run.
    pub request: u64,
    /// The number of the session.
    pub session: u32,
    /// How the query ended.
    pub outcome: QueryOutcome,
    /// The kind of failure.
    pub failure: Option<FailureKind>,
    /// The cause of the failure.
    pub cause: Option<String>,
    /// Attempts at the query, including this one.
    pub attempts: u32,
    pub scheduled: Timestamp,
    pub sent: Timestamp,
    pub first_token: Option<Timestamp>,
    pub last_token: Option<Timestamp>,
    pub end: Timestamp,
    /// The source of the token counts.
    pub token_source: Option<TokenSource>,
    /// Tokens of the prompt that the server took from its cache; `None` if it does not report them.
    pub cached_tokens: Option<u64>,
    /// The finish reason of the answer.
    pub finish: Option<String>,
    /// The reasoning of the model; `None` if the server returned none.
    pub reasoning: Option<String>,
    /// The tool calls of the answer.
    pub tool_calls: Option<String>,
    /// The times that the server reported.
    pub server_times: ServerTimes,
    /// The processor time of the request, if the model ran in this process.
    pub processor_seconds: Option<f64>,
    /// The energy of the query.
    pub energy: QueryEnergy,
    /// The grade of the answer.
    pub grade: Option<GradeColumn>,
    /// The number of the conversation in the dataset, if the query is a turn of one.
    pub conversation: Option<u64>,
    /// The number of the turn in the conversation, from 0.
    pub turn: Option<u32>,
}

/// How a query ended. A query that was cancelled has no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueryOutcome {
    /// It has an answer.
    #[default]
    Completed,
    /// It has no answer.
    Failed,
}

impl QueryOutcome {
    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    /// The outcome of this name. The records of other tools have only queries with an answer, and no outcome.
    #[must_use]
    pub fn from_name(name: Option<&str>) -> Self {
        if name == Some(Self::Failed.name()) { Self::Failed } else { Self::Completed }
    }
}

/// The grade of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct GradeColumn {
    /// The name of the grader.
    pub grader: String,
    /// Whether the answer is correct; `None` if it could not be compared.
    pub correct: Option<bool>,
    /// The part of the response that was compared.
    pub extracted: Option<String>,
    /// The reply of the judge, if a model graded the answer.
    pub reply: Option<String>,
}

/// The energy of one query. Measured and modelled energy are never added.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueryEnergy {
    /// The sum over the disjoint scopes of the counted devices with measured energy.
    pub measured: Option<GrossAndNet>,
    /// The sum over the counted devices with modelled energy.
    pub modelled: Option<GrossAndNet>,
    /// The share of each device and scope.
    pub devices: Vec<DeviceShare>,
    /// How the net energy is attributed: of the measured devices, or of the modelled ones if none is measured. `None`
    /// if idle power is unknown.
    pub attribution: Option<RequestAttribution>,
}

/// The net energy of a request among the requests in flight, in joules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestAttribution {
    /// Its share. The shares of all requests sum to the net energy of the requests.
    pub share: f64,
    /// The lower end of the 95 % interval of the share.
    pub low: f64,
    /// The upper end of the 95 % interval of the share.
    pub high: f64,
    /// The part of the share for its prompt, if it is known.
    pub prefill_j: Option<f64>,
    /// The part of the share for its output, if it is known.
    pub decode_j: Option<f64>,
    /// What the batch would have saved without the request, if the costs are known.
    pub marginal: Option<f64>,
    /// What the request would have cost by itself on the idle server, if the costs are known.
    pub alone: Option<f64>,
    /// How the share was computed.
    pub method: EnergyMethod,
}

/// The query's share of the energy of one device and scope.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceShare {
    pub device: DeviceId,
    pub scope: Scope,
    pub energy: GrossAndNet,
}

/// Gross energy, and energy net of idle power.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GrossAndNet {
    pub gross: EnergyValue,
    /// `None` if idle power is unknown.
    pub net: Option<EnergyValue>,
}

/// An energy with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EnergyValue {
    pub joules: f64,
    pub low: f64,
    pub high: f64,
    pub method: EnergyMethod,
    pub provenance: Provenance,
}

/// How the energy of a query was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnergyMethod {
    /// Each slice of time was divided equally among the requests in flight.
    EqualShare,
    /// The energy was divided by a cost model, and this shows how requests shared the server.
    #[serde(untagged)]
    CostModel(Evidence),
    /// The energy of the query's window, in which no other request was in flight.
    #[serde(untagged)]
    Window(Method),
}

impl std::fmt::Display for EnergyMethod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Window(method) => method.fmt(f),
            Self::CostModel(evidence) => evidence.fmt(f),
            Self::EqualShare => f.pad("equal_share"),
        }
    }
}

/// A text that is not a method.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a method of computing energy")]
pub struct ParseEnergyMethodError(String);

impl FromStr for EnergyMethod {
    type Err = ParseEnergyMethodError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        serde_json::from_value(text.into()).map_err(|_| ParseEnergyMethodError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_and_outcome_is_read_by_its_name() {
        let windows =
            [Method::ActivityAware, Method::CounterAndPower, Method::Counter, Method::Power, Method::Modelled];
        let models = [Evidence::StepLog, Evidence::Arrivals, Evidence::Tokens];
        let methods = windows.map(EnergyMethod::Window).into_iter().chain(models.map(EnergyMethod::CostModel));
        for method in methods.chain([EnergyMethod::EqualShare]) {
            assert_eq!(method.to_string().parse(), Ok(method));
            assert_eq!(serde_json::to_value(method).unwrap(), method.to_string());
        }
        assert!("guess".parse::<EnergyMethod>().is_err());
        for outcome in [QueryOutcome::Completed, QueryOutcome::Failed] {
            assert_eq!(QueryOutcome::from_name(Some(outcome.name())), outcome);
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.name());
        }
        assert_eq!(QueryOutcome::from_name(None), QueryOutcome::Completed);
    }
}
