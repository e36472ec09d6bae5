//! `ergo compare`: tables, JSON, CSV and exit codes.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use super::profile::run_in;
use super::{assert_fails, ergo, stderr, stdout};

fn saved(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs").join(name);
    path.to_str().unwrap().to_owned()
}

fn compare(arguments: &[&str]) -> Output {
    ergo().arg("compare").args(arguments).output().unwrap()
}

/// The stdout, the stderr and the exit code of `ergo compare`.
fn transcript(arguments: &[&str]) -> String {
    let output = compare(arguments);
    format!("{}{}exit code {:?}\n", stdout(&output), stderr(&output), output.status.code())
}

/// Makes a run of the embedded model on the built-in dataset.
fn made(folder: &Path, more: &[&str]) -> String {
    let output =
        ergo().args(["profile", "--idle", "0s", "--quiet", "--output-dir"]).arg(folder).args(more).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    run_in(folder).to_str().unwrap().to_owned()
}

#[test]
fn tables_match_the_snapshots() {
    let (one, four, sixteen) = (saved("h200_one"), saved("h200_four"), saved("h200_sixteen"));
    let limits = ["--fail-if", "joules_per_token > +5%, tpot_p50 > +5%", "--fail-if", "goodput < +1"];
    insta::assert_snapshot!("compare_two", transcript(&[&[one.as_str(), four.as_str()][..], &limits].concat()));
    let short = transcript(&[&four, &sixteen, "--fail-if", "tpot_p50 > +5%"]);
    assert!(short.contains("an interval needs at least 310 (10 blocks of 31 consecutive queries)"), "{short}");
    assert!(short.contains("--strict makes this a failure\nexit code Some(0)"), "{short}");
    insta::assert_snapshot!("compare_sweep", transcript(&[&saved("h200_sweep")]));
}

#[test]
fn two_models_are_compared_by_the_same_queries() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let tiny = made(folders[0].path(), &["-n", "300"]);
    let small = made(folders[1].path(), &["-n", "300", "--model", "small"]);
    let output = compare(&[&tiny, &small, "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let candidate = &found["candidates"][0];
    assert_eq!(candidate["paired_queries"], 300);
    let row = |name: &str| {
        let rows = candidate["rows"].as_array().unwrap();
        rows.iter().find(|row| row["metric"] == name).unwrap_or_else(|| panic!("{name}")).clone()
    };
    let accuracy = row("accuracy");
    assert_eq!((&accuracy["verdict"], &accuracy["change"]["method"]), (&"better".into(), &"paired".into()));
    let change = &accuracy["change"];
    let difference = accuracy["candidate"].as_f64().unwrap() - accuracy["baseline"].as_f64().unwrap();
    assert!((change["value"].as_f64().unwrap() - difference).abs() < 1e-12);
    assert!(change["interval"]["low"].as_f64().unwrap() > 0.0);
    assert_eq!(row("ttft_p50")["verdict"], "worse");
    assert_eq!(candidate["comparability"]["differences"][0]["what"], "model");
    assert_eq!(stdout(&compare(&[&tiny, &small, "--format", "json"])), stdout(&output), "the output is deterministic");
    let text = stdout(&compare(&[&tiny, &small, "--format", "csv"]));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + candidate["rows"].as_array().unwrap().len());
    assert!(lines[0].starts_with("baseline,candidate,metric,unit,") && lines[1].starts_with("tiny,small,accuracy,"));

    for (limit, code, says) in [
        ("accuracy < -2", 0, ""),
        ("accuracy < 99.9%", 1, "error: run `small`: accuracy is"),
        ("ttft_p50 > +10%", 1, "ttft_p50 changed by"),
        ("accuracy < +50", 1, "the condition `accuracy < +50` is true"),
        ("output_tokens_per_query > +0.001%,accuracy<-1", 0, ""),
        ("goodput < 3", 1, "neither run has a value"),
    ] {
        let output = compare(&[&tiny, &small, "--fail-if", limit]);
        assert_eq!(output.status.code(), Some(code), "{limit}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{limit}: {}", stderr(&output));
        assert!(stdout(&output).contains("accuracy"), "the table is printed even if a limit fails");
    }
}

#[test]
fn repeats_are_joined_and_the_pareto_front_is_printed() {
    let folders: Vec<_> = (0..4).map(|_| tempfile::tempdir().unwrap()).collect();
    let runs: Vec<String> = folders.iter().map(|folder| made(folder.path(), &["-n", "40"])).collect();
    let (first, second) = (format!("{}+{}", runs[0], runs[1]), format!("{}+{}", runs[2], runs[3]));
    let output = compare(&[&first, &second]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("means over 2 and 2 runs"), "{}", stdout(&output));
    let output = compare(&[&runs[0], &runs[1], &runs[2], "--format", "json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["front"]["points"].as_array().unwrap().len(), 3);
    assert!(stdout(&compare(&[&runs[0], &runs[1], "--pareto"])).contains("Pareto-optimal by accuracy"));
}

#[test]
fn a_run_compared_with_itself_has_no_change() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [first, second] = folders.each_ref().map(|folder| made(folder.path(), &["-n", "100"]));
    let verdicts = |other: &str| -> Vec<(String, String)> {
        let output = compare(&[&first, other, "--format", "csv"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let text = stdout(&output);
        let heads: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        let column = |name: &str| heads.iter().position(|head| *head == name).unwrap();
        let fields = text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        fields.map(|fields| (fields[column("metric")].clone(), fields[column("verdict")].clone())).collect()
    };
    let itself = verdicts(&first);
    assert!(itself.len() > 10, "{itself:?}");
    for (metric, verdict) in itself {
        assert!(["same", "cannot_tell", "none"].contains(&verdict.as_str()), "{metric}: {verdict}");
    }
    // Other work on the machine may change the times of two runs, but not their answers.
    let again = verdicts(&second);
    for name in ["accuracy", "failed_share", "output_tokens_per_query"] {
        let (_, verdict) = again.iter().find(|(metric, _)| metric == name).unwrap();
        assert!(["same", "cannot_tell"].contains(&verdict.as_str()), "{name}: {verdict}");
    }
    let shown = stdout(&compare(&[&first, &second]));
    assert!(
        shown.contains("not from run to run (temperature, other load); to include that, repeat the runs"),
        "{shown}"
    );
    let is_changed =
        again.iter().any(|(_, verdict)| ["better", "worse", "higher", "lower"].contains(&verdict.as_str()));
    assert_eq!(shown.contains("no setting differs"), is_changed, "{shown}");
}

#[test]
fn incomparable_runs_are_reported() {
    let one = saved("h200_one");
    assert_fails(&["compare", &one], 2, &["nothing to compare it with", "hint:"]);
    assert_fails(&["compare", &one, "/nowhere"], 1, &["/nowhere is not a run", "hint:"]);
    assert_fails(&["compare", &one, &one, "--fail-if", "acuracy < 3%"], 2, &["did you mean accuracy?", "ttft_p99"]);
    assert_fails(&["compare", &one, &one, "--fail-if", "ttft_p99 > 200"], 2, &["200ms"]);
    assert_fails(&["compare", &one, &one, "--min-effect", "1"], 2, &["1%"]);
}
