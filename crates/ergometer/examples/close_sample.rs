//! Makes up the journal of a large run and closes it, to measure how long that takes: `close_sample DIR REQUESTS CHUNKS`.
//! `/usr/bin/time -v` shows the memory. 64 requests are in flight at a time, and each chunk is a token.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::time::Instant;

use ergometer::client::{ChunkKind, Outcome, TokenSource, Transcript, Usage};
use ergometer::close::close;
use ergometer::dataset::Query;
use ergometer::journal::{Closing, Entry, Exchange, JournalFolder, Manifest, SessionStart};
use ergometer_units::{Seconds, Timestamp};
use serde_json::json;

const START_NS: i64 = 1_794_730_772_000_000_001;
const IN_FLIGHT: u64 = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: close_sample DIR REQUESTS CHUNKS";
    let folder = PathBuf::from(arguments.next().ok_or(usage)?);
    let requests: u64 = arguments.next().ok_or(usage)?.parse()?;
    let chunks: u32 = arguments.next().ok_or(usage)?.parse()?;
    let journal = JournalFolder::of_run(&folder);
    journal.create(&manifest(requests)?)?;
    let mut events = BufWriter::new(File::create(journal.events_path(0))?);
    events.write_all(&Entry::Session(SessionStart { session: 0, started_ns: START_NS }).to_line())?;
    for request in 0..requests {
        let exchange = exchange(request, chunks);
        events.write_all(&Entry::Sent { request, index: request, sent: exchange.sent }.to_line())?;
        events.write_all(&Entry::Ended(Box::new(exchange)).to_line())?;
    }
    events.write_all(&Entry::Closed(Closing::Finished).to_line())?;
    events.into_inner()?;
    let begin = Instant::now();
    let closed = close(&folder)?;
    let load = &closed.summary.load;
    let gaps = load.whole.itl_ms.map_or(0, |gaps| gaps.count);
    println!("{} requests and {gaps} gaps closed in {:.2} s", load.whole.completed, begin.elapsed().as_secs_f64());
    Ok(())
}

/// Ten milliseconds or so a chunk, a little different each time.
fn exchange(request: u64, chunks: u32) -> Exchange {
    let length = Seconds::from_millis(10.0 * f64::from(chunks));
    let round = (request / IN_FLIGHT) as f64 + (request % IN_FLIGHT) as f64 / IN_FLIGHT as f64;
    let sent = Timestamp::from_nanos_since_epoch(START_NS) + length * round;
    let mut transcript = Transcript::default();
    for chunk in 0..chunks {
        let jitter = (request.wrapping_mul(0x9e37_79b9) >> (chunk % 32)) % 1000;
        let at =
            sent + Seconds::from_millis(10.0 * f64::from(chunk)) + Seconds::from_nanos(1000 * jitter.cast_signed());
        transcript.push(at, ChunkKind::Content, "word ");
    }
    transcript.usage = Some(Usage { input: 120, output: u64::from(chunks), source: TokenSource::Usage });
    let query = Query { index: request, problem: String::from("What is it?"), ..Query::default() };
    Exchange {
        request,
        session: 0,
        attempt: 1,
        query,
        scheduled: sent,
        sent,
        end: sent + length,
        transcript,
        outcome: Outcome::Completed,
        is_retried: false,
    }
}

fn manifest(requests: u64) -> Result<Manifest, serde_json::Error> {
    let config = json!({
        "dataset": {"id": "builtin"}, "client": {"id": "openai", "model": "m"}, "request": {"seed": 0},
        "schedule": {"mode": "concurrency", "concurrency": IN_FLIGHT}, "max_queries": requests, "warmup": 0,
        "idle_s": 0.0, "devices": [], "server_is_local": false, "model_cpu": true, "prices": {},
    });
    serde_json::from_value(json!({
        "format_version": 1, "ergometer": "0", "created_ns": START_NS, "config": config, "config_hash": "",
        "dataset": {"id": "builtin", "name": "builtin", "fingerprint": ""}, "grader": "none", "model": {},
        "place": {"is": "this_machine"}, "hardware_label": "X", "system_info": {}, "gpus": [],
    }))
}
