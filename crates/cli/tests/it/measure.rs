//! `ergo measure`: the energy and the exit code of a command.

use super::{assert_fails, ergo, stderr, stdout};

/// Without idle measurements, so that tests are short.
const QUICK: [&str; 3] = ["measure", "--idle", "0s"];

#[test]
fn the_exit_code_of_the_command_is_passed_on() {
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
        let output = ergo().args(QUICK).args(["--", "sh", "-c", script]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{script}: {}", stderr(&output));
    }
}

#[test]
fn only_json_is_printed_to_stdout() {
    let arguments = ["--format", "json", "-n", "2", "--", "sh", "-c", "echo spoken; sleep 0.2"];
    let output = ergo().args(QUICK).args(arguments).output().unwrap();
    assert!(stderr(&output).contains("spoken"), "the command's stdout goes to stderr");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["repeat"], 2);
    assert_eq!(report["runs"].as_array().unwrap().len(), 2);
    let duration = &report["duration_s"];
    assert!(duration["mean"].as_f64().unwrap() >= 0.2, "{report}");
    assert!(duration["low"].as_f64().unwrap() <= duration["high"].as_f64().unwrap());
    for device in report["devices"].as_array().unwrap() {
        let gross = &device["gross_j"];
        assert!(
            gross["mean"].as_f64().unwrap() >= 0.0 && device["net_j"].is_null(),
            "idle power was not measured: {device}"
        );
    }
}

#[test]
fn net_energy_is_gross_less_idle_power() {
    let output =
        ergo().args(["measure", "--idle", "500ms", "--format", "json", "--", "sleep", "0.5"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let seconds = report["duration_s"]["mean"].as_f64().unwrap();
    for device in report["devices"].as_array().unwrap() {
        let number = |key: &str| device[key].as_f64().or_else(|| device[key]["mean"].as_f64()).unwrap();
        let expected = number("gross_j") - number("idle_w") * seconds;
        assert!((number("net_j") - expected).abs() < 1e-9, "{device}");
    }
}

/// The error of a model is systematic: more repeats do not reduce it.
#[test]
fn repeats_do_not_reduce_the_error_of_a_model() {
    let output = ergo().args(QUICK).args(["--format", "json", "-n", "3", "--", "sleep", "0.3"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for device in report["devices"].as_array().unwrap().iter().filter(|device| device["provenance"] == "modelled") {
        let number = |key: &str| device["gross_j"][key].as_f64().unwrap();
        assert!(number("high") - number("mean") >= 0.49 * number("mean"), "{device}");
    }
}

/// A signal to `ergo` alone is passed on to the command, and the exit code is that of an interrupt.
#[test]
fn a_termination_signal_is_passed_on() {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_ergo"))
        .args(["measure", "--idle", "0s", "--", "sleep", "600"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(900));
    let killed = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn commands_that_cannot_run_are_reported() {
    assert_fails(
        &["measure", "--idle", "0s", "--", "no-such-command-here"],
        1,
        &["cannot run `no-such-command-here`", "PATH"],
    );
    assert_fails(&["measure", "--idle", "0s", "--", "/dev/null"], 1, &["cannot run `/dev/null`", "chmod"]);
    assert_fails(&["measure", "--device", "host", "--", "true"], 1, &["no energy or power sensor", "ergo doctor"]);
    assert_fails(&["measure", "--repeat", "0", "--", "true"], 2, &["`0` is not a whole number from 1 to 100000"]);
}

#[test]
fn the_table_shows_energy_with_its_margin() {
    let output = ergo().args(QUICK).args(["--", "true"]).output().unwrap();
    assert!(stdout(&output).contains("energy") && stdout(&output).contains(" J ±"), "{}", stdout(&output));
}

/// The command succeeds, but no sensor measures it: `ergo` fails, and does not warn about modelled energy.
#[test]
fn a_silent_meter_is_reported_and_not_replaced_by_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("was-read");
    let meter = format!("command[name=bmc,every=50ms]:test ! -e {0} && touch {0} && echo 5 W", mark.display());
    let output =
        ergo().args(QUICK).args(["--device", "meter", "--sensor", &meter, "--", "sleep", "0.5"]).output().unwrap();
    let messages = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{messages}");
    assert!(
        messages.contains("no energy of meter:0 bmc") && messages.contains("no sensor measured the command"),
        "{messages}"
    );
    assert!(!messages.contains("modelled"), "{messages}");
}

#[test]
fn a_recording_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keep.jsonl");
    std::fs::write(&path, "an earlier recording\n").unwrap();
    let arguments = ["measure", "--record", path.to_str().unwrap(), "--", "true"];
    assert_fails(&arguments, 2, &["keep.jsonl", "already exists", "hint:"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "an earlier recording\n");
}
