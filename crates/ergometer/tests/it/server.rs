//! Metrics of a server: on the timeline, in the summary, and compared with our counts.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use ergometer::run::RunError;
use ergometer_clients::FailureKind;
use ergometer_diagnostics::Diagnostic;
use ergometer_runs::config::RunConfig;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tokio::sync::Semaphore;

use crate::client::{Call, Scripted, Step, answer};
use crate::dataset::Questions;
use crate::rig::{Rig, closed, config, has_warning};
use crate::sensors::{blind, cpu, machine};

/// A server with vLLM's metrics: three requests run, one waits, and half of the cache is used.
#[derive(Clone)]
struct Server {
    url: String,
    /// The tokens it has generated.
    generated: Arc<AtomicU64>,
    /// The number of scrapes.
    asked: Arc<AtomicU64>,
    /// Scrapes it still answers; after that, it closes every connection.
    answers: Arc<AtomicU64>,
    /// Gets a permit at every scrape from the fifth on.
    gate: Arc<Semaphore>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            url: format!("http://{}/metrics", listener.local_addr().unwrap()),
            generated: Arc::new(AtomicU64::new(1000)),
            asked: Arc::default(),
            answers: Arc::new(AtomicU64::new(u64::MAX)),
            gate: Arc::new(Semaphore::new(0)),
        };
        let this = server.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count > 0) {
                    head.extend(byte);
                }
                let asked = this.asked.fetch_add(1, Ordering::SeqCst) + 1;
                if asked <= this.answers.load(Ordering::SeqCst) {
                    let _ = stream.write_all(this.answer().as_bytes());
                }
                if asked > 4 {
                    this.gate.add_permits(1);
                }
            }
        });
        server
    }

    fn answer(&self) -> String {
        let generated = self.generated.load(Ordering::SeqCst);
        let text = format!(
            "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{{engine=\"0\"}} 3\n\
             vllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc 0.5\nvllm:prompt_tokens_total {}\n\
             vllm:generation_tokens_total {generated}\n",
            generated * 5
        );
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{text}", text.len())
    }

    /// A configuration that scrapes this server.
    fn config(&self) -> RunConfig {
        RunConfig { server_metrics: Some(self.url.clone()), ..config() }
    }

    /// A client of this server: each request generates this many tokens, two of which are in the answer.
    fn client(&self, tokens: u64) -> Scripted {
        let generated = Arc::clone(&self.generated);
        Scripted::new(move |_| {
            generated.fetch_add(tokens, Ordering::SeqCst);
            answer("10", 1)
        })
    }
}

/// The values of a signal of the server in telemetry.parquet.
fn readings(run: &Path, signal: &str) -> Vec<f64> {
    let file = File::open(run.join("telemetry.parquet")).unwrap();
    let mut values = Vec::new();
    for batch in ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap() {
        let batch = batch.unwrap();
        let text = |name: &str, row: usize| {
            let column =
                arrow_array::cast::as_string_array(batch.column_by_name(name).unwrap().as_any_dictionary().values())
                    .clone();
            let keys = batch.column_by_name(name).unwrap().as_any_dictionary().normalized_keys();
            column.value(keys[row]).to_owned()
        };
        let column = batch.column_by_name("value").unwrap().as_primitive::<Float64Type>();
        let rows =
            (0..batch.num_rows()).filter(|&row| text("device", row) == "server:0" && text("signal", row) == signal);
        values.extend(rows.map(|row| column.value(row)));
    }
    values
}

#[tokio::test]
async fn the_metrics_are_on_the_timeline_and_in_the_summary() {
    let (rig, server) = (Rig::new(), Server::start());
    let (generated, gate) = (Arc::clone(&server.generated), Arc::clone(&server.gate));
    // The request ends after two scrapes.
    let client = Scripted::new(move |_| {
        generated.fetch_add(2, Ordering::SeqCst);
        vec![Step::Say("1"), Step::Pass(Arc::clone(&gate)), Step::Say("0")]
    });
    let config = RunConfig { warmup: 0, ..server.config() };
    let run = closed(rig.run(config, Questions::new(1), client, machine(vec![cpu()])).await);
    let told = run.summary.server.as_ref().unwrap();
    assert_eq!((told.software.as_str(), told.metrics_url.as_str()), ("vllm", server.url.as_str()));
    let (running, waiting) = (told.running.unwrap(), told.waiting.unwrap());
    assert_eq!((running.mean, running.max, waiting.mean, waiting.max), (3.0, 3.0, 1.0, 1.0));
    assert!(running.readings >= 1);
    assert_eq!(told.kv_cache_max_pct, Some(50.0));
    assert_eq!((told.prompt_tokens, told.generation_tokens), (Some(10), Some(2)));
    assert_eq!((told.preemptions, told.prefix_cache_hit_tokens), (None, None), "the server has no such metrics");
    // On a busy machine, a warning says that the client limited the load, and it names the server too.
    let mut others = run.summary.warnings.iter().filter(|warning| !warning.starts_with("the client limited the load"));
    assert!(!others.any(|warning| warning.contains("server")), "{:?}", run.summary.warnings);

    assert!(readings(&rig.folder(), "requests_running").iter().all(|&value| value == 3.0));
    assert!(readings(&rig.folder(), "kv_cache_use").iter().all(|&value| value == 50.0));
    let counted = readings(&rig.folder(), "generation_tokens");
    assert_eq!((counted.first(), counted.last()), (Some(&1000.0), Some(&1002.0)));
    let asked = server.asked.load(Ordering::SeqCst);
    assert_eq!(counted.len() as u64, asked - 1, "every scrape but the detection");
    let devices: Vec<String> = run.summary.energy.devices.iter().map(|device| device.device.to_string()).collect();
    assert_eq!(devices, ["cpu:0"], "a server has no energy");
}

