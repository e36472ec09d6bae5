//! `summary.json`: what ran, on what, with which versions, and what it came to.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use ergometer_statistics::{Distribution, proportion_interval};
use ergometer_telemetry::SystemInfo;
use serde::Serialize;

use super::intelligence::intelligence;
use super::load::{Load, LoadSummary};
use super::server::{ServerSummary, disagreement, server};
use super::session::Metered;
use super::tally::Tally;
use super::totals::{EnergySummary, Figure, energy};
use super::warning::{Ended, Seen, of_load, warnings};
use super::{CloseError, Warning};
use crate::config::RunConfig;
use crate::journal::{Closing, Manifest};
use crate::record::GpuColumn;
use crate::store::write_json;
use ergometer_clients::{FailureKind, Locality, ModelFacts};

/// The version of `summary.json`.
const VERSION: u32 = 1;

/// What a run came to. The first fields are those that tools written for intelligence-per-watt read.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the fields are named by the layout")]
pub struct Summary {
    pub model: String,
    pub profiler_config: RunConfig,
    pub dataset: String,
    pub dataset_name: String,
    pub hardware_label: String,
    pub generated_at: f64,
    pub total_queries: u64,
    pub system_info: Option<SystemInfo>,
    pub gpu_info: Option<GpuColumn>,
    pub output_dir: String,
    pub versions: BTreeMap<&'static str, String>,
    pub format_version: u32,
    /// Whether every query that was asked for has its record.
    pub complete: bool,
    pub closing: Option<Closing>,
    pub sessions: usize,
    /// From the first request's start to the last one's end, in seconds, over the sessions.
    pub duration_s: f64,
    pub client: String,
    pub place: Locality,
    pub model_facts: ModelFacts,
    pub dataset_fingerprint: String,
    pub outcomes: Outcomes,
    pub accuracy: Option<Accuracy>,
    pub judge: Option<JudgeSummary>,
    pub latency: LatencySummary,
    pub load: Box<LoadSummary>,
    pub tokens: TokenSummary,
    pub energy: EnergySummary,
    pub intelligence: Option<IntelligenceSummary>,
    /// What the server told of itself.
    pub server: Option<ServerSummary>,
    pub cost_usd: Option<f64>,
    pub warnings: Vec<String>,
    /// What to do about each of the warnings.
    pub remedies: Vec<Option<String>>,
}

/// How the requests ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "named by the outcomes")]
pub struct Outcomes {
    pub completed: u64,
    pub failed: BTreeMap<FailureKind, u64>,
    /// Attempts that failed and were followed by another.
    pub retried: BTreeMap<FailureKind, u64>,
    pub cancelled: u64,
    pub lost: u64,
}

/// How many answers were right. The interval is Wilson's.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "counts, their ratio, and the same by subject")]
pub struct Accuracy {
    pub grader: String,
    pub correct: u64,
    pub graded: u64,
    pub rate: Figure,
    pub by_subject: BTreeMap<String, SubjectAccuracy>,
}

/// What came of the judge, of the answers that completed and have something to be compared with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "a name and counts")]
pub struct JudgeSummary {
    pub model: String,
    /// Answers with a verdict.
    pub judged: u64,
    /// Answers on which the judge's reply has no verdict.
    pub without_verdict: u64,
    /// Answers it was not asked about, or did not answer on.
    pub unjudged: u64,
}

/// How many answers of one subject were right.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "counts and their ratio")]
pub struct SubjectAccuracy {
    pub correct: u64,
    pub graded: u64,
    pub rate: Figure,
}

/// Latencies of the requests that completed, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "named in METRICS")]
pub struct LatencySummary {
    pub ttft_ms: Option<Distribution>,
    pub tpot_ms: Option<Distribution>,
    pub e2e_ms: Option<Distribution>,
    pub schedule_lag_ms: Option<Distribution>,
}

/// Tokens of all records.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "counts and rates")]
pub struct TokenSummary {
    /// `None` where nobody counted any.
    pub input: Option<u64>,
    pub output: Option<u64>,
    /// Of how many requests they are known.
    pub requests: u64,
    pub source: Option<&'static str>,
    /// A hash of the tokenizer that was given.
    pub tokenizer: Option<String>,
    /// `None` where not all answers were counted: it would be too low.
    pub output_per_second: Option<f64>,
    pub requests_per_second: Option<f64>,
    /// Output tokens over the time that these requests themselves took.
    pub output_per_request_second: Option<f64>,
}

/// Right answers per joule and per watt.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "named in METRICS")]
pub struct IntelligenceSummary {
    pub per_joule: Figure,
    /// The same with the meter's own interval in it.
    pub per_joule_with_meter: Figure,
    pub per_watt: Figure,
    pub per_watt_with_meter: Figure,
    /// `measured` or `modelled`.
    pub energy: &'static str,
}

impl Summary {
    /// Writes `summary.json`.
    pub(super) fn write(&self, folder: &Path) -> Result<(), CloseError> {
        Ok(write_json(&folder.join("summary.json"), self)?)
    }
}

