//! Warnings about a run, each with a hint. `summary.json` has their texts.

use std::fmt;
use std::path::PathBuf;

use ergometer_diagnostics::{Diagnostic, Hint, command, flag, hint, option};
use serde::Serialize;

use super::{ClientLimit, ShareDoubt};

/// A warning about a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Warning {
    /// No sensor measured energy, so it is modelled.
    Modelled,
    /// No sensor measures or models energy.
    NoEnergy,
    /// Sensors measure energy, but gave no data while requests ran.
    UnknownEnergy {
        /// Each device with its name.
        devices: Vec<String>,
    },
    /// The sensors measured no energy at all.
    ZeroEnergy,
    /// The server is on another machine.
    Elsewhere {
        /// The host of the server.
        host: String,
    },
    /// Requests failed.
    Failures {
        /// The kind of failure.
        failure: String,
        /// How many.
        count: u64,
        /// The error of the first of them.
        cause: String,
    },
    /// Attempts failed and were retried.
    Retried {
        /// How many.
        count: u64,
        /// Their energy.
        joules: f64,
    },
    /// The client limited the load, not only the server.
    ClientLimited {
        /// The limits it reached.
        reasons: Vec<ClientLimit>,
    },
    /// An open loop sent requests faster than the server answered them.
    Behind {
        /// Requests sent per second, towards the end.
        sent: f64,
        /// Requests answered per second, at the same time.
        ended: f64,
        /// Requests in flight when the last one was sent.
        in_flight: u64,
    },
    /// The dataset ended before the requested duration.
    RanOut {
        /// When it ended, in seconds.
        after_s: f64,
        /// The requested duration, in seconds.
        of_s: f64,
    },
    /// Answers stopped before the maximum number of tokens, although `ignore_eos` or a replay requires their full
    /// length.
    ShortAnswers {
        /// How many.
        count: u64,
        /// The completed requests.
        of: u64,
        /// Whether `ignore_eos` was requested.
        #[serde(skip)]
        ignores_eos: bool,
    },
    /// Two token counts of the same answers disagree.
    TokenCounts {
        /// The requests on which they disagree.
        count: u64,
        /// The requests that were counted twice.
        of: u64,
        /// The source that is used, and its count of the first such answer.
        taken: (&'static str, u64),
        /// The other source and its count.
        other: (&'static str, u64),
    },
    /// Answers have tokens but no text.
    WithoutText {
        /// How many.
        count: u64,
    },
    /// The server reported fewer tokens than chunks with text.
    Undercounted {
        /// How many answers.
        count: u64,
        /// The chunks of the first of them.
        chunks: u64,
        /// Its tokens.
        tokens: u64,
    },
    /// Graded answers ended at the maximum number of tokens, and some of them are wrong.
    CutAnswers {
        /// The answers that ended there.
        count: u64,
        /// Those that are wrong.
        wrong: u64,
    },
    /// The tokens of some answers are unknown.
    Uncounted {
        /// How many.
        count: u64,
    },
    /// The configured tokenizer is not used.
    Tokenizer {
        /// Its path.
        path: PathBuf,
        /// Why it is not used.
        cause: String,
    },
    /// The judge did not judge some answers.
    Unjudged {
        /// How many.
        count: u64,
        /// The run folder.
        folder: PathBuf,
    },
    /// The judge's reply on some answers has no verdict.
    WithoutVerdict {
        /// How many.
        count: u64,
        /// The judge.
        judge: String,
    },
    /// The run is not complete.
    Unfinished {
        /// The run folder.
        folder: PathBuf,
        /// Why it is not complete.
        why: &'static str,
    },
    /// Some queries are too short for the resolution of the sensors.
    TooShort {
        /// How many.
        count: u64,
        /// All queries.
        of: u64,
    },
    /// Some queries have no energy.
    WithoutEnergy {
        /// How many.
        count: u64,
    },
    /// A part of the energy falls into gaps of the sensors.
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
        /// The number of the session.
        session: u32,
        /// Why they cannot be used.
        cause: String,
    },
    /// A sensor reported an event.
    Sensor {
        /// The event.
        message: String,
        /// The hint of the event.
        #[serde(skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
    },
    /// Scraping the server's metrics failed at least once.
    ServerMetrics {
        /// The first error.
        message: String,
    },
    /// The server's count of generated tokens differs from the answers.
    ServerTokens {
        /// The tokens generated over the run, by the server's count.
        server: u64,
        /// The tokens of the answers.
        ours: u64,
    },
    /// Idle power was not measured, so there is no net energy.
    NoIdle,
    /// The engine log was not used.
    EngineLog {
        /// What is wrong with it.
        cause: String,
    },
    /// Requests ran together, and nothing shows how they shared the server.
    EqualShare {
        /// How many.
        count: u64,
    },
    /// The energy of each request has a wide interval.
    WideShares {
        /// What makes it wide.
        doubt: ShareDoubt,
    },
    /// The grader cannot compare some answers.
    Ungradable {
        /// How many.
        count: u64,
        /// The grader.
        grader: String,
    },
}

