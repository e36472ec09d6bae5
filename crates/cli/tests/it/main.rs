//! Runs the `ergo` binary and checks its output and exit codes.

mod analyze;
mod attribute;
mod compare;
mod energy;
mod help;
mod hostile;
mod measure;
mod mock_server;
mod monitor;
mod outages;
mod own_meters;
mod pictures;
mod profile;
mod self_check;
mod servers;
mod sweep;
mod threads;
mod trace;
mod trace_functions;
mod trace_handmade;

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;
#[cfg(target_os = "linux")]
use std::time::Instant;

use assert_cmd::Command;

/// `ergo` with a fixed width, and without the color settings of the environment.
fn ergo() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ergo"));
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env("COLUMNS", "120");
    command
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/telemetry").join(name)
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Waits until a command has written a whole line to a file, and returns it.
fn line_in(path: &Path) -> String {
    loop {
        match std::fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Checks that a process ends. It may stay as a zombie: whether somebody waits for it does not matter.
#[cfg(target_os = "linux")]
fn assert_ends(process: &str) {
    let stat = Path::new("/proc").join(process).join("stat");
    let start = Instant::now();
    while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z")) {
        if start.elapsed() > Duration::from_secs(20) {
            let _ = std::process::Command::new("kill").args(["-KILL", process]).status();
            panic!("process {process} still runs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Checks the exit code, that stdout is empty, and that stderr contains these texts.
fn assert_fails(arguments: &[&str], code: i32, expected: &[&str]) {
    let output = ergo().args(arguments).output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
    assert_eq!(stdout(&output), "", "{arguments:?}");
    for part in expected {
        assert!(message.contains(part), "{arguments:?} does not print {part:?}: {message}");
    }
    assert!(!message.contains("panicked"), "{message}");
}