/// Puts everything together.
pub(super) fn summarise(
    folder: &Path,
    manifest: &Manifest,
    sessions: &[Metered],
    tally: &Tally,
    load: &mut Load,
) -> (Summary, Vec<Warning>) {
    let duration_s: f64 =
        sessions.iter().filter_map(|session| session.window).map(|window| window.length().get()).sum();
    let energy = energy(sessions, tally, duration_s);
    let (measured, modelled) = (energy.measured.as_ref(), energy.modelled.as_ref());
    let primary = measured.map(|totals| (totals, false)).or(modelled.map(|totals| (totals, true)));
    let intelligence = primary.and_then(|(totals, is_modelled)| {
        // What lay between the requests and in silences is charged to recorded and unrecorded ones alike.
        let balance = totals.balance;
        let share = if balance.requests_j > 0.0 { 1.0 - balance.unrecorded_j / balance.requests_j } else { 1.0 };
        let gross = totals.gross_j.times(share);
        let seconds = gross.value / totals.mean_power_w;
        intelligence(tally, gross, seconds, is_modelled, manifest.config.request.seed)
    });
    let closing = sessions.last().and_then(|session| session.loaded.events.closed);
    let wanted = match (manifest.dataset.size, manifest.config.max_queries) {
        (Some(size), Some(most)) => Some(size.min(most)),
        (size, most) => size.or(most),
    };
    let records = tally.records();
    let complete = closing == Some(Closing::Duration) || wanted.is_some_and(|wanted| records >= wanted);
    let per_second = |count: u64| (duration_s > 0.0).then(|| count as f64 / duration_s);
    let ended = Ended { folder, complete, closing };
    let server = server(sessions);
    let lost = sessions.iter().map(|session| session.loaded.events.lost.len() as u64).sum();
    let mut warnings = warnings(&ended, manifest, sessions, tally, &energy);
    warnings.extend(server.as_ref().and_then(|server| disagreement(server, tally, lost)));
    let output_per_second =
        per_second(tally.output_tokens).filter(|_| tally.counted > 0 && tally.counted_completed == tally.completed);
    let ran_out = manifest.config.duration_s.filter(|_| closing == Some(Closing::Finished) && sessions.len() == 1);
    let seen = Seen { short_answers: load.short_answers, backlog: load.backlog(), duration_s: ran_out };
    let load = load.summarise(sessions, &manifest.place, output_per_second);
    // After what failed, before all else: other figures may be those of the client.
    let failures = warnings.iter().take_while(|warning| matches!(warning, Warning::Failures { .. })).count();
    warnings.splice(failures..failures, of_load(&load, &seen));
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let place_is_here = super::is_ours(manifest);
    let summary = Summary {
        model: manifest.config.client.model.clone(),
        profiler_config: manifest.config.clone(),
        dataset: manifest.dataset.id.clone(),
        dataset_name: manifest.dataset.name.clone(),
        hardware_label: manifest.hardware_label.clone(),
        generated_at: since_epoch.as_secs_f64(),
        total_queries: records,
        system_info: place_is_here.then(|| manifest.system_info.clone()),
        gpu_info: super::records::counted_gpu(manifest),
        output_dir: folder.display().to_string(),
        versions: BTreeMap::from([
            ("ergometer", String::from(env!("CARGO_PKG_VERSION"))),
            ("ergometer_at_start", manifest.ergometer.clone()),
        ]),
        format_version: VERSION,
        complete,
        closing,
        sessions: sessions.len(),
        duration_s,
        client: manifest.config.client.id.clone(),
        place: manifest.place.clone(),
        model_facts: manifest.model.clone(),
        dataset_fingerprint: manifest.dataset.fingerprint.clone(),
        outcomes: Outcomes {
            completed: tally.completed,
            failed: tally.failed.clone(),
            retried: tally.retried.clone(),
            cancelled: tally.cancelled,
            lost,
        },
        accuracy: accuracy(manifest, tally),
        judge: manifest.config.judge.as_ref().zip(tally.judged).map(|(spec, tally)| JudgeSummary {
            model: spec.model.clone(),
            judged: tally.judged,
            without_verdict: tally.without_verdict,
            unjudged: tally.unjudged,
        }),
        latency: LatencySummary {
            ttft_ms: load.whole.ttft_ms,
            tpot_ms: load.whole.tpot_ms,
            e2e_ms: load.whole.e2e_ms,
            schedule_lag_ms: load.whole.schedule_lag_ms,
        },
        load: Box::new(load),
        tokens: TokenSummary {
            input: (tally.counted > 0).then_some(tally.input_tokens),
            output: (tally.counted > 0).then_some(tally.output_tokens),
            requests: tally.counted,
            source: tally.token_source,
            tokenizer: manifest.tokenizer.clone(),
            output_per_second,
            requests_per_second: per_second(records),
            output_per_request_second: (tally.request_seconds > 0.0)
                .then(|| tally.output_tokens as f64 / tally.request_seconds),
        },
        energy,
        intelligence,
        server,
        cost_usd: tally.cost_usd,
        warnings: warnings.iter().map(ToString::to_string).collect(),
        remedies: warnings.iter().map(Warning::hint).collect(),
    };
    (summary, warnings)
}

fn accuracy(manifest: &Manifest, tally: &Tally) -> Option<Accuracy> {
    let rate = |correct: u64, graded: u64| {
        let interval = proportion_interval(correct, graded);
        Figure {
            value: correct as f64 / graded as f64,
            low: interval.map(|interval| interval.low),
            high: interval.map(|interval| interval.high),
        }
    };
    let by_subject = tally.subjects.iter().map(|(subject, &(correct, graded))| {
        (subject.clone(), SubjectAccuracy { correct, graded, rate: rate(correct, graded) })
    });
    (tally.graded > 0).then(|| Accuracy {
        grader: manifest.grader.clone(),
        correct: tally.correct,
        graded: tally.graded,
        rate: rate(tally.correct, tally.graded),
        by_subject: by_subject.collect(),
    })
}
