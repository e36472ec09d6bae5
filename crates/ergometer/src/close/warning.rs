//! Derives the warnings about a run.

use std::path::Path;

use ergometer_diagnostics::{CommandLine, Diagnostic};
use ergometer_telemetry::EventKind;

use super::session::MeteredSession;
use super::tally::Tally;
use crate::journal::Manifest;
use ergometer_clients::Locality;
use ergometer_runs::Closing;
use ergometer_runs::record::EnergyMethod;
use ergometer_runs::summary::{EnergySummary, LoadSummary, Warning};

/// How a run ended.
pub(super) struct RunEnd<'a> {
    pub(super) folder: &'a Path,
    /// Whether every requested query has a record.
    pub(super) complete: bool,
    pub(super) closing: Option<Closing>,
}

/// Warnings about the load.
pub(super) fn load_warnings(load: &LoadSummary, observations: &LoadObservations) -> Vec<Warning> {
    let reasons = load.client.reasons.clone();
    let LoadObservations { short_answers, ignores_eos, .. } = *observations;
    let behind = observations.backlog.map(|(sent, ended, in_flight)| Warning::Behind { sent, ended, in_flight });
    let ran_out = observations.duration_s.filter(|&of_s| load.whole.duration_s < 0.9 * of_s);
    let ran_out = ran_out.map(|of_s| Warning::RanOut { after_s: load.whole.duration_s, of_s });
    let limited = load.client_limited.then_some(Warning::ClientLimited { reasons });
    let short = Warning::ShortAnswers { count: short_answers, of: load.whole.completed, ignores_eos };
    let short = (short_answers > 0).then_some(short);
    limited.into_iter().chain(behind).chain(ran_out).chain(short).collect()
}

/// Observations about the load that are not in its summary.
pub(super) struct LoadObservations {
    pub(super) short_answers: u64,
    /// Whether `ignore_eos` was requested.
    pub(super) ignores_eos: bool,
    /// Requests sent and answered per second, and requests in flight, if an open loop sent faster than the server answered.
    pub(super) backlog: Option<(f64, f64, u64)>,
    /// The requested duration, if the dataset ended before it.
    pub(super) duration_s: Option<f64>,
}

/// Warnings about the tokens of answers.
fn token_warnings(tally: &Tally) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some((taken, other)) = tally.disagreement {
        warnings.push(Warning::TokenCounts {
            count: tally.disagreed,
            of: tally.counted_twice,
            taken: (taken.source.name(), taken.output),
            other: (other.source.name(), other.output),
        });
    }
    if tally.without_text > 0 {
        warnings.push(Warning::WithoutText { count: tally.without_text });
    }
    if let Some((chunks, tokens)) = tally.undercounted_example {
        warnings.push(Warning::Undercounted { count: tally.undercounted, chunks, tokens });
    }
    if tally.cut_and_wrong > 0 {
        warnings.push(Warning::CutAnswers { count: tally.cut, wrong: tally.cut_and_wrong });
    }
    let uncounted = tally.completed.saturating_sub(tally.counted_completed);
    if uncounted > 0 {
        warnings.push(Warning::Uncounted { count: uncounted });
    }
    warnings
}

/// The devices with unknown energy, each once.
fn unknown_devices(energy: &EnergySummary) -> Vec<String> {
    let unknown = energy.devices.iter().filter(|device| device.gross_j.is_none());
    let mut names: Vec<String> = unknown.map(|device| format!("{} {}", device.device, device.name)).collect();
    names.dedup();
    names
}