#[tokio::test]
async fn warm_up_is_not_counted() {
    let (rig, server) = (Rig::new(), Server::start());
    let config = RunConfig { warmup: 3, ..server.config() };
    let run = closed(rig.run(config, Questions::new(4), server.client(2), blind()).await);
    assert_eq!(server.generated.load(Ordering::SeqCst), 1000 + 2 * 7);
    assert_eq!(run.summary.server.unwrap().generation_tokens, Some(8));
}

#[tokio::test]
async fn disagreeing_token_counts_give_a_warning() {
    let (rig, server) = (Rig::new(), Server::start());
    let run = closed(rig.run(server.config(), Questions::new(3), server.client(100), blind()).await);
    let told = "the server counted 300 generated tokens over the run, but the answers have 6";
    assert!(has_warning(&run, told), "{:?}", run.summary.warnings);
    let (rig, server) = (Rig::new(), Server::start());
    let generated = Arc::clone(&server.generated);
    let client = Scripted::new(move |index| {
        generated.fetch_add(100, Ordering::SeqCst);
        if index == 1 { vec![Step::Fail(FailureKind::MidStream, "cut")] } else { answer("10", 1) }
    });
    let run = closed(rig.run(server.config(), Questions::new(3), client, blind()).await);
    assert!(!has_warning(&run, "generated tokens over the run"), "tokens of a failed request are in no answer");
}

#[tokio::test]
async fn a_server_whose_metrics_fail_does_not_disturb_the_run() {
    let (rig, server) = (Rig::new(), Server::start());
    // Detection, the start, and the scrape before the first request.
    server.answers.store(3, Ordering::SeqCst);
    let run = closed(rig.run(server.config(), Questions::new(3), server.client(2), blind()).await);
    assert_eq!((run.summary.outcomes.completed, run.summary.complete), (3, true));
    let told = run.summary.server.as_ref().unwrap();
    assert_eq!(told.generation_tokens, None, "there is no reading after the requests");
    let warned = run.summary.warnings.iter().filter(|warning| warning.contains("cannot read server metrics"));
    assert_eq!(warned.count(), 1, "{:?}", run.summary.warnings);
}

#[tokio::test]
async fn configured_metrics_must_be_available() {
    let (rig, server) = (Rig::new(), Server::start());
    server.answers.store(0, Ordering::SeqCst);
    let client = server.client(2);
    let calls = client.calls();
    let error = rig.run(server.config(), Questions::new(3), client, blind()).await.unwrap_err();
    assert!(matches!(error, RunError::Metrics(_)), "{error}");
    let told = error.to_string();
    assert!(told.contains(&server.url) && error.hint().is_some(), "{told}");
    assert_eq!(calls.all(), [Call::Health, Call::Prepare, Call::Close]);
    assert_eq!(std::fs::read_dir(rig.runs()).unwrap().count(), 0, "no folder is left");
    let off = RunConfig { server_metrics: Some(String::from("off")), ..config() };
    let run = closed(rig.run(off, Questions::new(1), server.client(2), blind()).await);
    assert_eq!(run.summary.server, None);
}

#[tokio::test]
async fn sessions_are_added_up() {
    let (rig, server) = (Rig::new(), Server::start());
    let is_down = Arc::new(Mutex::new(true));
    let client = || {
        let (generated, is_down) = (Arc::clone(&server.generated), Arc::clone(&is_down));
        Scripted::new(move |index| {
            if index == 2 && *is_down.lock().unwrap() {
                return vec![Step::Fail(FailureKind::Rejected, "no")];
            }
            generated.fetch_add(2, Ordering::SeqCst);
            answer("10", 1)
        })
    };
    let once = RunConfig { max_failures: Some(1), ..server.config() };
    let first = closed(rig.run(once, Questions::new(5), client(), blind()).await);
    assert_eq!(first.summary.server.unwrap().generation_tokens, Some(4));
    // Tokens generated for others between two sessions do not count.
    server.generated.fetch_add(5000, Ordering::SeqCst);
    *is_down.lock().unwrap() = false;
    let run = closed(rig.resume(Questions::new(5), client(), blind()).await);
    assert_eq!((run.summary.sessions, run.summary.total_queries), (2, 5));
    assert_eq!(run.summary.server.as_ref().unwrap().generation_tokens, Some(8));
    assert!(!has_warning(&run, "generated tokens over the run"), "{:?}", run.summary.warnings);
}
