//! Encodes and decodes the lines of a session's events.

use std::borrow::Cow;

use ergometer_units::{Seconds, Timestamp, Window};
use serde::{Deserialize, Serialize};

use ergometer_clients::redact::Secrets;
use ergometer_clients::{
    Chunk, ChunkKind, ConnectionUse, FailureKind, Outcome, Protocol, ServerTimes, Transcript, Usage,
};
use ergometer_datasets::Query;
use ergometer_runs::{Closing, Exchange, SenderFacts};

/// The longest line of an events file, with its newline. The longest answers have a few megabytes.
pub(super) const LONGEST_LINE: u64 = 256 << 20;

/// A line of the events file.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// The session started.
    Session(SessionStart),
    /// Idle power was measured.
    Idle(IdleKind, Window),
    /// Warm-up requests were sent.
    Warmup(Window),
    /// A calibration request ended. It is not a record.
    Calibration(Box<Exchange>),
    /// A request was sent.
    Sent {
        /// Its number in the run.
        request: u64,
        /// The index of its query in the dataset.
        index: u64,
        /// When it was sent.
        sent: Timestamp,
    },
    /// A request ended.
    Ended(Box<Exchange>),
    /// The facts of the sender, after the last request.
    Sender(Box<SenderFacts>),
    /// The session ended.
    Closed(Closing),
}

/// The start of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStart {
    /// Its number in the run, from 0.
    pub session: u32,
    /// When it started, in nanoseconds since the epoch.
    pub started_ns: i64,
}

