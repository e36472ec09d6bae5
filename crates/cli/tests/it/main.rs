//! Runs the `ergo` binary and checks its output and exit codes.

mod analyze;
mod compare;
mod energy;
mod help;
mod measure;
mod mock_server;
mod monitor;
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

use std::path::PathBuf;
use std::process::Output;

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
