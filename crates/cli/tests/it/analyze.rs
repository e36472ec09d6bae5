//! `ergo analyze` on saved runs, and on folders that are not runs.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::profile::{json, run_in};
use super::{assert_fails, ergo, stderr, stdout};

/// The analyses in the snapshot.
const ANALYSES: [&str; 2] = ["--analysis", "regression,percentiles,energy_per_token,phases"];

fn saved(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs").join(name)
}

/// A copy of the files of a run.
fn copied(name: &str, to: &Path) -> PathBuf {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(saved(name)).unwrap().map(Result::unwrap) {
        if entry.path().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
    to.to_path_buf()
}

/// Makes a run of the embedded model with this many queries.
fn embedded(folder: &Path, queries: &str) -> PathBuf {
    let output = ergo()
        .args(["profile", "--no-model", "--idle", "0s", "-n", queries, "--output-dir"])
        .arg(folder)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    run_in(folder)
}

#[test]
fn tables_match_the_snapshot() {
    let output = ergo().args(["analyze", "--no-save"]).args(ANALYSES).arg(saved("h200_one")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    insta::assert_snapshot!(format!("{}\n---\n{}", stdout(&output), stderr(&output)));
}

#[test]
fn failed_queries_are_a_warning() {
    let output = ergo().args(["analyze", "--no-save"]).args(ANALYSES).arg(saved("mock_limits")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let warnings = [
        "percentiles, energy_per_token, phases: 3 failed queries are left out",
        "regression: 3 of 120 queries failed; a failed query is included in a fit if both of its values are known",
    ];
    assert!(warnings.iter().all(|warning| stderr(&output).contains(warning)), "{}", stderr(&output));
}

#[test]
fn analyses_are_printed_and_written_to_the_run_folder() {
    let folder = tempfile::tempdir().unwrap();
    let run = embedded(folder.path(), "3");
    let output = ergo().arg("analyze").arg(&run).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("TTFT by input tokens"), "{}", stdout(&output));
    assert!(stderr(&output).contains("saved ") && stderr(&output).contains("*.json"), "{}", stderr(&output));
    let written = json(&run.join("analysis/regression.json"));
    assert_eq!(written["summary"]["total_samples"], 3);
    assert_eq!(written["data"]["regressions"].as_object().unwrap().len(), 5);
    assert_eq!(written["data"]["regressions"]["total_tokens_vs_energy"]["slope"], Value::Null);
    // With `--analysis`, only that analysis is printed; the other files are unchanged.
    let output = ergo().args(["analyze", "--analysis", "percentiles", "--format", "json"]).arg(&run).output().unwrap();
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed.as_array().unwrap().len(), 1);
    assert_eq!(printed[0]["findings"].as_array().unwrap().len(), 1);
    assert_eq!(printed[0]["findings"][0], json(&run.join("analysis/percentiles.json")));
    let skipped = ergo().args(["analyze", "--skip-zeroes", "--analysis", "regression"]).arg(&run).output().unwrap();
    assert!(skipped.status.success() && !stdout(&skipped).contains("GPU"), "{}", stdout(&skipped));
    let kept = json(&run.join("analysis/regression.json"));
    assert!(kept["data"]["regressions"].get("total_tokens_vs_energy").is_none(), "{kept}");
}

#[test]
fn one_query_has_no_regression() {
    let folder = tempfile::tempdir().unwrap();
    let run = embedded(folder.path(), "1");
    let output = ergo().args(["analyze", "--no-save"]).arg(&run).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("no fit: only one query has both values"), "{}", stdout(&output));
    assert!(!run.join("analysis/regression.json").exists(), "--no-save");
}

#[test]
fn all_runs_of_a_sweep_are_analyzed() {
    let output = ergo()
        .args(["analyze", "--no-save", "--analysis", "phases", "--format", "csv"])
        .arg(saved("h200_sweep"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert_eq!(text.lines().next(), Some("run,analysis,table,row,column,value,low,high"));
    let constant = "phase_regression,time,verdict,";
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(constant)).collect();
    assert_eq!(lines.len(), 7, "{text}");
    assert!(
        lines.iter().all(|line| line.contains("the same number of output tokens")),
        "answers have 64 tokens each: {lines:?}"
    );
}

#[test]
fn an_unwritable_folder_still_prints_the_analysis() {
    let folder = tempfile::tempdir().unwrap();
    let run = copied("h200_one", &folder.path().join("run"));
    // A file in place of the folder fails even for root.
    std::fs::write(run.join("analysis"), "").unwrap();
    let output = ergo().arg("analyze").arg(&run).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("Linear fits against token counts"));
    assert!(stderr(&output).contains("warning: the analysis was not saved: cannot create"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("saved /"), "{}", stderr(&output));
}

#[test]
fn values_that_are_not_numbers_are_reported_and_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let run = copied("h200_graded", &folder.path().join("run"));
    let before = ergo()
        .args(["analyze", "--no-save", "--format", "json", "--analysis", "percentiles"])
        .arg(&run)
        .output()
        .unwrap();
    let before: Value = serde_json::from_slice(&before.stdout).unwrap();
    let longest = before[0]["findings"][0]["data"]["gpu_watts"]["max"].as_f64().unwrap();
    let path = run.join("data-00000-of-00001.arrow");
    let mut bytes = std::fs::read(&path).unwrap();
    let places: Vec<usize> = bytes
        .windows(8)
        .enumerate()
        .filter(|(_, window)| *window == longest.to_le_bytes())
        .map(|(place, _)| place)
        .collect();
    assert!(!places.is_empty(), "the records are not packed");
    for place in places {
        bytes[place..place + 8].copy_from_slice(&f64::NAN.to_le_bytes());
    }
    std::fs::write(&path, bytes).unwrap();
    let output = ergo().args(["analyze", "--no-save", "--format", "json"]).arg(&run).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("NaN or infinite"), "{}", stderr(&output));
    let after: Value = serde_json::from_slice(&output.stdout).unwrap();
    let percentiles =
        after[0]["findings"].as_array().unwrap().iter().find(|found| found["analysis"] == "percentiles").unwrap();
    assert!(percentiles["data"]["gpu_watts"]["max"].as_f64().unwrap() < longest);
}

