//! What a person should know about a run, and what to do about it.

use std::fmt;
use std::path::{Path, PathBuf};

use ergometer_diagnostics::{CommandLine, Diagnostic};
use ergometer_telemetry::EventKind;
use serde::Serialize;

use super::load::{ClientLimit, LoadSummary};
use super::session::Metered;
use super::tally::Tally;
use super::totals::EnergySummary;
use crate::journal::{Closing, Manifest};
use ergometer_clients::Locality;

/// Something to know about a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Warning {
    /// Nothing measured energy; it is modelled.
    Modelled,
    /// No energy at all.
    NoEnergy,
    /// The server is on another machine.
    Elsewhere {
        /// Which.
        host: String,
    },
    /// Requests failed.
    Failures {
        /// The kind of failure.
        failure: String,
        /// How many.
        count: u64,
        /// What the first of them said.
        cause: String,
    },
    /// Attempts failed and were followed by others.
    Retried {
        /// How many.
        count: u64,
        /// What they used.
        joules: f64,
    },
    /// The client, and not the server, was the limit.
    ClientLimited {
        /// What it ran into.
        reasons: Vec<ClientLimit>,
    },
    /// An open loop sent more than the server answered.
    Behind {
        /// Requests a second that were sent, towards the end.
        sent: f64,
        /// Requests a second that ended, at the same time.
        ended: f64,
        /// How many were in flight when the last was sent.
        in_flight: u64,
    },
    /// There were no more queries before the time was over.
    RanOut {
        /// After so many seconds.
        after_s: f64,
        /// Of so many.
        of_s: f64,
    },
    /// Answers were to have all the tokens they may have, and ended before.
    ShortAnswers {
        /// How many.
        count: u64,
        /// Of how many that completed.
        of: u64,
    },
    /// Two that counted the tokens of the same answers do not agree.
    TokenCounts {
        /// On how many requests.
        count: u64,
        /// Of how many that both counted.
        of: u64,
        /// Who was believed, and the tokens of the first such answer.
        taken: (&'static str, u64),
        /// The other.
        other: (&'static str, u64),
    },
    /// Nobody counted the tokens of some answers.
    Uncounted {
        /// How many.
        count: u64,
    },
    /// The tokenizer that was given is not used.
    Tokenizer {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// A model is to grade the answers, and has not graded some.
    Unjudged {
        /// How many.
        count: u64,
        /// The run's folder.
        folder: PathBuf,
    },
    /// The judge's reply on some answers has no verdict.
    WithoutVerdict {
        /// On how many.
        count: u64,
        /// Who was asked.
        judge: String,
    },
    /// The run is not whole.
    Unfinished {
        /// Its folder.
        folder: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// Some queries are shorter than the sensors resolve.
    TooShort {
        /// How many.
        count: u64,
        /// Of how many.
        of: u64,
    },
    /// Some queries have no energy.
    WithoutEnergy {
        /// How many.
        count: u64,
    },
    /// The sensors were silent for a part of the energy.
    Unattributed {
        /// The share of the meter's energy, from 0 to 1.
        share: f64,
    },
    /// Lines of the journal were damaged.
    Damaged {
        /// How many.
        lines: u64,
    },
    /// The readings of a session cannot be used, so it has no energy.
    Readings {
        /// Which.
        session: u32,
        /// Why.
        cause: String,
    },
    /// Something happened to a sensor.
    Sensor {
        /// What.
        message: String,
    },
    /// The server did not tell its metrics, once or oftener.
    ServerMetrics {
        /// What happened.
        message: String,
    },
    /// The server counted other tokens than the answers have.
    ServerTokens {
        /// How many it generated over the run, by its own count.
        server: u64,
        /// How many the answers have.
        ours: u64,
    },
    /// No power at rest, so nothing is net.
    NoIdle,
    /// There are answers, and the grader can compare none or few of them.
    Ungradable {
        /// How many.
        count: u64,
        /// The grader.
        grader: String,
    },
}

impl Warning {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Modelled => String::from("`ergo doctor` says what could measure it on this machine"),
            Self::NoEnergy => String::from("`ergo doctor` says what is missing and how to mend it"),
            Self::Elsewhere { .. } => String::from(
                "run ergo on the server's machine; `--server-is-local` where the address is a tunnel or a container here",
            ),
            Self::Unfinished { folder, .. } => format!("`ergo profile --resume {}` goes on with it", folder.display()),
            Self::TooShort { .. } => {
                String::from("the sums are right; for single queries ask for longer answers or a larger model")
            }
            Self::NoIdle => String::from("leave out `--idle 0s`, and let the run end by itself"),
            Self::Failures { .. } => {
                String::from("`ergometer.cause` of their records says why, one by one; `--max-failures N` stops early")
            }
            Self::Retried { .. } => String::from("each attempt is a row of requests.parquet with `is_retried`"),
            Self::ClientLimited { reasons } => {
                reasons.iter().map(|reason| reason.hint()).collect::<Vec<_>>().join("; ")
            }
            Self::Behind { .. } => String::from(
                "latencies grow for as long as requests are sent, and say little of the server; ask for a lower rate, or see `--concurrency`",
            ),
            Self::RanOut { .. } => {
                String::from("a larger dataset, or `--dataset synthetic`, which has no end, fills the time")
            }
            Self::ShortAnswers { .. } => String::from(
                "`--ignore-eos` makes them as long as asked on servers that know it: vLLM, SGLang, llama.cpp",
            ),
            Self::TokenCounts { .. } => {
                String::from("is `--tokenizer` that of the model? Does the server leave tokens out of its answers?")
            }
            Self::Uncounted { .. } => {
                String::from("`--tokenizer PATH` counts them here; figures per token are those of the other queries")
            }
            Self::Tokenizer { .. } => String::from("put it back, and `ergo finalize` counts with it"),
            Self::Unjudged { folder, .. } => {
                format!("`ergo profile --resume {}` judges them; accuracy is that of the others", folder.display())
            }
            Self::WithoutVerdict { .. } => String::from(
                "`ergometer.grade.reply` of their records has what it said; they do not count. A larger judge keeps to the form",
            ),
            Self::WithoutEnergy { .. } => String::from("figures of energy are those of the other queries"),
            Self::Unattributed { .. } => String::from("something held the sensors up: is the machine overloaded?"),
            Self::Readings { session, .. } => {
                format!("what is whole in journal/session-{session}.readings.jsonl can be cut out by hand")
            }
            Self::Damaged { .. } => String::from("is the disk in order? `ergo profile --resume` sends what is missing"),
            Self::Ungradable { .. } => {
                String::from("`ergo list graders` shows the others; `--grader none` leaves it out")
            }
            Self::ServerMetrics { .. } => String::from(
                "figures of the server are those of the answers that came; `--server-metrics off` leaves them out",
            ),
            Self::ServerTokens { .. } => String::from(
                "others may have used the server at the same time; else who counts wrong? `--tokenizer PATH` counts here, too",
            ),
            Self::Sensor { .. } => String::from("`ergo doctor` looks at the sensors"),
        })
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Modelled => f.write_str("energy is modelled from CPU utilization, not measured"),
            Self::NoEnergy => f.write_str("no sensor of energy or power: times only"),
            Self::Elsewhere { host } => {
                write!(f, "the server is on {host}: what is measured here is not what it uses, so there is no energy")
            }
            Self::Failures { failure, count, cause } => {
                write!(
                    f,
                    "{count} {} failed: {failure} ({})",
                    if *count == 1 { "request" } else { "requests" },
                    short(cause)
                )
            }
            Self::Retried { count, joules } => {
                let attempts = if *count == 1 { "attempt failed and was" } else { "attempts failed and were" };
                write!(f, "{count} {attempts} repeated")?;
                if *joules >= 0.0005 { write!(f, "; they used {joules:.3} J") } else { Ok(()) }
            }
            Self::ClientLimited { reasons } => {
                let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
                write!(f, "the client was a limit, not only the server: {}", reasons.join(", "))
            }
            Self::Behind { sent, ended, in_flight } => write!(
                f,
                "the server did not keep up: {sent:.1} requests a second were sent towards the end and {ended:.1} answered, and {in_flight} were in flight"
            ),
            Self::RanOut { after_s, of_s } => {
                write!(f, "there were no more queries after {after_s:.1} s of the {of_s} s asked for")
            }
            Self::ShortAnswers { count, of } => {
                write!(f, "{count} of {of} answers have fewer tokens than they were to have")
            }
            Self::TokenCounts { count, of, taken, other } => write!(
                f,
                "the tokens of {count} of {of} answers are counted differently: {} by {}, {} by {} for the first",
                taken.1, taken.0, other.1, other.0
            ),
            Self::Uncounted { count } => {
                let answers = if *count == 1 { "answer" } else { "answers" };
                write!(f, "nobody counted the tokens of {count} {answers}: the server sent no usage")
            }
            Self::Tokenizer { path, cause } => {
                write!(f, "the tokenizer {} is not used: {}", path.display(), short(cause))
            }
            Self::Unjudged { count, .. } => {
                write!(f, "{count} {} not judged", if *count == 1 { "answer is" } else { "answers are" })
            }
            Self::WithoutVerdict { count, judge } => {
                write!(f, "{judge} gave no verdict on {count} {}", if *count == 1 { "answer" } else { "answers" })
            }
            Self::Unfinished { why, .. } => write!(f, "the run is not whole: {why}"),
            Self::TooShort { count, of } => {
                write!(f, "{count} of {of} queries are too short to be measured alone: their energy is ±50 % or worse")
            }
            Self::WithoutEnergy { count } => {
                write!(f, "{count} queries have no energy: the sensors had no data for them")
            }
            Self::Unattributed { share } => {
                write!(f, "the sensors were silent for {:.1} % of the energy, which is unattributed", share * 100.0)
            }
            Self::Damaged { lines } => write!(f, "{lines} lines of the journal are damaged and were left out"),
            Self::Readings { session, cause } => {
                write!(f, "the readings of session {session} cannot be used, so it has no energy: {}", short(cause))
            }
            Self::Sensor { message } | Self::ServerMetrics { message } => f.write_str(message),
            Self::ServerTokens { server, ours } => {
                write!(
                    f,
                    "the server generated {server} tokens over the run by its own count, and the answers have {ours}"
                )
            }
            Self::Ungradable { count, grader } => {
                write!(f, "{count} answers cannot be graded by `{grader}` and do not count")
            }
            Self::NoIdle => f.write_str("the machine was not measured at rest, so there is no net energy"),
        }
    }
}

