//! `ergo trace functions`: variants of an autotuned function, and which is the fastest.

use std::path::PathBuf;

use serde_json::Value;

use super::{assert_fails, ergo, stderr, stdout};

fn trace(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/xplane").join(name);
    path.to_string_lossy().into_owned()
}

fn gpu() -> String {
    trace("gpu_autotune.xplane.pb")
}

fn rows(arguments: &[&str]) -> Vec<Value> {
    let output = ergo().args(["trace", "functions", "--format", "json"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice::<Vec<Value>>(&output.stdout).unwrap()
}

fn table(arguments: &[&str]) -> String {
    let output = ergo().args(["trace", "functions"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

#[test]
fn json_has_every_time_of_every_variant() {
    let rows = rows(&[&gpu()]);
    assert_eq!(rows.iter().map(|row| row["id"].as_i64().unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let first = &rows[0];
    assert_eq!(first["busy_times_ps"], serde_json::json!([12_991_000, 13_056_000, 13_054_000, 13_248_000, 12_864_000]));
    assert_eq!(
        (&first["n"], &first["modules"][0], &first["program_ids"][0]),
        (&5.into(), &"jit_autotune_fn_0".into(), &3981.into())
    );
    assert_eq!((&first["busy"]["median_ps"], &first["busy"]["mean_ps"]), (&13_054_000.into(), &13_042_600.into()));
    assert_eq!(
        (&first["busy"]["mean_interval_ps"]["level"], &first["busy"]["trimmed"]["n"]),
        (&0.95.into(), &3.into())
    );
    assert!(first.get("comparison").is_none());
}

#[test]
fn executions_on_a_cpu_are_separated_by_their_number() {
    let rows = rows(&[&trace("small_cpu_666.xplane.pb"), "--compare", "--level", "0.9"]);
    assert_eq!(
        rows.iter().map(|row| (&row["id"], row["n"].as_i64().unwrap())).collect::<Vec<_>>(),
        [(&2.into(), 5), (&0.into(), 5), (&1.into(), 5)]
    );
    assert_eq!(rows[0]["busy"]["mean_interval_ps"]["level"], 0.9);
    let verdicts: Vec<&Value> = rows.iter().map(|row| &row["comparison"]["verdict"]).collect();
    assert_eq!(verdicts, ["fastest", "too_close_to_call", "too_close_to_call"]);
}

#[test]
fn the_table_has_times_and_comparisons() {
    insta::assert_snapshot!("trace_functions", table(&[&gpu()]));
    insta::assert_snapshot!("trace_functions_compare", table(&[&gpu(), "--compare"]));
    let once = table(&[&gpu(), "--compare", "--regex", "nvjet|gemm_fusion_dot$", "--pattern", "fn_[03]"]);
    assert!(once.contains("fn_0") && once.contains("fn_3") && once.contains("corrected for 1 comparison"), "{once}");
    let alone = table(&[&gpu(), "--compare", "--pattern", "fn_0"]);
    assert!(alone.contains("nothing to compare") && !alone.contains("corrected"), "{alone}");
}

#[test]
fn csv_has_picoseconds() {
    let csv = table(&[&gpu(), "--compare", "--format", "csv", "--top", "2"]);
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| line.len() == lines[0].len()));
    let column = |key: &str| lines[0].iter().position(|name| *name == key).unwrap();
    assert_eq!((lines[1][column("busy_median_ps")], lines[1][column("rank")]), ("13054000", "1"));
    assert_eq!(lines[1][column("busy_times_ps")], "12991000 13056000 13054000 13248000 12864000");
    assert_eq!((lines[2][column("verdict")], lines[1][column("p")]), ("slower", ""));
}

#[test]
fn order_and_pattern_can_be_chosen() {
    let ids = |arguments: &[&str]| rows(arguments).iter().map(|row| row["id"].to_string()).collect::<Vec<_>>();
    for key in ["busy", "median", "mean", "min", "max"] {
        assert_eq!(ids(&[&gpu(), "--sort", key]), ["0", "1", "2", "3"], "{key}");
    }
    assert_eq!(ids(&[&gpu(), "--sort", "span", "--reverse"]), ["3", "2", "0", "1"]);
    assert_eq!(ids(&[&gpu(), "--sort", "id", "--reverse", "--top", "1"]), ["3"]);
    assert_eq!(ids(&[&trace("gpu_infer_20.xplane.pb"), "--pattern", "^jit_([a-z]+)"]).len(), 1);
}

#[test]
fn missing_variants_are_reported() {
    let output = ergo().args(["trace", "functions", &trace("gpu_infer_20.xplane.pb")]).output().unwrap();
    assert!(output.status.success() && stdout(&output).is_empty());
    assert!(
        stderr(&output).contains("no module matches ^jit_autotune_fn_") && stderr(&output).contains("--pattern"),
        "{}",
        stderr(&output)
    );
    assert_fails(&["trace", "functions", &gpu(), "--level", "95"], 2, &["`95` is not a confidence level", "0.95"]);
    assert_fails(&["trace", "functions", &gpu(), "--pattern", "fn_("], 2, &["unclosed group"]);
    assert_fails(&["trace", "functions", &gpu(), "--device", "tpu"], 2, &["no device", "/device:GPU:0"]);
}
