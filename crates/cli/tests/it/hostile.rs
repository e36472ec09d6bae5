//! `ergo profile` against servers that do not follow the protocol: the run ends, and says what was wrong.

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::mock_server::Server;
use super::profile::{json as read_json, run_in};
use super::servers::{head, listen};
use super::{assert_fails, stderr};

/// Starts a server that answers every POST with these bytes, and then with `more` until the client leaves.
fn serve(answer: Vec<u8>, more: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || {
                if head(&stream).starts_with("GET") {
                    let _ = (&stream).write_all(MODELS);
                    return;
                }
                let mut written = (&stream).write_all(&answer);
                while !more.is_empty() && written.is_ok() {
                    written = (&stream).write_all(more);
                }
            });
        }
    });
    address
}

pub(crate) const MODELS: &[u8] =
    b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 21\r\n\r\n{\"data\":[{\"id\":\"m\"}]}";

/// An answer as a stream of events.
fn events(chunks: &[Value]) -> Vec<u8> {
    let mut answer = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_vec();
    for chunk in chunks {
        write!(answer, "data: {chunk}\n\n").unwrap();
    }
    answer.extend(b"data: [DONE]\n\n");
    answer
}

fn text(text: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]})
}

fn end(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn usage(tokens: u64) -> Value {
    json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": tokens}})
}

/// The summary and the messages of a run of three queries, which ends with this code.
fn run(address: &str, arguments: &[&str], code: i32) -> (Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let output = command(address, folder.path()).args(["-n", "3"]).args(arguments).output().unwrap();
    let messages = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{messages}");
    (read_json(&run_in(folder.path()).join("summary.json")), messages)
}

fn command(address: &str, folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ergo"));
    command.args(["profile", "--idle", "0s", "--warmup", "0", "--model", "m", "--base-url", address, "--output-dir"]);
    command.arg(folder).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

#[test]
fn answers_of_tokens_without_text_are_completed_with_a_warning() {
    let address = serve(events(&[text(""), text(""), end("length"), usage(2)]), b"");
    let (summary, messages) = run(&address, &["--grader", "none"], 0);
    assert_eq!(summary["outcomes"]["completed"], 3, "{summary}");
    assert!(messages.contains("3 completed answers have tokens but no text"), "{messages}");
}

#[test]
fn a_usage_of_fewer_tokens_than_chunks_is_a_warning() {
    let chunks: Vec<Value> = (0..50).map(|_| text("word ")).chain([end("stop"), usage(1)]).collect();
    let (_, messages) = run(&serve(events(&chunks), b""), &["--grader", "none"], 0);
    assert!(messages.contains("fewer tokens than chunks with text"), "{messages}");
    assert!(messages.contains("the first has 1 token and 50 chunks"), "{messages}");
}

#[test]
fn wrong_answers_that_were_cut_off_are_a_warning() {
    let address = serve(events(&[text("I think"), end("length"), usage(2)]), b"");
    let (summary, messages) = run(&address, &["--max-tokens", "2"], 0);
    assert_eq!(summary["accuracy"]["correct"], 0, "{summary}");
    assert!(messages.contains("3 graded answers ended at the maximum number of tokens"), "{messages}");
    assert!(messages.contains("--max-tokens"), "{messages}");
}

#[test]
fn a_list_of_models_that_fails_names_its_path_and_the_option_that_avoids_it() {
    let answer = String::from("HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    let (address, _requests) = listen(answer);
    assert_fails(&["profile", "--idle", "0s", "--base-url", &address], 1, &["/v1/models", "500", "--model"]);
}

#[test]
fn a_flood_of_interim_responses_fails_the_requests() {
    let flood = b"HTTP/1.1 102 Processing\r\n\r\n".repeat(1000).leak();
    let (summary, messages) = run(&serve(Vec::new(), flood), &["--timeout", "30s"], 3);
    assert_eq!(summary["outcomes"]["failed"]["malformed"], 3, "{summary} {messages}");
}

/// Before, a timeout of 2 s took 10 to 18 s under these floods.
#[test]
fn a_timeout_passes_while_bytes_arrive() {
    let interim: &[u8] = b"HTTP/1.1 102 Processing\r\n\r\n".repeat(1000).leak();
    let comments = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_vec();
    for (answer, flood) in [(Vec::new(), interim), (comments, COMMENTS)] {
        let (address, folder) = (serve(answer, flood), tempfile::tempdir().unwrap());
        let started = Instant::now();
        let output = command(&address, folder.path()).args(["-n", "1", "--timeout", "2s"]).output().unwrap();
        let lasted = started.elapsed();
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        assert!(lasted < Duration::from_secs(6), "{lasted:?}: {}", stderr(&output));
    }
}

/// Comments are legal, and keep a connection busy for as long as the server likes.
const COMMENTS: &[u8] = b": still here\n\n";

#[test]
fn a_run_can_be_interrupted_while_bytes_arrive_without_end() {
    let mut answer = events(&[text("a")]);
    answer.truncate(answer.len() - b"data: [DONE]\n\n".len());
    let address = serve(answer, COMMENTS.repeat(5000).leak());
    let folder = tempfile::tempdir().unwrap();
    let child = command(&address, folder.path()).args(["-n", "20", "-c", "4"]).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_started(folder.path()) {
        assert!(Instant::now() < deadline, "the run never started");
        std::thread::sleep(Duration::from_millis(5));
    }
    let interrupted = Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let lasted = interrupted.elapsed();
    assert!(lasted < Duration::from_secs(8), "{lasted:?}: {}", stderr(&output));
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
}

/// Whether a run has its journal.
fn is_started(runs: &Path) -> bool {
    let run = std::fs::read_dir(runs).ok().and_then(|mut entries| entries.next()?.ok());
    run.is_some_and(|run| run.path().join("journal/run.json").is_file())
}

#[test]
fn a_run_that_lost_a_record_does_not_succeed() {
    let server = Server::start(&["--tokens", "10", "--ttft", "20ms", "--gap", "5ms", "--model", "m"]);
    let folder = tempfile::tempdir().unwrap();
    let child = command(&server.address(), folder.path()).args(["-n", "30", "--grader", "none"]).spawn().unwrap();
    // Blanks out the first request that ended, as a damaged disk would.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !damage(folder.path()) {
        assert!(Instant::now() < deadline, "no request ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let messages = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{messages}");
    let summary = read_json(&run_in(folder.path()).join("summary.json"));
    assert_eq!(summary["complete"], false, "{summary}");
    assert!(messages.contains("the run is incomplete") && messages.contains("--resume"), "{messages}");
}

#[test]
fn a_sweep_that_lost_a_record_does_not_succeed() {
    let server = Server::start(&["--tokens", "10", "--ttft", "20ms", "--gap", "5ms", "--model", "m"]);
    let folder = tempfile::tempdir().unwrap();
    let sweep = ["-n", "30", "--grader", "none", "-c", "1,2"];
    let child = command(&server.address(), folder.path()).args(sweep).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let runs = || std::fs::read_dir(folder.path()).ok().and_then(|mut entries| entries.next()?.ok());
    while !runs().is_some_and(|sweep| damage(&sweep.path())) {
        assert!(Instant::now() < deadline, "no request ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let messages = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{messages}");
    let sweep = read_json(&run_in(folder.path()).join("sweep.json"));
    let is_complete = |point: usize| sweep["points"][point]["runs"][0]["complete"].as_bool();
    assert_eq!((is_complete(0), is_complete(1)), (Some(false), Some(true)), "{sweep}");
    let folder = run_in(folder.path()).display().to_string();
    assert!(messages.contains("a run of the sweep is incomplete"), "{messages}");
    assert!(messages.contains(&format!("--resume {folder}")), "{messages}");
}

/// Overwrites the first request that ended in the journal of a run; `false` if there is none yet.
fn damage(runs: &Path) -> bool {
    let Ok(runs) = std::fs::read_dir(runs) else { return false };
    let Some(files) = runs.flatten().find_map(|run| std::fs::read_dir(run.path().join("journal")).ok()) else {
        return false;
    };
    for path in files.flatten().map(|file| file.path()) {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let lines = text.split_inclusive('\n').scan(0, |start, line| {
            *start += line.len();
            Some((*start - line.len(), line))
        });
        let ended = lines.filter(|(_, line)| line.ends_with('\n')).find(|(_, line)| line.contains("\"ended\""));
        if let Some((start, line)) = ended {
            use std::os::unix::fs::FileExt;
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.write_all_at(" ".repeat(line.len() - 1).as_bytes(), start as u64).unwrap();
            return true;
        }
    }
    false
}