/// Warnings about the energy of a run.
fn energy_warnings(manifest: &Manifest, tally: &Tally, energy: &EnergySummary, warnings: &mut Vec<Warning>) {
    let unknown = unknown_devices(energy);
    match (&manifest.place, &energy.measured, &energy.modelled) {
        (Locality::Elsewhere { host }, ..) => warnings.push(Warning::Elsewhere { host: host.clone() }),
        (_, None, None) if energy.devices.is_empty() => warnings.push(Warning::NoEnergy),
        (_, None, None) if unknown.is_empty() => warnings.push(match tally.without_energy {
            0 => Warning::ZeroEnergy,
            count => Warning::WithoutEnergy { count },
        }),
        (_, None, Some(_)) => warnings.push(Warning::Modelled),
        _ => {}
    }
    if !unknown.is_empty() {
        warnings.push(Warning::UnknownEnergy { devices: unknown });
    }
    let totals = energy.measured.as_ref().or(energy.modelled.as_ref());
    if let Some(totals) = totals {
        if totals.net_j.is_none() {
            warnings.push(Warning::NoIdle);
        }
        let share = totals.balance.unattributed_j / totals.balance.meter_j;
        if share > 0.001 {
            warnings.push(Warning::Unattributed { share });
        }
        if tally.without_energy > 0 {
            warnings.push(Warning::WithoutEnergy { count: tally.without_energy });
        }
    }
}

/// All warnings about a run, the most important first.
pub(super) fn warnings(
    end: &RunEnd,
    manifest: &Manifest,
    sessions: &[MeteredSession],
    tally: &Tally,
    energy: &EnergySummary,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (&failure, &count) in &tally.failed {
        let cause = tally.causes.get(&failure).cloned().unwrap_or_default();
        warnings.push(Warning::Failures { failure: failure.to_string(), count, cause });
    }
    let retried: u64 = tally.retried.values().sum();
    if retried > 0 {
        let (measured, modelled) = tally.retried_joules;
        warnings.push(Warning::Retried { count: retried, joules: if measured > 0.0 { measured } else { modelled } });
    }
    warnings.extend(token_warnings(tally));
    if let Some(&count) = tally.attribution.summary.methods.get(&EnergyMethod::EqualShare.to_string()) {
        warnings.push(Warning::EqualShare { count });
    }
    if let Some((path, cause)) = tally.unused_tokenizer.clone() {
        warnings.push(Warning::Tokenizer { path, cause });
    }
    if let Some(judged) = tally.judged {
        if judged.unjudged > 0 {
            warnings.push(Warning::Unjudged { count: judged.unjudged, folder: end.folder.to_path_buf() });
        }
        if judged.without_verdict > 0 {
            let judge = manifest.grader.to_string();
            warnings.push(Warning::WithoutVerdict { count: judged.without_verdict, judge });
        }
    }
    if !end.complete {
        let why = match end.closing {
            Some(Closing::Interrupted) => "it was interrupted",
            Some(Closing::TooManyFailures) => "too many requests failed",
            Some(Closing::Unwritable) => "its files could not be written",
            Some(Closing::Failed) => "ergo failed",
            Some(Closing::Unreadable) => "the dataset could not be read",
            Some(Closing::Finished | Closing::Duration) => "some queries have no record",
            None => "it was killed",
        };
        warnings.push(Warning::Unfinished { folder: end.folder.to_path_buf(), why });
    }
    energy_warnings(manifest, tally, energy, &mut warnings);
    if tally.ungradable > 0 {
        warnings.push(Warning::Ungradable { count: tally.ungradable, grader: manifest.grader.to_string() });
    }
    if tally.too_short > 0 {
        warnings.push(Warning::TooShort { count: tally.too_short, of: tally.records() });
    }
    let lines: u64 = sessions.iter().map(|session| session.loaded.events.damaged_lines).sum();
    let lines = lines + tally.damaged_lines;
    if lines > 0 {
        warnings.push(Warning::Damaged { lines });
    }
    for session in sessions {
        if let Some(cause) = &session.loaded.unreadable {
            warnings.push(Warning::Readings { session: session.loaded.number, cause: cause.clone() });
        }
    }
    let mut events: Vec<Warning> = Vec::new();
    for event in sessions.iter().flat_map(|session| session.loaded.timeline.events()) {
        let warning = match event.kind {
            EventKind::ScrapeFailed => Warning::ServerMetrics { message: event.one_line(&CommandLine) },
            _ => Warning::Sensor { message: event.to_string(), hint: event.hint.clone() },
        };
        if !events.contains(&warning) {
            events.push(warning);
        }
    }
    warnings.extend(events);
    warnings
}
