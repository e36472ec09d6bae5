//! Exchanges for tests of this crate and of others.

use ergometer_clients::{Chunk, ChunkKind, ConnectionUse, Outcome, Protocol, TokenSource, Transcript, Usage};
use ergometer_datasets::Query;
use ergometer_runs::Exchange;
use ergometer_units::{Seconds, Timestamp};

fn at(nanos: i64) -> Timestamp {
    Timestamp::from_nanos_since_epoch(nanos)
}

/// A request that took 30 ms and has chunks of each kind.
#[must_use]
pub fn exchange(request: u64, sent_ns: i64) -> Exchange {
    let request_id = Some(format!("ergometer-18e8a-{request}"));
    let mut transcript = Transcript { request_id, ..Transcript::default() };
    transcript.push(at(sent_ns + 10_000_000), ChunkKind::Reasoning, "hm\n\"");
    transcript.push(at(sent_ns + 20_000_000), ChunkKind::Content, "4é");
    transcript.usage = Some(Usage { input: 7, output: 2, cached: Some(5), source: TokenSource::Model });
    transcript.push(at(sent_ns + 25_000_000), ChunkKind::ToolCall, "f({})");
    transcript.push_event(Chunk { at: at(sent_ns + 25_000_000), kind: ChunkKind::Silent, choice: 1 });
    transcript.also_counted = Some(Usage { input: 7, output: 3, cached: None, source: TokenSource::Native });
    transcript.server_times.prompt = Some(Seconds::from_nanos(9_000_000));
    transcript.finish = Some(String::from("stop"));
    let [connect, waited] = [70_000, 90_000].map(|nanos| Some(Seconds::from_nanos(nanos)));
    transcript.connection_use = Some(ConnectionUse { protocol: Protocol::Http1, connect, waited });
    transcript.processor_time = Some(Seconds::from_nanos(5_000_000));
    let query =
        Query { index: request, problem: String::from("2+2?"), answer: String::from("4é"), ..Query::default() };
    Exchange {
        request,
        session: 0,
        attempt: 1,
        query,
        scheduled: at(sent_ns - 5),
        sent: at(sent_ns),
        end: at(sent_ns + 30_000_000),
        transcript,
        outcome: Outcome::Completed,
        is_retried: false,
    }
}
