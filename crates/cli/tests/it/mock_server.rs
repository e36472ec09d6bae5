//! `ergo mock-server`: its address, its answers and its totals.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::assert_fails;

/// A server that ends with its test.
pub(crate) struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    port: u16,
}

impl Server {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ergo"))
            .args(["mock-server", "--port", "0", "--format", "json"])
            .args(if arguments.contains(&"--ttft") { &[][..] } else { &["--ttft", "0", "--gap", "0"] })
            .args(arguments)
            .env("MOCK_KEY", "secret")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        let port = u16::try_from(line["port"].as_u64().unwrap()).unwrap();
        assert_eq!(line["listening"], format!("http://127.0.0.1:{port}"));
        Self { child, stdout, port }
    }

    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn ask(&self, headers: &str) -> String {
        let body = r#"{"messages":[{"role":"user","content":"how are you"}]}"#;
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        write!(
            stream,
            "POST /v1/chat/completions HTTP/1.1\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_answers_until_interrupted_and_prints_totals() {
    let mut server = Server::start(&["--answer", "forty two", "--api-key", "MOCK_KEY", "--fault", "429=100%"]);
    assert!(server.ask("").starts_with("HTTP/1.1 401 "));
    let key = "authorization: Bearer secret\r\n";
    assert!(server.ask(key).starts_with("HTTP/1.1 429 "));
    let answer = server.ask(&format!("{key}x-mock-fault: no-done\r\n"));
    assert!(answer.contains("forty two"), "{answer}");
    kill_process(Pid::from_child(&server.child), Signal::INT).unwrap();
    let mut rest = String::new();
    server.stdout.read_to_string(&mut rest).unwrap();
    assert!(server.child.wait().unwrap().success());
    let totals = &serde_json::from_str::<Value>(&rest).unwrap()["totals"];
    assert_eq!(totals["faults"], json!({"429": 1, "no-done": 1}));
    assert_eq!((&totals["requests"], &totals["tokens"], &totals["rejected"]), (&json!(2), &json!(2), &json!(1)));
}

/// The totals are several lines, and a message escapes line breaks.
#[test]
fn totals_are_printed_as_lines() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ergo"))
        .args(["mock-server", "--port", "0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on http://127.0.0.1:"), "{line}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut totals = String::new();
    stderr.read_to_string(&mut totals).unwrap();
    assert!(child.wait().unwrap().success());
    let names: Vec<&str> =
        totals.lines().map(|line| line.trim_start().split("  ").next().unwrap_or_default()).collect();
    assert_eq!(names, ["requests", "tokens sent", "prompt tokens received", "faults", "connections"], "{totals}");
    assert!(!totals.contains('\\'), "{totals}");
}

#[test]
fn invalid_scripts_and_used_ports_are_errors() {
    let with = |arguments: &[&'static str]| [&["mock-server"][..], arguments].concat();
    assert_fails(&with(&["--fault", "explode=1"]), 2, &["`explode` is not a fault", "hang-stream"]);
    assert_fails(&with(&["--fault", "500=0.9", "--fault", "503=20%"]), 2, &["sum to 110 %", "hint:"]);
    assert_fails(&with(&["--ttft", "50"]), 2, &["`50` is not a time", "uniform:10ms..20ms"]);
    assert_fails(&with(&["--host", "example.org"]), 2, &["is not an IP address", "localhost"]);
    assert_fails(&with(&["--api-key", "NO_SUCH_KEY"]), 2, &["NO_SUCH_KEY is unset or empty", "hint:"]);
    let server = Server::start(&[]);
    let port = server.port.to_string();
    assert_fails(&["mock-server", "--port", &port], 1, &["cannot listen on 127.0.0.1", "hint:"]);
}