/// A cause without its hint: the warning has one of its own.
fn short(cause: &str) -> &str {
    cause.split_once(". hint: ").map_or(cause, |(cause, _)| cause)
}

/// How a run ended.
pub(super) struct Ended<'a> {
    pub(super) folder: &'a Path,
    /// Whether every query that was asked for has its record.
    pub(super) complete: bool,
    pub(super) closing: Option<Closing>,
}

/// What to know about the load.
pub(super) fn of_load(load: &LoadSummary, seen: &Seen) -> Vec<Warning> {
    let reasons = load.client.reasons.clone();
    let short_answers = seen.short_answers;
    let behind = seen.backlog.map(|(sent, ended, in_flight)| Warning::Behind { sent, ended, in_flight });
    let ran_out = seen.duration_s.filter(|&of_s| load.whole.duration_s < 0.9 * of_s);
    let ran_out = ran_out.map(|of_s| Warning::RanOut { after_s: load.whole.duration_s, of_s });
    let limited = load.client_limited.then_some(Warning::ClientLimited { reasons });
    let short = Warning::ShortAnswers { count: short_answers, of: load.whole.completed };
    let short = (short_answers > 0).then_some(short);
    limited.into_iter().chain(behind).chain(ran_out).chain(short).collect()
}

/// What was seen of the load beside its figures.
pub(super) struct Seen {
    pub(super) short_answers: u64,
    /// Requests a second that were sent and that ended, and how many were in flight, where an open loop outran the server.
    pub(super) backlog: Option<(f64, f64, u64)>,
    /// How long requests were to be sent, where all queries were dealt with before.
    pub(super) duration_s: Option<f64>,
}