/// When idle power was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdleKind {
    /// Before the first request.
    Before,
    /// After the last request.
    After,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Wire<'a> {
    Session(SessionStart),
    Idle { when: IdleKind, start_ns: i64, end_ns: i64 },
    Warmup { start_ns: i64, end_ns: i64 },
    Sent { request: u64, index: u64, sent_ns: i64 },
    Calibration(Box<WireExchange<'a>>),
    Ended(Box<WireExchange<'a>>),
    Sender(Cow<'a, SenderFacts>),
    Closed(Closing),
}

/// Chunk times are stored as gaps, the first from when the request was sent: short and exact.
#[derive(Serialize, Deserialize)]
struct WireExchange<'a> {
    request: u64,
    /// Absent if the client sent none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request_id: Option<Cow<'a, str>>,
    session: u32,
    attempt: u32,
    query: Cow<'a, Query>,
    scheduled_ns: i64,
    sent_ns: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_byte_ns: Option<i64>,
    end_ns: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    line: Option<WireLine>,
    chunk_gaps_ns: Vec<i64>,
    /// A letter for each chunk, `c`, `r`, `t` or `s`; absent if all are content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chunk_kinds: Option<String>,
    /// The choice of each chunk; absent if all belong to the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chunk_choices: Option<Vec<u32>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_whole: bool,
    text: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    reasoning: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    tool_calls: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    also_counted: Option<Usage>,
    /// Load, prompt, output, total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server_times_ns: Option<[Option<i64>; 4]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finish: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    processor_ns: Option<i64>,
    outcome: Cow<'a, Outcome>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_retried: bool,
}

fn at(nanos: i64) -> Timestamp {
    Timestamp::from_nanos_since_epoch(nanos)
}

impl Entry {
    /// Encodes the line, including its newline.
    #[must_use]
    pub fn to_line(&self) -> Vec<u8> {
        let mut line = Vec::new();
        self.write_line(&mut line);
        line
    }

    /// Appends the line. In place of a line that is longer than `limit`, which the reader would not take, it appends the
    /// request as failed and without its texts, with the reason.
    pub(super) fn write_line_within(&self, limit: u64, lines: &mut Vec<u8>) {
        let start = lines.len();
        self.write_line(lines);
        let length = (lines.len() - start) as u64;
        if length <= limit {
            return;
        }
        let shorter = |exchange: &Exchange| Box::new(without_texts(exchange, length, limit));
        let shorter = match self {
            Self::Ended(exchange) => Self::Ended(shorter(exchange)),
            Self::Calibration(exchange) => Self::Calibration(shorter(exchange)),
            // The others have a few numbers.
            Self::Session(_)
            | Self::Idle(..)
            | Self::Warmup(_)
            | Self::Sent { .. }
            | Self::Sender(_)
            | Self::Closed(_) => return,
        };
        lines.truncate(start);
        shorter.write_line(lines);
    }

    /// Appends the line.
    fn write_line(&self, lines: &mut Vec<u8>) {
        let wire = match self {
            Self::Session(start) => Wire::Session(*start),
            Self::Idle(when, window) => Wire::Idle {
                when: *when,
                start_ns: window.start().nanos_since_epoch(),
                end_ns: window.end().nanos_since_epoch(),
            },
            Self::Warmup(window) => {
                Wire::Warmup { start_ns: window.start().nanos_since_epoch(), end_ns: window.end().nanos_since_epoch() }
            }
            Self::Sent { request, index, sent } => {
                Wire::Sent { request: *request, index: *index, sent_ns: sent.nanos_since_epoch() }
            }
            Self::Calibration(exchange) => Wire::Calibration(Box::new(WireExchange::from(&**exchange))),
            Self::Ended(exchange) => Wire::Ended(Box::new(WireExchange::from(&**exchange))),
            Self::Sender(facts) => Wire::Sender(Cow::Borrowed(facts)),
            Self::Closed(closing) => Wire::Closed(*closing),
        };
        // These types always serialize: keys are strings, and there are no floats that JSON cannot represent.
        if serde_json::to_writer(&mut *lines, &wire).is_ok() {
            lines.push(b'\n');
        }
    }

    /// Redacts all text that came from a server.
    pub(super) fn redact(&mut self, secrets: &Secrets) {
        if secrets.is_empty() {
            return;
        }
        if let Self::Ended(exchange) | Self::Calibration(exchange) = self {
            let Transcript { text, reasoning, tool_calls, finish, .. } = &mut exchange.transcript;
            let cause = match &mut exchange.outcome {
                Outcome::Failed { cause, .. } => Some(cause),
                Outcome::Completed | Outcome::Cancelled | Outcome::Lost => None,
            };
            let texts = [text, reasoning, tool_calls].into_iter().chain(finish.as_mut()).chain(cause);
            texts.for_each(|text| secrets.redact_in(text));
        }
    }

    /// Decodes a line.
    pub fn from_line(line: &[u8]) -> Result<Self, serde_json::Error> {
        let window = |start_ns, end_ns| {
            Window::new(at(start_ns), at(end_ns)).map_err(|error| serde::de::Error::custom(error.to_string()))
        };
        Ok(match serde_json::from_slice(line)? {
            Wire::Session(start) => Self::Session(start),
            Wire::Idle { when, start_ns, end_ns } => Self::Idle(when, window(start_ns, end_ns)?),
            Wire::Warmup { start_ns, end_ns } => Self::Warmup(window(start_ns, end_ns)?),
            Wire::Sent { request, index, sent_ns } => Self::Sent { request, index, sent: at(sent_ns) },
            Wire::Calibration(exchange) => Self::Calibration(Box::new(Exchange::from(*exchange))),
            Wire::Ended(exchange) => Self::Ended(Box::new(Exchange::from(*exchange))),
            Wire::Sender(facts) => Self::Sender(Box::new(facts.into_owned())),
            Wire::Closed(closing) => Self::Closed(closing),
        })
    }
}

/// The exchange as a failure without its texts and chunks.
fn without_texts(exchange: &Exchange, length: u64, limit: u64) -> Exchange {
    let Exchange { query, transcript, .. } = exchange;
    let cause = format!(
        "the request and its answer take {length} bytes in the journal, and a line may have {limit} bytes at most; their \
         texts were not kept"
    );
    Exchange {
        query: Query {
            index: query.index,
            output_tokens: query.output_tokens,
            arrival_s: query.arrival_s,
            turn: query.turn,
            ..Query::default()
        },
        transcript: Transcript {
            request_id: transcript.request_id.clone(),
            first_byte: transcript.first_byte,
            connection_use: transcript.connection_use,
            usage: transcript.usage,
            also_counted: transcript.also_counted,
            server_times: transcript.server_times,
            processor_time: transcript.processor_time,
            ..Transcript::default()
        },
        outcome: Outcome::Failed { kind: FailureKind::TooLarge, cause },
        is_retried: false,
        ..*exchange
    }
}

/// The version of HTTP, the time to connect (null on an open connection), and the time the request waited for a connection
/// (absent if it did not wait).
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum WireLine {
    AtOnce(Protocol, Option<i64>),
    Waited(Protocol, Option<i64>, i64),
}

impl From<ConnectionUse> for WireLine {
    fn from(ConnectionUse { protocol, connect, waited }: ConnectionUse) -> Self {
        let connect = connect.map(Seconds::as_nanos);
        waited.map_or(Self::AtOnce(protocol, connect), |waited| Self::Waited(protocol, connect, waited.as_nanos()))
    }
}

impl From<WireLine> for ConnectionUse {
    fn from(wire: WireLine) -> Self {
        let (protocol, connect, waited) = match wire {
            WireLine::AtOnce(protocol, connect) => (protocol, connect, None),
            WireLine::Waited(protocol, connect, waited) => (protocol, connect, Some(waited)),
        };
        Self { protocol, connect: connect.map(Seconds::from_nanos), waited: waited.map(Seconds::from_nanos) }
    }
}

impl<'a> From<&'a Exchange> for WireExchange<'a> {
    fn from(exchange: &'a Exchange) -> Self {
        let transcript = &exchange.transcript;
        let mut before = exchange.sent.nanos_since_epoch();
        let gaps = transcript.chunks.iter().map(|chunk| {
            let now = chunk.at.nanos_since_epoch();
            now.saturating_sub(std::mem::replace(&mut before, now))
        });
        let chunk_gaps_ns = gaps.collect();
        let has_others = transcript.chunks.iter().any(|chunk| chunk.kind != ChunkKind::Content);
        let has_choices = transcript.chunks.iter().any(|chunk| chunk.choice != 0);
        let ServerTimes { load, prompt, output, total } = transcript.server_times;
        let server_times_ns = [load, prompt, output, total].map(|time| time.map(Seconds::as_nanos));
        Self {
            request: exchange.request,
            request_id: transcript.request_id.as_deref().map(Cow::Borrowed),
            session: exchange.session,
            attempt: exchange.attempt,
            query: Cow::Borrowed(&exchange.query),
            scheduled_ns: exchange.scheduled.nanos_since_epoch(),
            sent_ns: exchange.sent.nanos_since_epoch(),
            first_byte_ns: transcript.first_byte.map(Timestamp::nanos_since_epoch),
            end_ns: exchange.end.nanos_since_epoch(),
            line: transcript.connection_use.map(WireLine::from),
            chunk_gaps_ns,
            chunk_kinds: has_others.then(|| transcript.chunks.iter().map(|chunk| chunk.kind.letter()).collect()),
            chunk_choices: has_choices.then(|| transcript.chunks.iter().map(|chunk| chunk.choice).collect()),
            is_whole: transcript.is_whole,
            text: Cow::Borrowed(&transcript.text),
            reasoning: Cow::Borrowed(&transcript.reasoning),
            tool_calls: Cow::Borrowed(&transcript.tool_calls),
            usage: transcript.usage,
            also_counted: transcript.also_counted,
            server_times_ns: (!transcript.server_times.is_empty()).then_some(server_times_ns),
            finish: transcript.finish.as_deref().map(Cow::Borrowed),
            processor_ns: transcript.processor_time.map(Seconds::as_nanos),
            outcome: Cow::Borrowed(&exchange.outcome),
            is_retried: exchange.is_retried,
        }
    }
}

