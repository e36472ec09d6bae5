//! `summary.json`: the configuration, hardware, software versions and results of a run.
//!
//! The same types write and read the file. Files of earlier versions and of other tools with this layout lack some
//! fields, which are read as absent. Unknown top-level fields are kept in [`Summary::other`].

mod attribution;
mod client;
mod energy;
mod lenient;
mod load;
mod server;
mod warning;

use std::collections::BTreeMap;
use std::path::Path;

use ergometer_clients::{FailureKind, Locality, ModelFacts};
use ergometer_statistics::{Distribution, Estimate};
use ergometer_telemetry::SystemInfo;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use attribution::{AttributionSummary, CostModelSummary, ShareDoubt};
pub use client::{ClientLimit, ClientSummary};
pub use energy::{BalanceSummary, DeviceSummary, EnergySource, EnergySummary, EnergyTotals};
pub use load::{Goodput, InFlightSummary, LoadFigures, LoadSummary, SteadyEnergy, SteadyState};
pub use server::{GaugeSummary, ServerSummary};
pub use warning::Warning;

use crate::config::SavedConfig;
use crate::record::GpuColumn;
use crate::sender::Closing;
use crate::store::{StoreError, remove_file, write_json};
use crate::{ReadError, folder, regular_file};

/// The name of the file.
pub const SUMMARY_FILE: &str = "summary.json";

/// The version of `summary.json` that is written, and the latest that is read.
pub const SUMMARY_VERSION: u32 = 1;

/// The results of a run. Tools written for intelligence-per-watt read the first fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are named by the layout")]
pub struct Summary {
    #[serde(default)]
    pub model: String,
    #[serde(default)]
    pub profiler_config: SavedConfig,
    #[serde(default)]
    pub dataset: String,
    #[serde(default)]
    pub dataset_name: String,
    #[serde(default)]
    pub hardware_label: String,
    /// When the file was written, in seconds since the epoch.
    #[serde(default)]
    pub generated_at: f64,
    #[serde(default)]
    pub total_queries: u64,
    #[serde(default, deserialize_with = "lenient::value")]
    pub system_info: Option<SystemInfo>,
    #[serde(default, deserialize_with = "lenient::value")]
    pub gpu_info: Option<GpuColumn>,
    #[serde(default)]
    pub output_dir: String,
    #[serde(default, deserialize_with = "lenient::value_or_default")]
    pub versions: BTreeMap<String, String>,
    #[serde(default)]
    pub format_version: u32,
    /// Whether every query of the run has its record. Other tools write only complete runs.
    #[serde(default = "yes")]
    pub complete: bool,
    pub closing: Option<Closing>,
    #[serde(default)]
    pub sessions: usize,
    /// From the start of the first request to the end of the last, in seconds, summed over the sessions; 0 if unknown.
    #[serde(default)]
    pub duration_s: f64,
    #[serde(default)]
    pub client: String,
    pub place: Option<Locality>,
    #[serde(default)]
    pub model_facts: ModelFacts,
    #[serde(default)]
    pub dataset_fingerprint: String,
    #[serde(default)]
    pub outcomes: Outcomes,
    pub accuracy: Option<Accuracy>,
    pub judge: Option<JudgeSummary>,
    #[serde(default)]
    pub latency: LatencySummary,
    pub load: Option<Box<LoadSummary>>,
    #[serde(default)]
    pub tokens: TokenSummary,
    #[serde(default)]
    pub energy: EnergySummary,
    /// How the energy was attributed to requests; `None` without net energy.
    #[serde(default)]
    pub attribution: Option<AttributionSummary>,
    pub intelligence: Option<IntelligenceSummary>,
    /// Figures from the server's own metrics.
    pub server: Option<ServerSummary>,
    pub cost_usd: Option<f64>,
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The hint of each warning.
    #[serde(default)]
    pub remedies: Vec<Option<String>>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// How the requests ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "named by the outcomes")]
pub struct Outcomes {
    pub completed: u64,
    pub failed: BTreeMap<FailureKind, u64>,
    /// Attempts that failed and were retried.
    pub retried: BTreeMap<FailureKind, u64>,
    pub cancelled: u64,
    pub lost: u64,
}

/// How many answers were correct, with Wilson's interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "counts, their ratio, and the same by subject")]
pub struct Accuracy {
    pub grader: String,
    pub correct: u64,
    pub graded: u64,
    pub rate: Estimate,
    #[serde(default)]
    pub by_subject: BTreeMap<String, SubjectAccuracy>,
}

/// How many completed answers with a reference answer the judge graded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "a name and counts")]
pub struct JudgeSummary {
    pub model: String,
    /// Answers with a verdict.
    pub judged: u64,
    /// Answers for which the judge's reply contains no verdict.
    pub without_verdict: u64,
    /// Answers without a reply of the judge.
    pub unjudged: u64,
}

/// How many answers of one subject were correct.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "counts and their ratio")]
pub struct SubjectAccuracy {
    pub correct: u64,
    pub graded: u64,
    pub rate: Estimate,
}

/// Latencies of the completed requests, in milliseconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named in METRICS")]
pub struct LatencySummary {
    pub ttft_ms: Option<Distribution>,
    pub tpot_ms: Option<Distribution>,
    pub e2e_ms: Option<Distribution>,
    pub schedule_lag_ms: Option<Distribution>,
}

/// Tokens of all records.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "counts and rates")]
pub struct TokenSummary {
    /// `None` if no request's tokens are known.
    pub input: Option<u64>,
    pub output: Option<u64>,
    /// The tokens of prompts that the server took from its cache, over the requests for which it reports them; `None` if
    /// there are none.
    pub cached: Option<u64>,
    /// The number of requests whose tokens are known.
    #[serde(default)]
    pub requests: u64,
    /// The source of the counts: `server`, `tokenizer`, …
    pub source: Option<String>,
    /// The hash of the user's tokenizer.
    pub tokenizer: Option<String>,
    /// `None` if the tokens of some answers are unknown, because the rate would be too low.
    pub output_per_second: Option<f64>,
    pub requests_per_second: Option<f64>,
    /// Output tokens divided by the summed duration of their requests.
    pub output_per_request_second: Option<f64>,
}

/// Correct answers per joule and per watt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named in METRICS")]
pub struct IntelligenceSummary {
    pub per_joule: Estimate,
    /// The same, with an interval that includes the error of the meter.
    pub per_joule_with_meter: Option<Estimate>,
    pub per_watt: Option<Estimate>,
    pub per_watt_with_meter: Option<Estimate>,
    pub energy: Option<EnergySource>,
}

impl Summary {
    /// Writes `summary.json` into a run folder, atomically.
    pub fn write(&self, folder: &Path) -> Result<(), StoreError> {
        write_json(&folder.join(SUMMARY_FILE), self)
    }

