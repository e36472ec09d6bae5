//! Synthetic runs for tests of analyses, and access to `fixtures/runs`.

use std::path::{Path, PathBuf};

use ergometer_units::{Seconds, Timestamp};
use serde_json::{Value, json};

use ergometer_runs::saved::{Query, Run};
use ergometer_runs::testing;

/// The start of synthetic runs.
pub(super) const START: Timestamp = Timestamp::from_nanos_since_epoch(1_790_000_000_000_000_000);

/// A time, in seconds after the start.
pub(super) fn at(seconds: f64) -> Timestamp {
    START + Seconds::new(seconds)
}

/// Queries are sent every 0.1 s and take 0.1 s: 20 ms to the first token, then 8 ms for each of ten more.
pub(super) fn query(number: u64) -> Query {
    let sent = number as f64 / 10.0;
    Query {
        request: number,
        index: number,
        attempts: 1,
        scheduled: Some(at(sent)),
        sent: Some(at(sent)),
        first_token: Some(at(sent + 0.02)),
        last_token: Some(at(sent + 0.1)),
        end: Some(at(sent + 0.1)),
        input_tokens: Some(30),
        output_tokens: Some(11),
        ttft_s: Some(0.02),
        total_s: Some(0.1),
        ..Query::default()
    }
}

/// A run with these queries that has no folder on disk.
pub(super) fn run(queries: Vec<Query>, subjects: &[&str]) -> Run {
    with_summary(queries, subjects, json!({}))
}

/// A run with these queries and this summary.
pub(super) fn with_summary(queries: Vec<Query>, subjects: &[&str], summary: Value) -> Run {
    Run {
        folder: PathBuf::from("/nowhere/made_up"),
        summary: testing::summary(summary),
        queries,
        subjects: subjects.iter().map(|&subject| subject.to_owned()).collect(),
        energy: None,
        not_finite: 0,
    }
}

/// Opens a run of `fixtures/runs`.
pub(super) fn saved(name: &str) -> Run {
    Run::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs").join(name)).unwrap()
}
