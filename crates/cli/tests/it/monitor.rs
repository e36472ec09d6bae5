//! `ergo monitor` with live sensors and with recordings: its ticks and totals.

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use super::{assert_fails, ergo, fixture, stderr, stdout};

fn lines(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_replayed_recording_has_ticks_and_its_counters_total() {
    let recording = fixture("h200_kernels_a.json.gz");
    let arguments = ["monitor", "--format", "jsonl", "--interval", "100ms", "--speed", "200", "--replay"];
    let output = ergo().args(arguments).arg(&recording).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let rows = lines(&stdout(&output));
    let (totals, ticks) = rows.split_last().unwrap();
    assert!(ticks.iter().all(|tick| tick["devices"][0]["device"] == "gpu:0"));
    let last = ticks.last().unwrap();
    assert!(last["devices"][0]["power_w"].as_f64().unwrap() > 50.0, "{last}");
    // The difference of the counter is 12,744 J from its first reading to its last, 32 ms after the last power sample.
    let joules = totals["totals"]["joules"].as_f64().unwrap();
    assert!((12_680.0..12_800.0).contains(&joules), "{totals}");
    assert_eq!(totals["totals"]["method"], "activity_aware");
}

#[test]
fn a_recording_made_here_can_be_read_again() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["run.jsonl", "run.jsonl.gz"] {
        let path = folder.path().join(name);
        let arguments = ["monitor", "--duration", "700ms", "--interval", "200ms", "--format", "jsonl", "--record"];
        let output = ergo().args(arguments).arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let rows = lines(&stdout(&output));
        let totals = &rows.last().unwrap()["totals"];
        let window = format!("{}..{}", totals["start_us"], totals["end_us"]);
        let energy = ergo().arg("energy").arg(&path).args(["--window", &window]).output().unwrap();
        assert!(energy.status.success(), "{}", stderr(&energy));
        // A killed recorder leaves a truncated file: an error, unless read with --lenient.
        let whole = fs::read(&path).unwrap();
        let cut = folder.path().join(format!("cut-{name}"));
        fs::write(&cut, &whole[..whole.len() - 10]).unwrap();
        let cut = cut.to_string_lossy().into_owned();
        assert_fails(&["energy", &cut, "--window", &window], 1, &["hint: pass --lenient"]);
        let lenient = ergo().args(["energy", &cut, "--lenient", "--window", &window]).output().unwrap();
        assert!(lenient.status.success() && stderr(&lenient).contains("warning:"), "{}", stderr(&lenient));
        let rows: serde_json::Value = serde_json::from_slice(&lenient.stdout).unwrap();
        assert!(rows[0]["joules"].as_f64().unwrap() > 0.0, "{rows}");
    }
}

#[test]
fn an_interrupt_prints_the_totals() {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_ergo"))
        .args(["monitor", "--interval", "100ms", "--format", "jsonl"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(900));
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0), "Ctrl-C is the normal end of an endless monitor");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut text).unwrap();
    assert!(lines(&text).last().unwrap()["totals"]["joules"].is_number(), "{text}");
}

/// Regression test: `ergo monitor | head -1` did not end.
#[test]
fn a_closed_pipe_ends_the_monitor() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_ergo"))
        .args(["monitor", "--interval", "50ms", "--format", "jsonl", "--record"])
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    assert!(line.starts_with('{'), "{line}");
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(fs::read_to_string(&path).unwrap().ends_with("}}\n"), "the recording is complete");
}

#[test]
fn a_recording_that_cannot_be_written_is_an_error() {
    assert_fails(&["monitor", "--duration", "1s", "--record", "/nowhere/run.jsonl"], 1, &["/nowhere/run.jsonl"]);
    assert_fails(&["monitor", "--replay", "/nowhere"], 1, &["/nowhere"]);
    assert_fails(&["monitor", "--speed", "2"], 2, &["--replay"]);
    let recording = fixture("h200_kernels_a.json.gz").to_string_lossy().into_owned();
    assert_fails(&["monitor", "--replay", &recording, "--speed", "0"], 2, &["speed"]);
}