#[test]
fn control_characters_are_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let run = copied("h200_one", &folder.path().join("run\u{1b}[2Jname"));
    let output = ergo().arg("analyze").arg(&run).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!stdout(&output).contains('\u{1b}') && !stderr(&output).contains('\u{1b}'));
    assert!(stdout(&output).contains("run\\u{1b}[2Jname"), "{}", stdout(&output));
}

#[test]
fn a_folder_that_is_not_a_run_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert_fails(
        &["analyze", path],
        1,
        &["is not a run: summary.json is missing", "hint: pass a folder that `ergo profile` wrote"],
    );
    assert_fails(&["analyze", "/nowhere"], 1, &["no such file or folder"]);
    std::fs::create_dir(folder.path().join("journal")).unwrap();
    assert_fails(&["analyze", path], 1, &["the run was not finalized", "hint: run `ergo finalize"]);
    std::fs::write(folder.path().join("summary.json"), "{}").unwrap();
    std::fs::write(folder.path().join("state.json"), r#"{"_data_files": []}"#).unwrap();
    assert_fails(&["analyze", path], 1, &["is damaged: it lists no file of records"]);
    assert_fails(&["analyze"], 2, &["RUN"]);
    assert_fails(&["analyze", path, "--analysis", "nonsense"], 2, &["nonsense"]);
    assert_fails(&["analyze", path, "--slo", "speed=5s"], 2, &["unknown metric `speed`"]);
}

/// A copy of a run with a cost model.
fn with_cost_model(to: &Path) -> PathBuf {
    let run = copied("h200_sixteen", to);
    ergometer_runs::testing::cost_models().write(&run).unwrap();
    run
}

#[test]
fn the_cost_model_and_predictions_match_the_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let run = with_cost_model(&folder.path().join("run"));
    let shapes = ["--predict", "in=1000,out=200,concurrency=16", "--predict", "in=64,out=32,concurrency=64"];
    let output =
        ergo().args(["analyze", "--no-save", "--analysis", "cost-model"]).args(shapes).arg(&run).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    insta::assert_snapshot!(format!("{}\n---\n{}", stdout(&output), stderr(&output)));
}

#[test]
fn predictions_are_in_json_and_csv() {
    let folder = tempfile::tempdir().unwrap();
    let run = with_cost_model(&folder.path().join("run"));
    let print = |format: &str| {
        let output = ergo()
            .args(["analyze", "--analysis", "cost_model", "--predict", "in=1000,out=200,concurrency=16", "--format"])
            .arg(format)
            .arg(&run)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let printed: Value = serde_json::from_str(&print("json")).unwrap();
    let found = &printed[0]["findings"][0];
    assert_eq!(*found, json(&run.join("analysis/cost_model.json")));
    let prediction = &found["data"]["predictions"][0];
    assert_eq!(prediction["concurrency"], 16.0);
    let price = prediction["net_j_per_request"]["value"].as_f64().unwrap();
    assert!(price > prediction["prefill_j"]["value"].as_f64().unwrap(), "{prediction}");
    let text = print("csv");
    let place = "cost_model_predictions,\"in=1000,out=200,concurrency=16\",net_j_per_request,";
    assert!(text.lines().any(|line| line.contains(place)), "{text}");
}

#[test]
fn a_damaged_cost_model_is_a_warning_except_for_predictions() {
    let folder = tempfile::tempdir().unwrap();
    let run = with_cost_model(&folder.path().join("run"));
    std::fs::write(run.join("cost_model.json"), "{").unwrap();
    for command in ["analyze", "plot", "report"] {
        let output = ergo().arg(command).arg(&run).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{command}: {}", stderr(&output));
        if command == "analyze" {
            assert!(stderr(&output).contains("warning: cost_model: no cost model: "), "{}", stderr(&output));
        }
    }
    let path = run.to_str().unwrap();
    let shape = "in=1000,out=200,concurrency=16";
    assert_fails(&["analyze", "--predict", shape, path], 1, &["cost_model.json is damaged", "hint: "]);
}

#[test]
fn a_prediction_needs_the_analysis_and_the_model() {
    let run = saved("h200_graded");
    let run = run.to_str().unwrap();
    let shape = "in=1000,out=200,concurrency=16";
    assert_fails(
        &["analyze", run, "--analysis", "goodput", "--predict", shape],
        2,
        &["--predict needs the analysis cost_model", "hint: add --analysis cost_model"],
    );
    assert_fails(
        &["analyze", run, "--predict", "in=1000,out=200"],
        2,
        &["concurrency is missing: write in=1000,out=200,concurrency=32"],
    );
    assert_fails(
        &["analyze", run, "--no-save", "--analysis", "cost-model", "--predict", shape],
        1,
        &["no cost model: the run was finalized by a version of Ergometer without cost models", "ergo finalize"],
    );
}

#[test]
fn analyses_are_listed() {
    let output = ergo().args(["list", "analyses", "--format", "csv"]).output().unwrap();
    let listed = stdout(&output);
    for id in ["regression", "percentiles", "energy_per_token", "phases"] {
        assert!(listed.lines().any(|line| line.starts_with(&format!("analysis,{id},"))), "{listed}");
    }
}
