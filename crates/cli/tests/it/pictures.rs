//! `ergo plot`, `ergo report` and `ergo trace report`: their files and errors.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use super::{assert_fails, ergo, stderr, stdout};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

fn run(arguments: &[&str], paths: &[&Path]) -> Output {
    ergo().args(arguments).args(paths).output().unwrap()
}

#[test]
fn pictures_are_written_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("deep/plots");
    let output = run(&["plot", "--plot", "latency_cdf,output_kde", "-o"], &[&out, &fixture("runs/h200_graded")]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let printed = stdout(&output);
    assert!(printed.lines().all(|line| Path::new(line).is_file()), "{printed}");
    let png = fs::read(out.join("ttft_cdf.png")).unwrap();
    assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n");
    let picture = fs::read_to_string(out.join("ttft_cdf.svg")).unwrap();
    assert!(picture.contains("time to first token") && picture.trim_end().ends_with("</svg>"));
}

#[test]
fn a_report_is_one_file_beside_the_run_or_on_stdout() {
    let output = run(&["report", "-o", "-"], &[&fixture("runs/h200_graded")]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let html = stdout(&output);
    assert!(html.starts_with("<!DOCTYPE html>") || html.starts_with("<!doctype html>"));
    assert!(html.contains("Content-Security-Policy") && html.trim_end().ends_with("</html>"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new/both.html");
    let output = run(&["report", "-o"], &[&file, &fixture("runs/h200_one"), &fixture("runs/h200_sixteen")]);
    assert_eq!((output.status.code(), stdout(&output).trim()), (Some(0), file.to_str().unwrap()));
    assert!(fs::read_to_string(&file).unwrap().contains("2 runs compared"));
}

#[test]
fn a_trace_has_a_report() {
    let output = run(&["trace", "report", "-o", "-"], &[&fixture("xplane/gpu_infer_20.xplane.pb")]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let html = stdout(&output);
    assert!(html.contains("was busy 29.79 ms of 42.32 ms") && html.contains("jit_fwd"));
}

#[test]
fn hostile_text_is_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = folder.path().join("hostile.jsonl");
    let subject = "</script><script>alert(1)</script>\u{1b}[31m";
    let line = serde_json::json!({"problem": "<img src=x onerror=alert(2)>", "answer": "1", "subject": subject});
    fs::write(&dataset, format!("{line}\n").repeat(4)).unwrap();
    let made = ergo()
        .args(["profile", "--idle", "0s", "--quiet", "--dataset"])
        .arg(&dataset)
        .arg("--output-dir")
        .arg(folder.path().join("runs"))
        .output()
        .unwrap();
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let made = super::profile::run_in(&folder.path().join("runs"));
    let html = stdout(&run(&["report", "-o", "-"], &[&made]));
    assert!(!html.contains("<script>alert") && !html.contains("<img src=x") && !html.contains('\u{1b}'));
    assert!(html.contains("&lt;img src=x"), "the prompt is in the page, escaped");
    let output = run(&["analyze"], &[&made]);
    assert!(!stdout(&output).contains('\u{1b}') && !stderr(&output).contains('\u{1b}'));
}

#[test]
fn plots_without_data_are_reported() {
    let empty = tempfile::tempdir().unwrap();
    let nothing = empty.path().to_str().unwrap();
    for command in ["plot", "report", "analyze"] {
        assert_fails(&[command, nothing], 1, &["is not a run", "hint: pass a folder that `ergo profile` wrote"]);
    }
    let sixteen = fixture("runs/h200_sixteen");
    let sixteen = sixteen.to_str().unwrap();
    assert_fails(&["plot", sixteen, "--plot", "nonsense"], 2, &["unknown plot `nonsense`", "power_timeline"]);
    assert_fails(&["plot", sixteen, "--plot", "pareto"], 1, &["two or more runs"]);
    assert_fails(&["plot", sixteen, "--scale", "0"], 2, &["is not a scale"]);
}