impl Diagnostic for Warning {
    #[expect(clippy::too_many_lines, reason = "one arm for each warning")]
    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::Modelled => hint!(command("doctor"), " lists what could measure it on this machine"),
            Self::NoEnergy => hint!(command("doctor"), " says what is missing and how to fix it"),
            Self::Elsewhere { .. } => hint!(
                "run ergo on the server's machine, or pass ",
                flag("server-is-local"),
                " if the address is a tunnel to this machine or a container on it"
            ),
            Self::Unfinished { folder, .. } => {
                hint!("continue it with ", command(format!("profile --resume {}", folder.display())))
            }
            Self::TooShort { .. } => {
                hint!("totals are not affected; for single queries, request longer answers or use a larger model")
            }
            Self::NoIdle => hint!(
                "idle power is measured before and after the run: leave out ",
                option("idle").value("0s"),
                ", and do not interrupt the run"
            ),
            Self::Failures { .. } => hint!(
                "the column `cause` of requests.parquet says why each failed; ",
                option("max-failures").value("N"),
                " stops a run early"
            ),
            Self::Retried { .. } => hint!("requests.parquet has each of them, with `is_retried` set"),
            Self::ClientLimited { reasons } => return reasons.iter().map(|reason| reason.hint()).reduce(Hint::and),
            Self::Behind { .. } => hint!(
                "latencies grow for as long as requests are sent and say little about the server; lower the rate, or use ",
                option("concurrency")
            ),
            Self::RanOut { .. } => {
                hint!("use a larger dataset, or ", option("dataset").value("synthetic"), ", which is endless")
            }
            Self::ShortAnswers { ignores_eos: true, .. } => hint!(
                "the server seems to ignore ",
                flag("ignore-eos"),
                "; use one that supports it: vLLM, SGLang, llama.cpp"
            ),
            Self::ShortAnswers { ignores_eos: false, .. } => hint!(
                "pass ",
                flag("ignore-eos"),
                " to get answers of full length from servers that support it: vLLM, SGLang, llama.cpp"
            ),
            Self::TokenCounts { .. } => hint!(
                "check that ",
                option("tokenizer"),
                " is the model's, and whether the server leaves tokens out of its answers"
            ),
            Self::WithoutText { .. } => {
                hint!("the model generated only special tokens; check the chat template and ", flag("ignore-eos"))
            }
            Self::Undercounted { .. } => hint!(
                "figures per token use the counts of the server and are too high; ",
                option("tokenizer").value("PATH"),
                " counts the tokens on this machine too"
            ),
            Self::CutAnswers { .. } => hint!("raise ", option("max-tokens"), " so that answers are not cut off"),
            Self::Uncounted { .. } => hint!(
                "count them with ",
                option("tokenizer").value("PATH"),
                "; figures per token cover the other queries only"
            ),
            Self::Tokenizer { .. } => {
                hint!("restore the tokenizer, then run ", command("finalize"), " to count the tokens")
            }
            Self::Unjudged { folder, .. } => hint!(
                "judge them with ",
                command(format!("profile --resume {}", folder.display())),
                "; accuracy covers the other answers only"
            ),
            Self::WithoutVerdict { .. } => hint!(
                "they are not graded; the judge's replies are in the column `ergometer.grade.reply` of the run's \
                 dataset. A larger judge follows the format more often"
            ),
            Self::WithoutEnergy { .. } => hint!("energy figures cover the other queries only"),
            Self::Unattributed { .. } => hint!("something delayed the sensors: is the machine overloaded?"),
            Self::Readings { session, .. } => hint!(
                format!("remove the damaged lines of journal/session-{session}.readings.jsonl, then run "),
                command("finalize")
            ),
            Self::Damaged { .. } => {
                hint!("check the disk; ", command("profile --resume"), " sends the missing queries again")
            }
            Self::EngineLog { .. } => {
                hint!("pass the log of the server that this run used: ", command("attribute RUN --engine-log FILE"))
            }
            Self::EqualShare { .. } => hint!(
                "make a longer run with streaming, or run ",
                command("attribute RUN --engine-log FILE"),
                "; until then the intervals are wide"
            ),
            Self::WideShares { doubt: ShareDoubt::PoorFit { .. } } => hint!(
                "make a longer run with requests of more varied lengths, or run ",
                command("attribute RUN --engine-log FILE")
            ),
            Self::WideShares { doubt: ShareDoubt::UnreportedCache { .. } } => hint!(
                "make the server report cached tokens (vLLM: --enable-prompt-tokens-details), or turn its prefix cache off"
            ),
            Self::WideShares { doubt: ShareDoubt::OtherClients { .. } } => {
                hint!("measure without other clients, or run ", command("attribute RUN --engine-log FILE"))
            }
            Self::Ungradable { .. } => hint!(
                command("list graders"),
                " shows the other graders; ",
                option("grader").value("none"),
                " turns grading off"
            ),
            Self::ServerMetrics { .. } => hint!(
                "figures of the server cover the scrapes that succeeded; ",
                option("server-metrics").value("off"),
                " turns scraping off"
            ),
            Self::ServerTokens { .. } => hint!(
                "other clients may have used the server at the same time; ",
                option("tokenizer").value("PATH"),
                " counts the tokens on this machine too"
            ),
            Self::Sensor { hint: Some(hint), .. } => Hint::text(hint.clone()),
            Self::Sensor { .. } | Self::UnknownEnergy { .. } | Self::ZeroEnergy => check_sensors(),
        })
    }
}