impl From<WireExchange<'_>> for Exchange {
    fn from(wire: WireExchange<'_>) -> Self {
        let mut now = wire.sent_ns;
        let kinds = wire.chunk_kinds.unwrap_or_default().into_bytes();
        let choices = wire.chunk_choices.unwrap_or_default();
        let chunks = wire.chunk_gaps_ns.iter().enumerate().map(|(place, gap)| {
            now = now.saturating_add(*gap);
            let kind = kinds.get(place).map_or(ChunkKind::Content, |letter| ChunkKind::from_letter(*letter));
            Chunk { at: at(now), kind, choice: choices.get(place).copied().unwrap_or(0) }
        });
        let [load, prompt, output, total] =
            wire.server_times_ns.unwrap_or_default().map(|time| time.map(Seconds::from_nanos));
        let transcript = Transcript {
            request_id: wire.request_id.map(Cow::into_owned),
            sent: None,
            connection_use: wire.line.map(ConnectionUse::from),
            ended: None,
            chunks: chunks.collect(),
            first_byte: wire.first_byte_ns.map(at),
            is_whole: wire.is_whole,
            text: wire.text.into_owned(),
            reasoning: wire.reasoning.into_owned(),
            tool_calls: wire.tool_calls.into_owned(),
            usage: wire.usage,
            also_counted: wire.also_counted,
            server_times: ServerTimes { load, prompt, output, total },
            finish: wire.finish.map(Cow::into_owned),
            processor_time: wire.processor_ns.map(Seconds::from_nanos),
        };
        Self {
            request: wire.request,
            session: wire.session,
            attempt: wire.attempt,
            query: wire.query.into_owned(),
            scheduled: at(wire.scheduled_ns),
            sent: at(wire.sent_ns),
            // A damaged file may have an end before the start.
            end: at(wire.end_ns.max(wire.sent_ns)),
            transcript,
            outcome: wire.outcome.into_owned(),
            is_retried: wire.is_retried,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::exchange;

    #[test]
    fn a_line_has_a_third_number_only_if_the_request_waited() {
        for (text, waited) in [(r#"["http/1.1",70]"#, None), (r#"["http/2",null,9]"#, Some(Seconds::from_nanos(9)))] {
            let line = ConnectionUse::from(serde_json::from_str::<WireLine>(text).unwrap());
            assert_eq!(line.waited, waited, "{text}");
            assert_eq!(serde_json::to_string(&WireLine::from(line)).unwrap(), text);
        }
    }

    #[test]
    fn a_line_that_is_too_long_becomes_a_failure_that_fits() {
        let mut long = exchange(4, 1_000_000);
        long.query.problem = "x".repeat(5000);
        long.query.metadata.insert(String::from("more"), "y".repeat(5000).into());
        long.transcript.text = "z".repeat(5000);
        let entry = Entry::Ended(Box::new(long.clone()));
        let mut lines = b"before\n".to_vec();
        entry.write_line_within(4096, &mut lines);
        let line = lines.strip_prefix(b"before\n").unwrap();
        assert!(line.len() < 1000);
        let Ok(Entry::Ended(found)) = Entry::from_line(line) else { panic!("{}", String::from_utf8_lossy(line)) };
        assert_eq!((found.request, found.query.index, found.sent, found.end), (4, 4, long.sent, long.end));
        assert_eq!(found.transcript.usage, long.transcript.usage);
        assert_eq!(found.transcript.request_id, long.transcript.request_id);
        let Outcome::Failed { kind: FailureKind::TooLarge, cause } = &found.outcome else { panic!("{found:?}") };
        assert!(cause.contains("a line may have 4096 bytes at most"), "{cause}");
        let shortened = found;
        lines.clear();
        entry.write_line_within(1 << 20, &mut lines);
        assert_eq!(Entry::from_line(&lines).unwrap(), entry);

        lines.clear();
        Entry::Calibration(Box::new(long)).write_line_within(4096, &mut lines);
        let Ok(Entry::Calibration(found)) = Entry::from_line(&lines) else { panic!("{}", lines.len()) };
        assert!(lines.len() < 1000);
        assert!(matches!(found.outcome, Outcome::Failed { kind: FailureKind::TooLarge, .. }));
        assert_eq!((found.request, found.query, found.sent), (shortened.request, shortened.query, shortened.sent));
    }

    #[test]
    fn a_line_without_request_id_and_cached_tokens_is_read() {
        let mut older = exchange(4, 1_000_000);
        older.transcript.request_id = None;
        older.transcript.usage = older.transcript.usage.map(|usage| Usage { cached: None, ..usage });
        let entry = Entry::Ended(Box::new(older));
        let line = String::from_utf8(entry.to_line()).unwrap();
        assert!(!line.contains("request_id") && !line.contains("cached"), "{line}");
        assert_eq!(Entry::from_line(line.as_bytes()).unwrap(), entry);
    }

    #[test]
    fn every_entry_is_read_back_from_its_line() {
        let window = Window::new(at(5), at(9)).unwrap();
        let failed = Outcome::Failed { kind: FailureKind::TimeoutTotal, cause: String::from("after 1 s\n") };
        let entries = [
            Entry::Session(SessionStart { session: 3, started_ns: 17 }),
            Entry::Idle(IdleKind::Before, window),
            Entry::Warmup(window),
            Entry::Sent { request: 1, index: 2, sent: at(3) },
            Entry::Ended(Box::new(exchange(4, 1_000_000))),
            Entry::Calibration(Box::new(exchange(0, 2_000_000))),
            Entry::Ended(Box::new(Exchange {
                outcome: failed,
                transcript: Transcript::default(),
                is_retried: true,
                ..exchange(4, 9)
            })),
            Entry::Sender(Box::new(SenderFacts { processor_s: 0.25, most_in_flight: 7, ..SenderFacts::default() })),
            Entry::Closed(Closing::Interrupted),
        ];
        for entry in entries {
            let line = entry.to_line();
            assert_eq!(line.split(|&byte| byte == b'\n').count(), 2, "one line each");
            assert_eq!(Entry::from_line(&line).unwrap(), entry);
        }
        for wrong in ["", "{}", "[]", "{\"idle\":{\"when\":\"before\",\"start_ns\":9,\"end_ns\":5}}", "{\"ended\":{}}"]
        {
            assert!(Entry::from_line(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
