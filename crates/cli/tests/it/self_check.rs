//! The client's self-check, end to end: a run whose client is starved or stopped says that its latencies are not only the
//! server's.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::mock_server::Server;
use super::profile::{json, run_in};

/// Starts a run of about two seconds, optionally by way of another program.
fn start(folder: &Path, address: &str, by: &[&str]) -> Child {
    let ergo = env!("CARGO_BIN_EXE_ergo");
    let mut words = by.iter().copied().chain([ergo]);
    Command::new(words.next().unwrap())
        .args(words)
        .args(["profile", "--idle", "0s", "--warmup", "0", "--grader", "none", "--model", "m", "--quiet"])
        .args(["-n", "40", "-c", "4", "--base-url", address, "--output-dir"])
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for the run, and returns the load figures of its summary.
fn load(child: Child, folder: &Path) -> Value {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    json(&run_in(folder).join("summary.json"))["load"].clone()
}

fn server() -> Server {
    Server::start(&["--tokens", "10", "--ttft", "50ms", "--gap", "15ms", "--model", "m"])
}

/// Waits until requests have ended, by the journal.
fn wait_for_requests(folder: &Path) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let has_requests = || {
        let run = std::fs::read_dir(folder).ok()?.next()?.ok()?.path();
        let events = std::fs::read_dir(run.join("journal")).ok()?.flatten().map(|entry| entry.path());
        let text: String = events.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
        text.contains("\"ended\"").then_some(())
    };
    while has_requests().is_none() {
        assert!(Instant::now() < deadline, "no request ended");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_client_that_was_stopped_says_so() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let child = start(folder.path(), &server.address(), &[]);
    wait_for_requests(folder.path());
    let process = Pid::from_child(&child);
    kill_process(process, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    kill_process(process, Signal::CONT).unwrap();
    let load = load(child, folder.path());
    assert_eq!(load["client_limited"], true, "{load}");
    let reasons = load["client"]["reasons"].as_array().unwrap();
    assert!(reasons.contains(&Value::from("stalled")), "{load}");
    assert!(load["client"]["wake_lag_ms"]["max"].as_f64().unwrap() > 900.0, "{load}");
}

/// Processes that use one core until they are dropped.
#[cfg(target_os = "linux")]
struct Hogs(Vec<Child>);

#[cfg(target_os = "linux")]
impl Hogs {
    fn start(count: usize) -> Self {
        let hog = || Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn().unwrap();
        Self(std::iter::repeat_with(hog).take(count).collect())
    }
}

#[cfg(target_os = "linux")]
impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_starved_client_says_so() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    // At the lowest priority, on the same core as processes that never wait.
    let hogs = Hogs::start(3);
    let child = start(folder.path(), &server.address(), &["taskset", "-c", "0", "nice", "-n", "19"]);
    let load = load(child, folder.path());
    drop(hogs);
    assert_eq!(load["client_limited"], true, "{load}");
    let reasons = load["client"]["reasons"].as_array().unwrap();
    assert!(reasons.contains(&Value::from("cpu")), "{load}");
}
