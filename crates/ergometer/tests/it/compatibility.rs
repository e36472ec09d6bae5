//! Finalizes journals that Ergometer 0.1.0 wrote.

use std::fs;
use std::path::Path;

use ergometer::close::close;
use ergometer_runs::Summary;
use ergometer_runs::saved::Run;
use serde_json::{Value, json};

/// Compares every field; numbers may differ by rounding.
fn assert_close(now: &Value, then: &Value, path: &str) {
    match (now, then) {
        (Value::Object(now), Value::Object(then)) => {
            for (name, then) in then {
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
        assert_eq!(now.queries, then.queries, "{name}");
    }
}
