//! `ergo profile` against servers that are gone, or that do not speak the version of HTTP that was asked for.

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::hostile::MODELS;
use super::mock_server::Server;
use super::profile::{json, run_in};
use super::servers::head;
use super::stderr;

fn profile(address: &str, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ergo"));
    command.args(["profile", "--idle", "0s", "--grader", "none", "--base-url", address, "--output-dir"]);
    command.arg(folder).args(arguments);
    command
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn a_server_that_dies_after_the_list_of_models_ends_the_warm_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // From the first request for an answer on, connections are refused.
            if !head(&stream).starts_with("GET") {
                break;
            }
            let _ = (&stream).write_all(MODELS);
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let output = profile(&address, folder.path(), &["--warmup", "1"]).output().unwrap();
    let messages = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{messages}");
    assert!(messages.contains("error: the server did not answer during the warm-up"), "{messages}");
    assert!(is_empty(folder.path()), "no folder is left");
}

/// The address of a server that answers every request but GET with an error of HTTP/1.1.
fn start_server_without_http_2() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if head(&stream).starts_with("GET") {
                let _ = (&stream).write_all(MODELS);
            } else {
                let _ =
                    (&stream).write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            }
        }
    });
    address
}

#[test]
fn a_server_without_http_2_ends_the_warm_up() {
    let folder = tempfile::tempdir().unwrap();
    let address = start_server_without_http_2();
    let output = profile(&address, folder.path(), &["--http", "2", "--warmup", "1"]).output().unwrap();
    let messages = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{messages}");
    assert!(messages.contains("the server did not answer with HTTP/2 during the warm-up"), "{messages}");
    assert!(messages.contains("hint: the server does not speak HTTP/2: start a new run with --http 1.1"), "{messages}");
    assert!(is_empty(folder.path()), "no folder is left");
}

#[test]
fn a_run_against_a_server_without_http_2_is_not_to_be_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let address = start_server_without_http_2();
    let output = profile(&address, folder.path(), &["--http", "2", "--warmup", "0", "-n", "100000"]).output().unwrap();
    let messages = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{messages}");
    assert!(messages.contains("the server did not answer with HTTP/2 for 1"), "{messages}");
    let hint = messages.split_once("error: ").unwrap().1;
    assert!(hint.contains("--http 1.1") && !hint.contains("--resume"), "{messages}");
}

#[test]
fn a_server_that_is_killed_ends_the_run_after_ten_seconds() {
    let server = Server::start(&["--model", "m", "--tokens", "4", "--ttft", "5ms", "--gap", "1ms"]);
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["-n", "100000", "-c", "8", "--warmup", "0"];
    let mut command = profile(&server.address(), folder.path(), &arguments);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !has_answers(folder.path()) {
        assert!(Instant::now() < deadline, "no request ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    let killed = Instant::now();
    drop(server);
    let output = child.wait_with_output().unwrap();
    let (messages, lasted) = (stderr(&output), killed.elapsed());
    assert_eq!(output.status.code(), Some(1), "{messages}");
    assert!((Duration::from_secs(9)..Duration::from_secs(40)).contains(&lasted), "{lasted:?}");
    assert!(messages.contains("the server did not answer for 1"), "{messages}");
    assert!(messages.contains("--resume"), "{messages}");
    let summary = json(&run_in(folder.path()).join("summary.json"));
    // Eight senders that pause for half a second after a failure; without the pause there would be thousands.
    let failed: u64 =
        summary["outcomes"]["failed"].as_object().unwrap().values().filter_map(serde_json::Value::as_u64).sum();
    assert!((10..1000).contains(&failed), "{failed} failures: {summary}");
}

/// Whether requests of the only run have ended.
fn has_answers(runs: &Path) -> bool {
    let Ok(mut entries) = std::fs::read_dir(runs) else { return false };
    let Some(Ok(run)) = entries.next() else { return false };
    let files = std::fs::read_dir(run.path().join("journal")).into_iter().flatten().flatten();
    let paths: Vec<PathBuf> = files.map(|file| file.path()).collect();
    paths.iter().any(|path| std::fs::read_to_string(path).is_ok_and(|text| text.contains("\"ended\"")))
}