    /// Removes `summary.json` from a run folder, if it exists. It must not be there while other files of the run change:
    /// a run with a summary is complete.
    pub fn remove(folder: &Path) -> Result<(), StoreError> {
        remove_file(&folder.join(SUMMARY_FILE))
    }

    /// Reads `summary.json` from a run folder. The error explains why a folder is not a run.
    pub fn read(folder: &Path) -> Result<Self, ReadError> {
        folder::check(folder)?;
        let path = folder.join(SUMMARY_FILE);
        let mut value = read_versioned(&path, SUMMARY_VERSION)?;
        crate::compatibility::upgrade_summary(&mut value);
        serde_json::from_value(value).map_err(ReadError::damaged(&path))
    }

    /// Reads `summary.json` as JSON, with exactly the fields of the file.
    pub fn read_json(folder: &Path) -> Result<Value, ReadError> {
        folder::check(folder)?;
        read_versioned(&folder.join(SUMMARY_FILE), SUMMARY_VERSION)
    }

    /// Parses a summary, as [`read`](Self::read) does.
    pub fn from_value(mut value: Value) -> Result<Self, serde_json::Error> {
        crate::compatibility::upgrade_summary(&mut value);
        serde_json::from_value(value)
    }

    /// The energy source of the run: measured, if there is any measured energy.
    #[must_use]
    pub fn energy_source(&self) -> Option<EnergySource> {
        let sources = [EnergySource::Measured, EnergySource::Modelled];
        sources.into_iter().find(|&source| self.energy.of_source(source).is_some())
    }

    /// The energy totals of one source.
    #[must_use]
    pub fn energy_totals(&self, source: Option<EnergySource>) -> Option<&EnergyTotals> {
        self.energy.of_source(source?)
    }

    /// The warnings with their hints.
    pub fn warnings(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let remedies = self.remedies.iter().map(Option::as_deref).chain(std::iter::repeat(None));
        self.warnings.iter().map(String::as_str).zip(remedies)
    }

    /// The start and the end of the steady state in each session that has one, in nanoseconds since the epoch.
    pub fn steady_windows(&self) -> impl Iterator<Item = (i64, i64)> {
        let steady = self.load.as_ref().and_then(|load| load.steady_state.as_ref());
        steady.into_iter().flat_map(|steady| &steady.windows_ns).filter_map(|window| *window)
    }

    /// The number of requests that failed, of every kind.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.outcomes.failed.values().fold(0, |sum, &count| sum.saturating_add(count))
    }
}

fn yes() -> bool {
    true
}

/// Reads a JSON object whose `format_version` is at most `known`.
pub(crate) fn read_versioned(path: &Path, known: u32) -> Result<Value, ReadError> {
    let text = regular_file::read(path).map_err(ReadError::io("read", path))?;
    let value: Value = serde_json::from_slice(&text).map_err(ReadError::damaged(path))?;
    let Some(object) = value.as_object() else {
        return Err(ReadError::Damaged { path: path.to_path_buf(), what: String::from("it is not a JSON object") });
    };
    let found = object.get("format_version").and_then(Value::as_u64).unwrap_or(0);
    if found > u64::from(known) {
        return Err(ReadError::Version { path: path.to_path_buf(), found, known: u64::from(known) });
    }
    Ok(value)
}
