//! `ergo measure`: the energy and the exit code of a command.

#[cfg(target_os = "linux")]
use std::os::unix::process::CommandExt as _;
#[cfg(target_os = "linux")]
use std::path::Path;
#[cfg(target_os = "linux")]
use std::process::{Child, Stdio};

#[cfg(target_os = "linux")]
use rustix::process::{Pid, Signal, kill_process};

#[cfg(target_os = "linux")]
use super::{assert_ends, line_in};
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

/// Starts `ergo measure` of a shell script. It does not run in the foreground of a terminal.
#[cfg(target_os = "linux")]
fn measure_script(script: &str, folder: &Path) -> Child {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ergo"));
    command.args(["measure", "--idle", "0s", "--", "sh", "-c", script]).current_dir(folder);
    // A new group is not in the foreground, even if the tests run in a terminal.
    command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_ends_the_processes_that_the_command_started() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let folder = tempfile::tempdir().unwrap();
        let mut ergo = measure_script("sh -c 'echo $$ > process; exec sleep 600'; true", folder.path());
        let process = line_in(&folder.path().join("process"));
        kill_process(Pid::from_child(&ergo), signal).unwrap();
        assert_eq!(ergo.wait().unwrap().code(), Some(130), "{signal:?}");
        assert_ends(&process);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_reaches_the_command_once() {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap 'echo signal >> signals' INT; echo ready > ready; while ! test -e signals; do sleep 0.01; done; \
                  sleep 0.3";
    let mut ergo = measure_script(script, folder.path());
    line_in(&folder.path().join("ready"));
    kill_process(Pid::from_child(&ergo), Signal::INT).unwrap();
    assert_eq!(ergo.wait().unwrap().code(), Some(130));
    assert_eq!(std::fs::read_to_string(folder.path().join("signals")).unwrap(), "signal\n");
}

/// What the command leaves running on purpose is not killed.
#[cfg(target_os = "linux")]
#[test]
fn background_processes_outlive_a_command_that_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut ergo = measure_script("sleep 600 > /dev/null 2>&1 & echo $! > process", folder.path());
    let process = line_in(&folder.path().join("process"));
    assert_eq!(ergo.wait().unwrap().code(), Some(0));
    assert!(std::process::Command::new("kill").args(["-KILL", &process]).status().unwrap().success(), "it has ended");
}

#[cfg(target_os = "linux")]
#[test]
fn a_killed_ergo_leaves_no_command_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut ergo = measure_script("echo $$ > shell; sleep 600 & echo $! > process; wait", folder.path());
    let [process, shell] = ["process", "shell"].map(|name| line_in(&folder.path().join(name)));
    ergo.kill().unwrap();
    ergo.wait().unwrap();
    assert_ends(&process);
    assert_ends(&shell);
}

/// In the foreground of a terminal the command may read from it, and Ctrl-C reaches it once.
#[cfg(target_os = "linux")]
#[test]
fn a_command_can_use_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let terminal = r#"
import os, pty, sys

process, terminal = pty.fork()
if process == 0:
    os.execv(sys.argv[1], sys.argv[1:])
output = b""
while True:
    try:
        part = os.read(terminal, 1024)
    except OSError:
        break
    output += part
    if b"your name" in part:
        os.write(terminal, b"ada\n")
    if b"ready" in part:
        os.write(terminal, b"\x03")
sys.stdout.buffer.write(output)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
"#;
    // It reads from the terminal, although its standard input is a file, as `sudo` does for a password.
    let script = "trap 'echo signal >> signals' INT; echo your name; read -r name < /dev/tty; echo $name > name; \
                  echo ready; while ! test -e signals; do sleep 0.01; done; sleep 0.3";
    let output = assert_cmd::Command::new("python3")
        .args(["-c", terminal, env!("CARGO_BIN_EXE_ergo")])
        .args(QUICK)
        .args(["--", "sh", "-c", &format!("exec < /dev/null; {script}")])
        .current_dir(folder.path())
        .timeout(std::time::Duration::from_secs(60))
        .output()
        .unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    assert_eq!((read("name").as_str(), read("signals").as_str()), ("ada\n", "signal\n"), "{}", stdout(&output));
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
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
    assert!(stdout(&output).contains("± is half of the 95 % interval: the uncertainty"), "{}", stdout(&output));
    let output = ergo().args(["measure", "--idle", "10ms", "-n", "2", "--", "true"]).output().unwrap();
    assert!(stdout(&output).contains("± is half of the 95 % interval of the mean: for time"), "{}", stdout(&output));
    for phase in ["before", "after"] {
        let note = format!("idle power {phase} the command: letting the machine settle");
        assert!(stderr(&output).contains(&note), "{}", stderr(&output));
    }
}

/// A meter that hangs in the second run has measured the first one only.
#[test]
fn a_meter_that_hangs_is_reported_with_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let hangs = folder.path().join("hangs");
    let meter = format!("command[name=bmc,every=20ms]:test -e {} && sleep 600; echo 5 W", hangs.display());
    // The second run starts when the meter hangs already.
    let script = format!("test -e {0}.first && touch {0}; touch {0}.first; sleep 0.4", hangs.display());
    let arguments = ["-n", "2", "--format", "json", "--device", "meter", "--sensor", &meter, "--", "sh", "-c", &script];
    let output = ergo().args(QUICK).args(arguments).output().unwrap();
    let messages = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{messages}");
    assert!(messages.contains("command:bmc: the command gave no value within "), "{messages}");
    assert!(messages.contains(" s and was killed when the measurement ended"), "{messages}");
    assert!(messages.contains("no energy of meter:0 bmc: in run 2, its readings end "), "{messages}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["devices"], serde_json::json!([]));
    assert!(report["runs"][0]["energy"]["joules"].as_f64().unwrap() > 0.0, "{report}");
    assert!(report["runs"][1]["energy"].is_null(), "{report}");
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
        messages.contains("no energy of meter:0 bmc") && messages.contains("no sensor measured the whole command"),
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