/// Everything to know about a run, what matters most first.
pub(super) fn warnings(
    ended: &Ended,
    manifest: &Manifest,
    sessions: &[Metered],
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
    if let Some((taken, other)) = tally.disagreement {
        warnings.push(Warning::TokenCounts {
            count: tally.disagreed,
            of: tally.counted_twice,
            taken: (taken.source.name(), taken.output),
            other: (other.source.name(), other.output),
        });
    }
    let uncounted = tally.completed.saturating_sub(tally.counted_completed);
    if uncounted > 0 {
        warnings.push(Warning::Uncounted { count: uncounted });
    }
    if let Some((path, cause)) = tally.unused_tokenizer.clone() {
        warnings.push(Warning::Tokenizer { path, cause });
    }
    if let Some(judged) = tally.judged {
        if judged.unjudged > 0 {
            warnings.push(Warning::Unjudged { count: judged.unjudged, folder: ended.folder.to_path_buf() });
        }
        if judged.without_verdict > 0 {
            let judge = manifest.grader.clone();
            warnings.push(Warning::WithoutVerdict { count: judged.without_verdict, judge });
        }
    }
    if !ended.complete {
        let why = match ended.closing {
            Some(Closing::Interrupted) => "it was interrupted",
            Some(Closing::TooManyFailures) => "too many requests failed",
            Some(Closing::Unwritable) => "it could not be written any more",
            Some(Closing::Unreadable) => "the dataset could not be read any more",
            Some(Closing::Finished | Closing::Duration) | None => "it was cut off",
        };
        warnings.push(Warning::Unfinished { folder: ended.folder.to_path_buf(), why });
    }
    match (&manifest.place, &energy.measured, &energy.modelled) {
        (Locality::Elsewhere { host }, ..) => warnings.push(Warning::Elsewhere { host: host.clone() }),
        (_, None, None) => warnings.push(Warning::NoEnergy),
        (_, None, Some(_)) => warnings.push(Warning::Modelled),
        (_, Some(_), _) => {}
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
    if tally.ungradable > 0 {
        warnings.push(Warning::Ungradable { count: tally.ungradable, grader: manifest.grader.clone() });
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
    let mut told: Vec<Warning> = Vec::new();
    for event in sessions.iter().flat_map(|session| session.loaded.timeline.events()) {
        let message = event.one_line(&CommandLine);
        let warning = match event.kind {
            EventKind::ScrapeFailed => Warning::ServerMetrics { message },
            _ => Warning::Sensor { message },
        };
        if !told.contains(&warning) {
            told.push(warning);
        }
    }
    warnings.extend(told);
    warnings
}
