//! Builds `summary.json` from the sessions, the tally and the load of a run.

use std::collections::BTreeMap;
use std::mem::discriminant;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use ergometer_diagnostics::{CommandLine, Diagnostic};
use ergometer_runs::Summary;
use ergometer_runs::summary::{
    Accuracy, EnergySummary, IntelligenceSummary, JudgeSummary, LatencySummary, Outcomes, SUMMARY_VERSION, ShareDoubt,
    SubjectAccuracy, TokenSummary,
};
use ergometer_statistics::{Estimate, proportion_interval};

use super::intelligence::intelligence;
use super::load::Load;
use super::server::{disagreement, server};
use super::session::MeteredSession;
use super::tally::Tally;
use super::totals::energy;
use super::warning::{LoadObservations, RunEnd, load_warnings, warnings};
use super::{Results, Warning};
use crate::journal::Manifest;
use ergometer_runs::Closing;

/// Intelligence per joule and per watt: from measured energy, or else from modelled energy.
fn intelligence_of_run(manifest: &Manifest, tally: &Tally, energy: &EnergySummary) -> Option<IntelligenceSummary> {
    let (measured, modelled) = (energy.measured.as_ref(), energy.modelled.as_ref());
    let (totals, is_modelled) = measured.map(|totals| (totals, false)).or(modelled.map(|totals| (totals, true)))?;
    // Energy between requests and in gaps of the sensors is charged to recorded and unrecorded requests alike.
    let balance = totals.balance;
    let share = if balance.requests_j > 0.0 { 1.0 - balance.unrecorded_j / balance.requests_j } else { 1.0 };
    let gross = totals.gross_j.times(share);
    let seconds = gross.value / totals.mean_power_w;
    intelligence(tally, gross, seconds, is_modelled, manifest.config.request.seed)
}

/// Why the intervals of shares were widened: the first of each kind.
fn doubts(sessions: &[MeteredSession]) -> Vec<Warning> {
    let mut found: Vec<&ShareDoubt> = Vec::new();
    for doubt in sessions.iter().flat_map(|session| session.attribution.doubts()) {
        if !found.iter().any(|known| discriminant(*known) == discriminant(doubt)) {
            found.push(doubt);
        }
    }
    found.into_iter().map(|doubt| Warning::WideShares { doubt: doubt.clone() }).collect()
}

/// Builds the summary and the warnings of a run.
pub(super) fn summarise(
    folder: &Path,
    manifest: &Manifest,
    sessions: &[MeteredSession],
    results: Results,
    load: &mut Load,
) -> (Summary, Vec<Warning>) {
    let tally = results.tally;
    let duration_s: f64 =
        sessions.iter().filter_map(|session| session.window).map(|window| window.length().get()).sum();
    let energy = energy(sessions, tally, duration_s);
    let intelligence = intelligence_of_run(manifest, tally, &energy);
    let closing = sessions.last().and_then(|session| session.loaded.events.closed);
    let wanted = match (manifest.dataset.size, manifest.config.max_queries) {
        (Some(size), Some(most)) => Some(size.min(most)),
        (size, most) => size.or(most),
    };
    let records = tally.records();
    let complete = closing == Some(Closing::Duration) || wanted.is_some_and(|wanted| records >= wanted);
    let per_second = |count: u64| (duration_s > 0.0).then(|| count as f64 / duration_s);
    let end = RunEnd { folder, complete, closing };
    let server = server(sessions);
    let lost = sessions.iter().map(|session| session.loaded.events.lost.len() as u64).sum();
    let mut warnings = warnings(&end, manifest, sessions, tally, &energy);
    warnings.extend(results.log_problem.map(|cause| Warning::EngineLog { cause }));
    warnings.extend(doubts(sessions));
    warnings.extend(server.as_ref().and_then(|server| disagreement(server, tally, lost)));
    let output_per_second =
        per_second(tally.output_tokens).filter(|_| tally.counted > 0 && tally.counted_completed == tally.completed);
    let ran_out = manifest.config.duration_s.filter(|_| closing == Some(Closing::Finished) && sessions.len() == 1);
    let observations = LoadObservations {
        short_answers: load.short_answers,
        ignores_eos: manifest.config.request.ignore_eos,
        backlog: load.backlog(),
        duration_s: ran_out,
    };
    let load = load.summarise(sessions, &manifest.place, output_per_second);
    // Insert them after failures and before all others: a limited client affects the other figures.
    let failures = warnings.iter().take_while(|warning| matches!(warning, Warning::Failures { .. })).count();
    warnings.splice(failures..failures, load_warnings(&load, &observations));
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let summary = Summary {
        model: manifest.config.client.model.clone(),
        profiler_config: manifest.config.clone().into(),
        dataset: manifest.dataset.id.clone(),
        dataset_name: manifest.dataset.name.clone(),
        hardware_label: manifest.hardware_label.clone(),
        generated_at: since_epoch.as_secs_f64(),
        total_queries: records,
        system_info: super::is_ours(manifest).then(|| manifest.system_info.clone()),
        gpu_info: super::records::counted_gpu(manifest),
        output_dir: folder.display().to_string(),
        versions: BTreeMap::from([
            (String::from("ergometer"), String::from(env!("CARGO_PKG_VERSION"))),
            (String::from("ergometer_at_start"), manifest.ergometer.clone()),
        ]),
        format_version: SUMMARY_VERSION,
        complete,
        closing,
        sessions: sessions.len(),
        duration_s,
        client: manifest.config.client.id.clone(),
        place: Some(manifest.place.clone()),
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
        load: Some(Box::new(load)),
        tokens: TokenSummary {
            input: (tally.counted > 0).then_some(tally.input_tokens),
            output: (tally.counted > 0).then_some(tally.output_tokens),
            cached: tally.cached_tokens,
            requests: tally.counted,
            source: tally.token_source.map(ToOwned::to_owned),
            tokenizer: manifest.tokenizer.clone(),
            output_per_second,
            requests_per_second: per_second(records),
            output_per_request_second: (tally.request_seconds > 0.0)
                .then(|| tally.output_tokens as f64 / tally.request_seconds),
        },
        energy,
        attribution: tally.attribution.summary(results.models),
        intelligence,
        server,
        cost_usd: tally.cost_usd,
        warnings: warnings.iter().map(ToString::to_string).collect(),
        remedies: warnings.iter().map(|warning| warning.hint().map(|hint| hint.phrase(&CommandLine))).collect(),
        other: serde_json::Map::new(),
    };
    (summary, warnings)
}

fn accuracy(manifest: &Manifest, tally: &Tally) -> Option<Accuracy> {
    let rate = |correct: u64, graded: u64| {
        let interval = proportion_interval(correct, graded);
        Estimate {
            value: correct as f64 / graded as f64,
            low: interval.map(|interval| interval.low),
            high: interval.map(|interval| interval.high),
        }
    };
    let by_subject = tally.subjects.iter().map(|(subject, &(correct, graded))| {
        (subject.clone(), SubjectAccuracy { correct, graded, rate: rate(correct, graded) })
    });
    (tally.graded > 0).then(|| Accuracy {
        grader: manifest.grader.to_string(),
        correct: tally.correct,
        graded: tally.graded,
        rate: rate(tally.correct, tally.graded),
        by_subject: by_subject.collect(),
    })
}
