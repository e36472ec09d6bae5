//! One cost model for all runs of a sweep (`fixtures/serving`), also of one that is not complete.

use std::path::{Path, PathBuf};

use ergometer::close::close;
use ergometer::sweep::{FinishedSweep, attribute, resume};
use ergometer_clients::ModelFacts;
use ergometer_runs::config::{RunConfig, Schedule};
use ergometer_runs::cost_model::CostModels;
use ergometer_runs::sweep::{Identity, RunFigures, Sweep};
use ergometer_runs::{ReadError, Summary};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::attribution::{copy_journal, edit_manifest, fixtures};

/// A sweep of three recorded runs, of which the last lacks a record.
fn sweep() -> (TempDir, PathBuf, [PathBuf; 3]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sweep_x");
    let points = [("one", 1), ("four", 4), ("sixteen", 16)];
    let runs = points.map(|(name, concurrency)| {
        let run = path.join(format!("concurrency_{concurrency}"));
        copy_journal(name, &run);
        run
    });
    let events = runs[2].join("journal/session-0.events.jsonl");
    let text = std::fs::read_to_string(&events).unwrap();
    let ended: Vec<&str> = text.split_inclusive('\n').filter(|line| line.starts_with("{\"ended\"")).collect();
    std::fs::write(&events, text.replace(ended[ended.len() - 1], "")).unwrap();
    let manifest = std::fs::read(fixtures().join("one/journal/run.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let config: RunConfig = serde_json::from_value(manifest["config"].clone()).unwrap();
    let identity = Identity {
        hardware_label: String::from("H200"),
        model: String::from("random-8b"),
        model_facts: ModelFacts::default(),
        dataset: String::from("mix"),
        dataset_fingerprint: String::new(),
    };
    let schedules = points.map(|(_, concurrency)| Schedule::Concurrency { concurrency });
    let mut sweep = Sweep::new(config, &schedules, 1, 0.0, identity).unwrap();
    for (point, run) in runs.iter().enumerate() {
        sweep.take((point, 0), &close(run).unwrap().summary);
    }
    assert!(!sweep.complete && sweep.points[0].runs[0].complete);
    sweep.write(&path).unwrap();
    (folder, path, runs)
}

fn fitted_runs(run: &Path) -> Vec<String> {
    CostModels::read(run).unwrap().unwrap().runs
}

/// `sweep.json` has the figures of the summaries.
fn assert_current(path: &Path) -> Result<(), ReadError> {
    let sweep = Sweep::read(path)?;
    for point in &sweep.points {
        let run = &point.runs[0];
        let summary = Summary::read(&path.join(&run.folder))?;
        assert!(summary.attribution.is_some());
        let figures = RunFigures::from_summary(&summary);
        assert_eq!(run.figures.as_ref(), Some(&figures), "{}", run.folder);
        assert!(figures.values.contains_key("decode_j_per_output_token"));
    }
    Ok(())
}

/// Resumes the sweep, and stops it before it sends anything.
async fn stopped(path: &Path) -> FinishedSweep {
    let (_sender, stop) = watch::channel(true);
    resume(path, &|_| {}, stop, &mut ()).await.unwrap()
}

#[tokio::test]
async fn a_sweep_that_is_not_complete_is_fitted_as_a_whole() {
    let (_folder, path, runs) = sweep();
    assert_eq!(fitted_runs(&runs[0]), [""; 0]);
    let finished = stopped(&path).await;
    assert!(finished.is_interrupted && finished.failure.is_none() && finished.fit_failure.is_none());
    for run in &runs {
        assert_eq!(fitted_runs(run), ["concurrency_1", "concurrency_4", "concurrency_16"]);
    }
    assert_current(&path).unwrap();
    // A run without a record takes no part.
    std::fs::remove_dir_all(&runs[1]).unwrap();
    assert!(stopped(&path).await.fit_failure.is_none());
    assert_eq!(fitted_runs(&runs[0]), ["concurrency_1", "concurrency_16"]);
}

#[tokio::test]
async fn a_fit_that_fails_does_not_hide_how_the_sweep_ended() {
    let (_folder, path, runs) = sweep();
    edit_manifest(&runs[1], "\"hardware_label\": \"H200\"", "\"hardware_label\": \"H100\"");
    let finished = stopped(&path).await;
    assert!(finished.is_interrupted && finished.failure.is_none());
    let error = finished.fit_failure.unwrap().to_string();
    assert!(error.contains("the hardware differs"), "{error}");
    assert_eq!(fitted_runs(&runs[0]), [""; 0]);
}

#[tokio::test]
async fn a_run_whose_journal_cannot_be_read_is_not_left_out() {
    let (_folder, path, runs) = sweep();
    // Killed before it was closed. Reading a folder as a file fails for every user.
    std::fs::remove_file(runs[1].join("summary.json")).unwrap();
    let events = runs[1].join("journal/session-0.events.jsonl");
    std::fs::remove_file(&events).unwrap();
    std::fs::create_dir(&events).unwrap();
    let error = attribute(std::slice::from_ref(&path), None).unwrap_err().to_string();
    assert!(error.contains("concurrency_4") && error.contains("not a regular file"), "{error}");

    let finished = stopped(&path).await;
    assert!(finished.is_interrupted && finished.failure.is_none());
    let error = finished.fit_failure.unwrap().to_string();
    assert!(error.contains("concurrency_4") && error.contains("not a regular file"), "{error}");
    for run in [&runs[0], &runs[2]] {
        assert_eq!(fitted_runs(run), [""; 0]);
    }
}

#[test]
fn attributing_a_sweep_updates_its_figures() {
    let (folder, path, runs) = sweep();
    let further = folder.path().join("further");
    copy_journal("sixteen", &further);
    // Killed before it was closed.
    std::fs::remove_file(runs[1].join("summary.json")).unwrap();
    let found = attribute(&[further.clone(), path.clone()], None).unwrap();
    assert_eq!((found.runs.len(), found.left_out.len()), (4, 0));
    assert_eq!(found.runs[0].folder, further);
    assert_eq!(fitted_runs(&runs[2]), ["further", "concurrency_1", "concurrency_4", "concurrency_16"]);
    assert_current(&path).unwrap();

    let record = |run: &Path| std::fs::read(run.join("sweep.json")).unwrap();
    let before = record(&path);
    for twice in [[path.clone(), path.clone()], [path.clone(), runs[0].clone()]] {
        assert!(attribute(&twice, None).unwrap_err().to_string().contains("given twice"));
    }
    assert_eq!(record(&path), before);
    let _other = ergometer::sweep::SweepFolder::prepare(&ergometer::run::Target::Resume(path.clone())).unwrap();
    assert!(attribute(&[path], None).unwrap_err().to_string().contains("in use by another ergo"));
}
