//! A server that repeats the API key and a secret parameter everywhere: no file of the run has them, not even their start.

use std::fs;
use std::fs::File;
use std::io::{BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use arrow_array::{Array as _, RecordBatch};
use arrow_ipc::reader::StreamReader;
use ergometer::run::PreparedRun;
use ergometer_datasets::DatasetSpec;
use ergometer_runs::config::RunConfig;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::rig::{Rig, closed, config};

const KEY: &str = "sk-echo-0123456789abcdef";
/// The value of a request parameter.
const PARAMETER: &str = "sk-echo-parameter-9876543210";
/// Shorter starts are not replaced.
const START: &str = "sk-echo";

/// Reads a request; `None` at the end of the connection.
fn request(reader: &mut impl std::io::BufRead) -> Option<String> {
    let mut head = String::new();
    while reader.read_line(&mut head).ok()? > 2 {}
    if head.is_empty() {
        return None;
    }
    let length = head.to_ascii_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(head)
}

/// The answer to the request with this number.
fn answer(number: usize, key: &str) -> String {
    let stream = |events: &str| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}")
    };
    let delta = |delta: &str, finish: &str| {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n")
    };
    match number % 5 {
        0 => stream(
            &[
                delta(&format!("{{\"reasoning_content\":\"hm {key}\"}}"), "null"),
                delta(&format!("{{\"content\":\"it is {key}, {PARAMETER}\"}}"), "null"),
                delta(
                    &format!(
                        "{{\"tool_calls\":[{{\"index\":0,\"function\":{{\"name\":\"f\",\"arguments\":\"{key}\"}}}}]}}"
                    ),
                    "null",
                ),
                delta("{}", &format!("\"{key}\"")),
                String::from("data: [DONE]\n\n"),
            ]
            .concat(),
        ),
        // Cut within the key: causes have 2,000 characters, and excerpts 120.
        1 => {
            let body = format!("{}{key}{}", "x".repeat(1965), "y".repeat(9000));
            let length = body.len();
            format!("HTTP/1.1 500 Oh\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
        }
        2 => stream(&format!("data: {}{key}{}\n\n", "x".repeat(108), "y".repeat(900))),
        3 => {
            stream(&format!("data: {{\"error\":{{\"message\":\"{}{key}{}\"}}}}\n\n", "x".repeat(1985), "y".repeat(900)))
        }
        _ => {
            // The key is at the end of what is read of a long body.
            let body = format!("{}{key}{}", " ".repeat(7980), " ".repeat(9000));
            let length = body.len();
            format!("HTTP/1.1 400 {key}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
        }
    }
}

fn serve(stream: &TcpStream, number: &std::sync::atomic::AtomicUsize) {
    let mut reader = BufReader::new(stream);
    let Some(head) = request(&mut reader) else { return };
    let key = head.lines().find_map(|line| line.split_once("Token ")).map_or("", |(_, key)| key).trim();
    let answer = if head.starts_with("GET") {
        let body = format!("{{\"data\":[{{\"id\":\"m-{key}\"}}]}}");
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
    } else {
        answer(number.fetch_add(1, std::sync::atomic::Ordering::Relaxed), key)
    };
    let _ = (&mut &*stream).write_all(answer.as_bytes());
}

/// Checks every byte of every file, and the decoded columns of Arrow and Parquet files.
fn check(folder: &Path, found: &mut Vec<String>) {
    let mut note = |path: &Path, what: &str, bytes: &[u8]| {
        if bytes.to_ascii_lowercase().windows(START.len()).any(|window| window == START.as_bytes()) {
            found.push(format!("{} ({what})", path.display()));
        }
    };
    let mut folders = vec![];
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        note(&path, "name", path.file_name().unwrap().as_encoded_bytes());
        if path.is_dir() {
            folders.push(path);
            continue;
        }
        note(&path, "bytes", &fs::read(&path).unwrap());
        for batch in batches(&path) {
            for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
                note(&path, "column name", field.to_string().as_bytes());
                let mut parts = vec![column.to_data()];
                while let Some(part) = parts.pop() {
                    part.buffers().iter().for_each(|buffer| note(&path, field.name(), buffer.as_slice()));
                    parts.extend(part.child_data().iter().cloned());
                }
            }
        }
    }
    for folder in &folders {
        check(folder, found);
    }
}

fn batches(path: &Path) -> Vec<RecordBatch> {
    let file = || File::open(path).unwrap();
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("arrow") => StreamReader::try_new(file(), None).unwrap().map(Result::unwrap).collect(),
        Some("parquet") => {
            ParquetRecordBatchReaderBuilder::try_new(file()).unwrap().build().unwrap().map(Result::unwrap).collect()
        }
        _ => Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_the_server_repeats_is_in_no_file() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let number = std::sync::atomic::AtomicUsize::default();
        listener.incoming().flatten().for_each(|stream| serve(&stream, &number));
    });
    let rig = Rig::new();
    let mut config = RunConfig {
        dataset: DatasetSpec { id: String::from("builtin"), parameters: std::collections::BTreeMap::default() },
        max_queries: Some(10),
        ..config()
    };
    config.client.id = String::from("openai");
    config.client.model = String::new();
    config.client.base_url = Some(address);
    config.client.headers = vec![format!("Authorization: Token {KEY}")];
    config.request.parameters.insert(String::from("api_key"), PARAMETER.into());
    let prepared = PreparedRun::new(config, crate::sensors::blind()).await.unwrap();
    assert_eq!(prepared.config().client.model, "m-<redacted>");
    let run = closed(rig.run_prepared(prepared).await);
    assert_eq!((run.summary.outcomes.completed, run.summary.failed()), (2, 8), "{:?}", run.summary.outcomes);
    let mut found = Vec::new();
    check(rig.runs(), &mut found);
    assert!(found.is_empty(), "{found:#?}");
    let arrow = batches(&rig.folder().join(ergometer_runs::store::DATA_FILE));
    assert_eq!(arrow.iter().map(RecordBatch::num_rows).sum::<usize>(), 10, "the columns are decoded");
}
