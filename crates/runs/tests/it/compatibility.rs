//! Run folders that earlier versions wrote.

use std::path::{Path, PathBuf};

use ergometer_runs::saved::{Attempt, Run, SavedSweep, Telemetry};
use ergometer_runs::{Summary, Sweep};
use serde_json::Value;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs")
}

/// Every folder of `fixtures/runs` with this file.
fn folders_with(file: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![fixtures()];
    while let Some(folder) = left.pop() {
        left.extend(
            std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()),
        );
        if folder.join(file).is_file() {
            found.push(folder);
        }
    }
    found.sort();
    found
}

/// Lists the fields of `before` that `after` lacks or has with another value.
fn lost(before: &Value, after: &Value, path: &str, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, value) in before {
                lost(value, after.get(name).unwrap_or(&Value::Null), &format!("{path}/{name}"), found);
            }
        }
        (before, after) if before != after => found.push(format!("{path}: {before} became {after}")),
        _ => {}
    }
}

#[test]
fn every_summary_is_read_and_written_without_loss() {
    let folders = folders_with("summary.json");
    assert!(folders.len() >= 8, "{folders:?}");
    for folder in folders {
        let file = Summary::read_json(&folder).unwrap();
        let summary = Summary::read(&folder).unwrap();
        let mut found = Vec::new();
        lost(&file, &serde_json::to_value(&summary).unwrap(), "", &mut found);
        assert!(found.is_empty(), "{}: {found:#?}", folder.display());
        assert!(summary.profiler_config.known().is_some(), "{}", folder.display());
        assert!(summary.other.is_empty(), "{}: {:?}", folder.display(), summary.other);
    }
}

#[test]
fn every_sweep_is_read_and_written_without_loss() {
    let folders = folders_with("sweep.json");
    assert!(!folders.is_empty());
    for folder in folders {
        let file: Value = serde_json::from_slice(&std::fs::read(folder.join("sweep.json")).unwrap()).unwrap();
        let mut found = Vec::new();
        lost(&file, &serde_json::to_value(Sweep::read(&folder).unwrap()).unwrap(), "", &mut found);
        assert!(found.is_empty(), "{}: {found:#?}", folder.display());
        assert!(!SavedSweep::open(&folder).unwrap().runs().unwrap().is_empty());
    }
}

#[test]
fn every_table_is_read() {
    for folder in folders_with("summary.json") {
        let run = Run::open(&folder).unwrap();
        assert_eq!(run.queries.len() as u64, run.summary.total_queries, "{}", folder.display());
        let mut attempts = 0;
        Attempt::each(&folder, |attempt, _| {
            attempts += 1;
            assert_eq!(
                (attempt.request_id, attempt.cached_tokens),
                (None, None),
                "columns that these runs do not have"
            );
        })
        .unwrap();
        assert!(attempts >= run.queries.len(), "{}", folder.display());
        let powers = Telemetry::read(&folder, &["energy", "power_ring", "power_modelled"]).unwrap();
        assert_eq!(powers.channels.is_empty(), run.energy.is_none(), "{}", folder.display());
    }
}
