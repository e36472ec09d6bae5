//! Exchanges made by hand, for the tests of this folder. Times are in milliseconds from a fixed second.

use ergometer_units::{Seconds, Timestamp};

use super::{Load, Passages};
use crate::journal::Ordered;
use ergometer_clients::{ChunkKind, ConnectionUse, FailureKind, Outcome, TokenSource, Transcript, Usage};
use ergometer_datasets::{Query, Turn};
use ergometer_runs::config::RunConfig;
use ergometer_runs::{Exchange, Fate};

/// What a test says of an exchange.
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
    transcript.usage = sketch.tokens.map(|output| Usage { input: 1, output, source: TokenSource::Usage });
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

/// One session of these exchanges. Those that are not sent again are records.
pub(super) fn load<'a>(config: &'a RunConfig, sketches: &[Sketch]) -> Load<'a> {
    let exchanges: Vec<Exchange> = sketches.iter().copied().map(exchange).collect();
    let mut passages = Passages::default();
    for exchange in &exchanges {
        passages.take(exchange);
    }
    let is_record = |exchange: &Exchange| exchange.fate() == Fate::Settled;
    let order = exchanges.iter().zip(0..).map(|(exchange, place)| Ordered {
        session: 0,
        place,
        is_record: is_record(exchange),
    });
    let mut load = Load::of_sessions(config, vec![(passages, Vec::new())], &order.collect::<Vec<_>>());
    for (place, exchange) in exchanges.iter().enumerate().filter(|(_, exchange)| is_record(exchange)) {
        load.record(0, place, exchange);
    }
    load
}

/// So many in flight.
pub(super) fn closed_loop(concurrency: u32) -> RunConfig {
    config(&serde_json::json!({"mode": "concurrency", "concurrency": concurrency}))
}

/// So many a second.
pub(super) fn open_loop(rate: f64) -> RunConfig {
    config(&serde_json::json!({"mode": "rate", "rate": rate, "arrivals": "constant"}))
}
