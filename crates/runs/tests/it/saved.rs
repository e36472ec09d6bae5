//! Reads saved runs.

use std::path::{Path, PathBuf};

use ergometer_runs::saved::{Attempt, AttemptOutcome, Run, Saved, Telemetry};
use ergometer_runs::{EnergySource, ReadError};

/// A run of 300 queries on an H200, 16 at a time.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/h200_sixteen")
}

#[test]
fn a_run_is_read_with_all_its_parts() {
    let run = Run::open(&folder()).unwrap();
    assert_eq!((run.queries.len(), run.energy, run.not_finite), (300, Some(EnergySource::Measured), 0));
    let tokens: u64 = run.queries.iter().filter_map(|query| query.output_tokens).sum();
    assert_eq!(Some(tokens), run.summary.tokens.output);
    let mut attempts = 0;
    Attempt::each(&run.folder, |attempt, gaps| {
        attempts += 1;
        assert!(gaps.iter().all(|&gap| gap >= 0));
        assert_eq!(attempt.outcome == AttemptOutcome::Completed, attempt.last_token.is_some());
    })
    .unwrap();
    assert!(attempts >= 300);
    let telemetry = Telemetry::read(&run.folder, &["power_ring", "temperature"]).unwrap();
    assert!(telemetry.channels_with("power_ring").all(|channel| channel.unit == "W" && channel.at_ns.is_sorted()));
    assert!(
        telemetry.channels_with("temperature").next().is_some() && telemetry.channels_with("energy").next().is_none()
    );
}

#[test]
fn the_error_explains_why_a_folder_is_not_a_run() {
    let empty = tempfile::tempdir().unwrap();
    let missing = empty.path().join("nothing");
    assert!(matches!(Saved::open(&missing), Err(ReadError::NotARun { .. })));
    assert!(matches!(Saved::open(empty.path()), Err(ReadError::NotARun { .. })));
    std::fs::create_dir(empty.path().join("journal")).unwrap();
    assert!(matches!(Saved::open(empty.path()), Err(ReadError::NotClosed { .. })));
    std::fs::write(empty.path().join("summary.json"), "{").unwrap();
    assert!(matches!(Saved::open(empty.path()), Err(ReadError::Damaged { .. })));
    std::fs::write(empty.path().join("summary.json"), r#"{"format_version": 99}"#).unwrap();
    assert!(matches!(Saved::open(empty.path()), Err(ReadError::Version { .. })));
    std::fs::write(empty.path().join("summary.json"), "{}").unwrap();
    assert!(matches!(Saved::open(empty.path()), Err(ReadError::Io { .. })));
}