#[test]
fn once_prints_one_frame_one_table_or_one_line() {
    let recording = fixture("h200_stream_b.jsonl.gz").to_string_lossy().into_owned();
    let look = |more: &[&str]| {
        let arguments = ["monitor", "--once", "--interval", "200ms", "--speed", "50", "--replay", &recording];
        let output = ergo().args(arguments).args(more).env("COLUMNS", "80").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    let frame = look(&[]);
    // The whole recording is played at once, and the frame shows its end.
    assert!(frame.starts_with(" vm  replay  1:39 of 1:39   "), "{frame}");
    // The source of the power depends on the sensor that was read first.
    let has_source = ["W sampled", "W averaged", "W counter"].iter().any(|source| frame.contains(source));
    assert!(frame.contains("gpu:0 NVIDIA H200") && has_source, "{frame}");
    assert!(!frame.contains('\u{1b}') && frame.lines().count() <= 24, "{frame}");
    assert!(frame.lines().all(|line| line.chars().count() <= 80), "{frame}");
    let table = look(&["--format", "table"]);
    assert!(table.contains("gpu:0") && !table.contains("total"), "{table}");
    let rows = lines(&look(&["--format", "jsonl"]));
    assert_eq!(rows.len(), 1);
    assert!(rows[0]["measured_power_w"].as_f64().unwrap() > 50.0, "{}", rows[0]);
    assert!(rows[0]["modelled_power_w"].as_f64().unwrap() > 1.0, "{}", rows[0]);
    assert!(rows[0].get("processes").is_none(), "a recording has none: {}", rows[0]);
    let length = rows[0]["replay"]["length_s"].as_f64().unwrap();
    assert_eq!(rows[0]["elapsed_s"].as_f64(), Some(length), "{}", rows[0]);
}

#[test]
fn a_silent_meter_does_not_affect_the_others() {
    let folder = tempfile::tempdir().unwrap();
    // Gives four readings, then fails.
    let script = "echo x >> count; test $(wc -l < count) -le 4 && echo 300 || exit 1";
    fs::write(folder.path().join("flaky.sh"), script).unwrap();
    let arguments = ["monitor", "--duration", "7s", "--interval", "500ms", "--format", "jsonl", "--sensor"];
    let meter = "command[name=bmc,every=100ms]:sh flaky.sh";
    let output = ergo().args(arguments).arg(meter).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let rows = lines(&stdout(&output));
    let (totals, ticks) = rows.split_last().unwrap();
    let meter = |row: &serde_json::Value| -> serde_json::Value {
        let devices = row["devices"].as_array().unwrap();
        devices.iter().find(|device| device["device"] == "meter:0").unwrap().clone()
    };
    let last = ticks.last().unwrap();
    assert!(meter(last)["power_w"].is_null() && meter(last)["silent_s"].as_f64().unwrap() > 3.0, "{last}");
    let totals = &totals["totals"];
    let length = |row: &serde_json::Value| row["end_us"].as_i64().unwrap() - row["start_us"].as_i64().unwrap();
    assert!(length(totals) > length(&meter(totals)) + 1_000_000, "{totals}");
    assert!(meter(totals)["joules"].as_f64().unwrap() > 0.0, "{totals}");
}

#[test]
fn invalid_options_are_rejected() {
    assert_fails(&["monitor", "--history", "2h"], 2, &["set --history to a time from 1s to 1h"]);
    assert_fails(&["monitor", "--history", "100ms"], 2, &["set --history to a time from 1s to 1h"]);
    assert_fails(&["monitor", "-d", "0s"], 2, &["--once"]);
}

#[test]
fn a_split_sums_to_the_energy_of_the_cpu() {
    let arguments = ["monitor", "--once", "--interval", "100ms", "--format", "jsonl", "--split", "cpu-time"];
    let output = ergo().args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let row = &lines(&stdout(&output))[0];
    let devices = row["devices"].as_array().unwrap().iter();
    let cpus = devices.filter(|device| device["device"].as_str().is_some_and(|name| name.starts_with("cpu")));
    let all: f64 = cpus.filter_map(|device| device["energy_j"].as_f64()).sum();
    let processes = row["processes"].as_array().unwrap().iter();
    let shares: f64 = processes.filter_map(|process| process["cpu_energy_by_cpu_time_j"].as_f64()).sum();
    let rest = row["cpu_energy_rest_j"].as_f64().unwrap();
    assert!(all > 0.0 && (shares + rest - all).abs() < 1e-6 * all, "{shares} + {rest} != {all}");
    let nothing = ergo().args(arguments).args(["--device", "host"]).output().unwrap();
    assert!(
        nothing.status.success() && stderr(&nothing).contains("it is not split among processes"),
        "{}",
        stderr(&nothing)
    );
}

#[test]
fn processes_are_listed_in_each_line() {
    let arguments = ["monitor", "--once", "--interval", "100ms", "--format", "jsonl", "--processes"];
    let output = ergo().args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let rows = lines(&stdout(&output));
    assert!(rows[0]["processes"].is_array(), "{}", rows[0]);
}
