//! Builds exchanges for tests of the load. Times are in milliseconds from a fixed second.

use ergometer_units::{Seconds, Timestamp};

use super::{Attempts, Load};
use crate::journal::OrderedRequest;
use ergometer_clients::{ChunkKind, ConnectionUse, FailureKind, Outcome, TokenSource, Transcript, Usage};
use ergometer_datasets::{Query, Turn};
use ergometer_runs::config::RunConfig;
use ergometer_runs::{Exchange, Fate};

/// The properties of an exchange that a test sets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sketch {
    pub(super) index: u64,
    pub(super) scheduled: f64,
    pub(super) sent: f64,
    pub(super) chunks: &'static [f64],
    pub(super) end: f64,
    pub(super) tokens: Option<u64>,
    pub(super) is_whole: bool,
    pub(super) is_retried: bool,
    pub(super) failure: Option<FailureKind>,
    pub(super) line: Option<ConnectionUse>,
    pub(super) conversation: Option<u64>,
}

impl Sketch {
    /// Scheduled and sent at once; one chunk at the end.
    pub(super) fn plain(index: u64, sent: f64, end: f64) -> Self {
        Self { index, scheduled: sent, sent, end, ..Self::default() }
    }
}

pub(super) fn at(millis: f64) -> Timestamp {
    Timestamp::from_nanos_since_epoch(1_794_730_772_000_000_000) + Seconds::from_millis(millis)
}

pub(super) fn exchange(sketch: Sketch) -> Exchange {
    let mut transcript = Transcript { is_whole: sketch.is_whole, connection_use: sketch.line, ..Transcript::default() };
    let is_failed = sketch.failure.is_some();
    let at_its_end = [sketch.end];
    let chunks = if sketch.chunks.is_empty() && !is_failed { at_its_end.as_slice() } else { sketch.chunks };
    for &millis in chunks {
        transcript.push(at(millis), ChunkKind::Content, "a");
    }
    transcript.usage = sketch.tokens.map(|output| Usage { input: 1, output, cached: None, source: TokenSource::Usage });
    let turn = sketch.conversation.map(|conversation| Turn { conversation, number: 0, think_s: None });
    Exchange {
        request: sketch.index,
        session: 0,
        attempt: 1,
        query: Query { index: sketch.index, turn, ..Query::default() },
        scheduled: at(sketch.scheduled),
        sent: at(sketch.sent),
        end: at(sketch.end),
        transcript,
        outcome: match sketch.failure {
            Some(kind) => Outcome::Failed { kind, cause: String::from("by hand") },
            None => Outcome::Completed,
        },
        is_retried: sketch.is_retried,
    }
}

/// A run with this schedule.
fn config(schedule: &serde_json::Value) -> RunConfig {
    let config = serde_json::json!({
        "dataset": {"id": "builtin"}, "client": {"id": "openai", "model": "m"}, "request": {"seed": 0},
        "schedule": schedule, "warmup": 0, "idle_s": 0.0, "devices": [], "server_is_local": false, "model_cpu": true,
        "prices": {},
    });
    serde_json::from_value(config).unwrap()
}

/// One session with these exchanges. Exchanges that are not retried are records.
pub(super) fn load<'a>(config: &'a RunConfig, sketches: &[Sketch]) -> Load<'a> {
    let exchanges: Vec<Exchange> = sketches.iter().copied().map(exchange).collect();
    let mut attempts = Attempts::default();
    for exchange in &exchanges {
        attempts.add(exchange);
    }
    let is_record = |exchange: &Exchange| exchange.fate() == Fate::Settled;
    let order = exchanges.iter().zip(0..).map(|(exchange, place)| OrderedRequest {
        session: 0,
        place,
        is_record: is_record(exchange),
    });
    let mut load = Load::from_sessions(config, vec![(attempts, Vec::new())], &order.collect::<Vec<_>>());
    for (place, exchange) in exchanges.iter().enumerate().filter(|(_, exchange)| is_record(exchange)) {
        load.record(0, place, exchange);
    }
    load
}

/// A closed loop with this concurrency.
pub(super) fn closed_loop(concurrency: u32) -> RunConfig {
    config(&serde_json::json!({"mode": "concurrency", "concurrency": concurrency}))
}

/// An open loop with this rate.
pub(super) fn open_loop(rate: f64) -> RunConfig {
    config(&serde_json::json!({"mode": "rate", "rate": rate, "arrivals": "constant"}))
}
