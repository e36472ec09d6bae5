//! `ergo profile` and `ergo list models` against servers: requests, stored files, and where the API key goes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc;

use serde_json::Value;

use super::mock_server::Server;
use super::{assert_fails, ergo, stderr, stdout};

const KEY: &str = "hunter2hunter2";

fn run(folder: &Path, arguments: &[&str]) -> (i32, Value, String) {
    let output = ergo()
        .args(["profile", "--idle", "0s", "--format", "json", "--output-dir"])
        .arg(folder.join("runs"))
        .args(arguments)
        .env("SERVER_KEY", KEY)
        .output()
        .unwrap();
    let summary = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code().unwrap(), summary, stderr(&output))
}

/// Whether a text is in any file of a folder.
fn is_anywhere(folder: &Path, text: &str) -> bool {
    let holds = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() { is_anywhere(&path, text) } else { holds(&std::fs::read(&path).unwrap()) }
    })
}

/// Starts a server that sends the same answer to every request; the channel gets the head of each request.
pub(crate) fn listen(answer: String) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = sender.send(head(&stream));
            let _ = (&stream).write_all(answer.as_bytes());
        }
    });
    (address, receiver)
}

/// The head of a request. Also reads the body.
pub(crate) fn head(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
    let length = head.to_ascii_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    let _ = reader.read_exact(&mut body);
    head
}

#[test]
fn a_run_needs_only_the_address_of_the_server() {
    let server = Server::start(&["--model", "org/m:1b", "--tokens", "8", "--tokens-per-chunk", "2"]);
    let output = ergo().args(["list", "models", "--base-url", &server.address()]).output().unwrap();
    assert!(output.status.success() && stdout(&output).contains("org/m:1b"), "{}", stderr(&output));
    let folder = tempfile::tempdir().unwrap();
    for client in ["openai", "ollama"] {
        let base = format!("{}/v1/", server.address());
        let (code, summary, messages) = run(
            folder.path(),
            &["--client", client, "--base-url", &base, "-n", "5", "-c", "2", "--grader", "none", "--name", client],
        );
        assert_eq!(code, 0, "{messages}");
        assert_eq!(
            (&summary["model"], &summary["total_queries"]),
            (&Value::from("org/m:1b"), &Value::from(5)),
            "{messages}"
        );
        assert_eq!(summary["tokens"]["output"], 40);
        let source = if client == "openai" { "usage" } else { "native" };
        assert_eq!(summary["tokens"]["source"], source);
    }
}

#[test]
fn failures_are_counted_and_set_the_exit_code() {
    let server = Server::start(&["--fault", "truncated=1"]);
    let folder = tempfile::tempdir().unwrap();
    let (code, summary, messages) = run(folder.path(), &["--base-url", &server.address(), "--model", "m", "-n", "3"]);
    assert_eq!((code, &summary["outcomes"]["failed"]["truncated"]), (3, &Value::from(3)), "{messages}");
    assert!(messages.contains("3 requests failed: truncated"), "{messages}");
}

#[test]
fn the_model_cannot_be_set_with_param() {
    let server = Server::start(&["--model", "m"]);
    assert_fails(
        &["profile", "--base-url", &server.address(), "--param", "model=other"],
        2,
        &["cannot be set as a request parameter", "--model"],
    );
}

#[test]
fn an_unreachable_server_is_reported_with_a_hint() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address = format!("http://{free}");
    let expected =
        ["no server answers at http://127.0.0.1:", "(no connection: connection refused)", "ergo mock-server"];
    assert_fails(&["profile", "--base-url", &address], 1, &expected);
    assert_fails(&["list", "models", "--client", "ollama", "--base-url", &address], 1, &expected[..2]);
    assert_fails(&["profile", "--base-url", "ftp://h"], 2, &["is not a server address"]);
}

#[test]
fn an_api_key_is_sent_and_never_stored() {
    let server = Server::start(&["--api-key", "MOCK_KEY", "--model", "m"]);
    assert_fails(&["profile", "--base-url", &server.address()], 1, &["401", "--api-key-env"]);
    let folder = tempfile::tempdir().unwrap();
    let output = ergo()
        .args(["profile", "-v", "--idle", "0s", "-n", "2", "--base-url", &server.address(), "--api-key-env", "OUR_KEY"])
        .args(["--header", &format!("X-Tag: {KEY}"), "--output-dir"])
        .arg(folder.path().join("runs"))
        .env("OUR_KEY", "secret")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for secret in [KEY, "Bearer"] {
        assert!(!is_anywhere(folder.path(), secret) && !stderr(&output).contains(secret), "{secret}");
    }
    assert!(is_anywhere(folder.path(), "OUR_KEY"), "the name of the variable is stored, to resume the run");
    assert_fails(&["profile", "--base-url", "http://192.0.2.1", "--api-key-env", "PATH"], 2, &["plain HTTP", "https"]);
    assert_fails(
        &["profile", "--base-url", "https://h", "--api-key-env", "NO_SUCH_KEY"],
        2,
        &["NO_SUCH_KEY", "unset or empty"],
    );
}

#[test]
fn a_key_is_not_sent_after_a_redirect_to_another_origin() {
    let (elsewhere, seen_elsewhere) =
        listen(String::from("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}"));
    let answer = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: {elsewhere}/v1/models\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    );
    let (here, seen_here) = listen(answer);
    let folder = tempfile::tempdir().unwrap();
    let (code, _, messages) =
        run(folder.path(), &["--base-url", &here, "--model", "m", "-n", "1", "--api-key-env", "SERVER_KEY"]);
    assert!(code == 1 && messages.contains("307") && messages.contains(&elsewhere), "{messages}");
    assert!(!messages.contains(KEY));
    assert!(seen_here.try_iter().any(|head| head.contains(KEY)), "the key is sent to the server");
    assert_eq!(seen_elsewhere.try_iter().count(), 0, "nothing is sent to another origin, with or without a key");
}

#[test]
fn a_proxy_from_the_environment_is_used_except_for_this_machine() {
    let (proxy, seen) =
        listen(String::from("HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"));
    let list = |base: &str| {
        let mut command = ergo();
        for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env(name, &proxy);
        }
        command.env_remove("NO_PROXY").env_remove("no_proxy").env_remove("REQUEST_METHOD");
        command.args(["list", "models", "--base-url", base]).output().unwrap()
    };
    let output = list("http://192.0.2.1:8000");
    assert!(stderr(&output).contains("503"), "{}", stderr(&output));
    assert!(seen.try_iter().any(|head| head.starts_with("GET http://192.0.2.1:8000/v1/models")));
    let server = Server::start(&["--model", "m"]);
    assert!(list(&server.address()).status.success());
    assert_eq!(seen.try_iter().count(), 0);
}