fn check_sensors() -> Hint {
    hint!("check the sensors with ", command("doctor"))
}

/// Who counted the tokens, by the name of the source.
fn source_phrase(source: &str) -> &'static str {
    match source {
        "usage" => "in the server's `usage`",
        "native" => "in other fields of the server's answer",
        "tokenize" => "by the server's tokenizer endpoint",
        "tokenizer" => "by the tokenizer on this machine",
        _ => "by the model",
    }
}

/// `1 request`, `2 requests`.
fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

impl fmt::Display for Warning {
    #[expect(clippy::too_many_lines, reason = "one arm for each warning")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Modelled => f.write_str("energy is modelled from CPU utilization, not measured"),
            Self::NoEnergy => f.write_str("no sensor measures energy or power: the run has latencies but no energy"),
            Self::UnknownEnergy { devices } => {
                let they = if devices.len() == 1 { "it has" } else { "they have" };
                write!(f, "the energy of {} is unknown: {they} too few readings while requests ran", devices.join(", "))
            }
            Self::ZeroEnergy => f.write_str("the sensors measured 0 J: the run has latencies but no energy"),
            Self::Elsewhere { host } => {
                write!(f, "the server runs on {host}, so its energy cannot be measured here: the run has no energy")
            }
            Self::Failures { failure, count, cause } => {
                let example = if *count == 1 { "" } else { "for example: " };
                write!(f, "{} failed: {failure} ({example}{cause})", plural(*count, "request", "requests"))
            }
            Self::Retried { count, joules } => {
                write!(f, "{} retried", plural(*count, "attempt failed and was", "attempts failed and were"))?;
                let they = if *count == 1 { "it" } else { "they" };
                if *joules >= 0.0005 { write!(f, "; {they} used {joules:.3} J") } else { Ok(()) }
            }
            Self::ClientLimited { reasons } => {
                let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "the client limited the load ({}), so the results may not reflect the server",
                    reasons.join("; ")
                )
            }
            Self::Behind { sent, ended, in_flight } => write!(
                f,
                "the server did not keep up: towards the end {sent:.1} requests per second were sent and {ended:.1} \
                 answered, and {in_flight} were in flight"
            ),
            Self::RanOut { after_s, of_s } => {
                write!(f, "the dataset ran out after {after_s:.1} s of the requested {of_s} s")
            }
            Self::ShortAnswers { count, of, .. } => {
                write!(f, "{count} of {of} answers stopped before the maximum number of tokens")
            }
            Self::TokenCounts { count, of, taken, other } => write!(
                f,
                "two token counts disagree on {count} of {of} answers; the first of these answers has {} tokens {} and {} {}",
                taken.1,
                source_phrase(taken.0),
                other.1,
                source_phrase(other.0)
            ),
            Self::WithoutText { count } => {
                write!(f, "{} tokens but no text", plural(*count, "completed answer has", "completed answers have"))
            }
            Self::Undercounted { count, chunks, tokens } => write!(
                f,
                "in {}, the server reported fewer tokens than chunks with text; the first has {} and \
                 {chunks} chunks",
                plural(*count, "answer", "answers"),
                plural(*tokens, "token", "tokens")
            ),
            Self::CutAnswers { count, wrong } => write!(
                f,
                "{} at the maximum number of tokens, and {wrong} of them {} wrong",
                plural(*count, "graded answer ended", "graded answers ended"),
                if *wrong == 1 { "is" } else { "are" }
            ),
            Self::Uncounted { count } => {
                let answers = plural(*count, "answer", "answers");
                write!(f, "the tokens of {answers} are unknown: the server sent no usage")
            }
            Self::Tokenizer { path, cause } => {
                write!(f, "the tokenizer {} is not used: {cause}", path.display())
            }
            Self::Unjudged { count, .. } => write!(f, "{} not judged", plural(*count, "answer is", "answers are")),
            Self::WithoutVerdict { count, judge } => {
                write!(f, "the judge {judge} gave no verdict on {}", plural(*count, "answer", "answers"))
            }
            Self::Unfinished { why, .. } => write!(f, "the run is not complete: {why}"),
            Self::TooShort { count, of } => write!(
                f,
                "{count} of {of} queries are too short to measure individually: their energy is uncertain by ±50 % or more"
            ),
            Self::WithoutEnergy { count } => {
                let (queries, them) = if *count == 1 { ("query has", "it") } else { ("queries have", "them") };
                write!(f, "{count} {queries} no energy: the sensors had no data for {them}")
            }
            Self::Unattributed { share } => {
                write!(
                    f,
                    "{:.1} % of the energy cannot be assigned to requests: it was used while a sensor gave no readings",
                    share * 100.0
                )
            }
            Self::Damaged { lines } => {
                let lines = plural(
                    *lines,
                    "line of the journal is damaged and was",
                    "lines of the journal are damaged and were",
                );
                write!(f, "{lines} skipped")
            }
            Self::Readings { session, cause } => {
                write!(
                    f,
                    "session {session} of the run (each resume starts a new session) has no energy: its readings cannot be \
                     used: {cause}"
                )
            }
            Self::Sensor { message, .. } | Self::ServerMetrics { message } => f.write_str(message),
            Self::ServerTokens { server, ours } => {
                write!(f, "the server counted {server} generated tokens over the run, but the answers have {ours}")
            }
            Self::Ungradable { count, grader } => {
                let (answers, do_not) = if *count == 1 { ("answer", "does not") } else { ("answers", "do not") };
                write!(f, "{count} {answers} cannot be graded by `{grader}` and {do_not} count")
            }
            Self::EngineLog { cause } => write!(f, "the engine log is not used: {cause}"),
            Self::EqualShare { count } => write!(
                f,
                "the energy of {} was divided equally: the run is too short for a cost model, or its answers were not \
                 streamed or have no token counts",
                plural(*count, "concurrent request", "concurrent requests")
            ),
            Self::WideShares { doubt } => {
                write!(f, "the energy of single requests is uncertain, so its intervals are wide: {doubt}")
            }
            Self::NoIdle => f.write_str("idle power was not measured, so there is no net energy"),
        }
    }
}
