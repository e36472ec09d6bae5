//! Finalizes journals that Ergometer 0.1.0 wrote.

use std::fs;
use std::path::Path;

use ergometer::close::close;
use ergometer_runs::Summary;
use ergometer_runs::saved::{Phases, Query, Run};
use serde_json::{Value, json};

/// Compares every field; numbers may differ by rounding.
fn assert_close(now: &Value, then: &Value, path: &str) {
    match (now, then) {
        (Value::Object(now), Value::Object(then)) => {
            // 0.1.0 does not have these.
            let is_new = |name: &str| name.starts_with("prefill_j_per") || name.starts_with("decode_j_per");
            for (name, then) in then.iter().filter(|(name, _)| !is_new(name)) {
                assert_close(&now[name], then, &format!("{path}/{name}"));
            }
        }
        (Value::Array(now), Value::Array(then)) => {
            assert_eq!(now.len(), then.len(), "{path}");
            now.iter().zip(then).for_each(|(now, then)| assert_close(now, then, path));
        }
        (now, then) => match now.as_f64().zip(then.as_f64()) {
            Some((now, then)) => assert!((now - then).abs() <= 1e-9 * then.abs(), "{path}: {now} was {then}"),
            None => assert_eq!(now, then, "{path}"),
        },
    }
}

#[test]
fn a_journal_of_0_1_0_is_finalized_to_the_same_results() {
    for name in ["v0_1_0_one", "v0_1_0_four"] {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs").join(name);
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("journal");
        fs::create_dir(&journal).unwrap();
        for entry in fs::read_dir(fixture.join("journal")).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, journal.join(path.file_name().unwrap())).unwrap();
        }
        let closed = close(folder.path()).unwrap();
        let written = Summary::read(&fixture).unwrap();
        assert_eq!(closed.summary.outcomes, written.outcomes, "{name}");
        assert_close(&json!(closed.summary.latency), &json!(written.latency), name);
        assert_close(&json!(closed.summary.tokens), &json!(written.tokens), name);
        assert_close(&json!(closed.summary.energy), &json!(written.energy), name);
        assert_eq!(closed.summary.profiler_config, written.profiler_config, "{name}");
        let (now, then) = (Run::open(folder.path()).unwrap(), Run::open(&fixture).unwrap());
        // Later versions divide the energy among the queries in another way, but the sum is the same.
        let gross =
            |run: &Run| run.queries.iter().filter_map(|query| query.energy).map(|energy| energy.gross).sum::<f64>();
        assert!((gross(&now) - gross(&then)).abs() < 1e-6 * gross(&then), "{name}");
        let without_energy = |run: &Run| -> Vec<Query> {
            let cleared = |query: &Query| Query {
                gpu_joules: None,
                energy: None,
                attribution: None,
                phases: Phases::default(),
                ..query.clone()
            };
            run.queries.iter().map(cleared).collect()
        };
        assert_eq!(without_energy(&now), without_energy(&then), "{name}");
    }
}
