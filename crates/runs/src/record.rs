//! The record of one query, field by field: the layout that tools written for intelligence-per-watt read, and what
//! Ergometer adds in a column of its own. What is not known is `None`, never zero.

use ergometer_telemetry::SystemInfo;
use ergometer_telemetry::{DeviceId, Method, Provenance, Scope, Stats};
use ergometer_units::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use ergometer_clients::{FailureKind, ServerTimes};

/// One query's record.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The problem.
    pub problem: String,
    /// The correct answer.
    pub answer: String,
    /// The subject.
    pub subject: String,
    /// Other columns of the dataset.
    pub dataset_metadata: Map<String, Value>,
    /// The response of the model; `None` if the request failed.
    pub model_answer: Option<String>,
    /// Its metrics.
    pub model_metrics: ModelMetrics,
    /// What only Ergometer knows.
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

/// Gross energy; the totals repeat the figures of the query.
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

/// A channel over the query's window.
pub type StatColumn = Option<Stats>;

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MemoryMetrics {
    pub cpu_mb: StatColumn,
    pub gpu_mb: StatColumn,
}

/// The stats of the query; `total_watts` repeats them.
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

/// The accelerator, as the layout has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuColumn {
    pub name: String,
    pub vendor: String,
    pub device_id: u64,
    pub device_type: String,
    pub backend: String,
}

/// What only Ergometer knows about a query.
#[derive(Debug, Clone, PartialEq)]
pub struct ErgometerColumn {
    /// The query's place in the dataset.
    pub query_index: u64,
    /// The request's number in the run.
    pub request: u64,
    /// The session of the run.
    pub session: u32,
    /// `completed` or `failed`.
    pub outcome: &'static str,
    /// The kind of failure.
    pub failure: Option<FailureKind>,
    /// What happened.
    pub cause: Option<String>,
    /// Attempts at the query, this one included.
    pub attempts: u32,
    pub scheduled: Timestamp,
    pub sent: Timestamp,
    pub first_token: Option<Timestamp>,
    pub last_token: Option<Timestamp>,
    pub end: Timestamp,
    /// Who counted the tokens.
    pub token_source: Option<&'static str>,
    /// Why the answer ended.
    pub finish: Option<String>,
    /// What the model thought before it answered; `None` where it did not say.
    pub reasoning: Option<String>,
    /// The calls of tools it asked for.
    pub tool_calls: Option<String>,
    /// What the server says its parts took.
    pub server_times: ServerTimes,
    /// The processor time it took, where it was made in the process that measured.
    pub processor_seconds: Option<f64>,
    /// What the energy came to.
    pub energy: QueryEnergy,
    /// How the answer was graded.
    pub grade: Option<GradeColumn>,
    /// The conversation it is a turn of, by its number in the dataset.
    pub conversation: Option<u64>,
    /// Which of its turns, from 0.
    pub turn: Option<u32>,
}

/// How an answer was graded.
#[derive(Debug, Clone, PartialEq)]
pub struct GradeColumn {
    /// By which grader.
    pub grader: String,
    /// Whether it is right; `None` where there is nothing to compare with.
    pub correct: Option<bool>,
    /// What was taken from the response and compared.
    pub extracted: Option<String>,
    /// What the judge said, where a model graded.
    pub reply: Option<String>,
}

/// The energy of one query. What was measured and what was modelled are never added.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueryEnergy {
    /// Over the disjoint scopes of the measured devices that count.
    pub measured: Option<GrossAndNet>,
    /// Over the modelled devices that count.
    pub modelled: Option<GrossAndNet>,
    /// Each device and scope.
    pub devices: Vec<DeviceShare>,
}

/// One device's part.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceShare {
    pub device: DeviceId,
    pub scope: Scope,
    pub energy: GrossAndNet,
}

/// Gross energy, and net of what the idle machine would have used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GrossAndNet {
    pub gross: EnergyValue,
    /// `None` where idle power is not known.
    pub net: Option<EnergyValue>,
}

/// An energy with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EnergyValue {
    pub joules: f64,
    pub low: f64,
    pub high: f64,
    pub method: EnergyMethod,
    pub provenance: Provenance,
}

/// How a query's energy was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EnergyMethod {
    /// Every slice of time was shared equally by the requests in flight.
    EqualShare,
    /// The energy of its window, which it had to itself.
    #[serde(untagged)]
    Window(Method),
}

impl std::fmt::Display for EnergyMethod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Window(method) => method.fmt(f),
            Self::EqualShare => f.pad("equal_share"),
        }
    }
}
