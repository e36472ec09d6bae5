//! Tests with servers that have metrics, servers that fail or hang, and other servers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use ergometer_diagnostics::CommandLine;
use ergometer_telemetry::{Batch, Clock, DeviceId, EventKind, Provenance, Sampler, Sensor, Signal};
use ergometer_units::Timestamp;

use super::scraper::Scrape;
use super::sensor::ServerSensor;
use super::*;

const VLLM: &str = "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_waiting 1\n\
    vllm:prompt_tokens_total 100\nvllm:generation_tokens_total 50\nvllm:kv_cache_usage_perc 0.5\n";

/// How a server responds to a request.
#[derive(Debug, Clone, Copy)]
enum Answer {
    Text(&'static str),
    Status(u16),
    /// Status 403 with this body.
    Refused(&'static str),
    /// Keeps the connection open and sends nothing.
    Hang,
}

/// A server of metrics that records its requests.
struct Server {
    address: String,
    answer: Arc<Mutex<Answer>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (answer, requests) = (Arc::new(Mutex::new(answer)), Arc::<Mutex<Vec<String>>>::default());
        let server = Self { address, answer: Arc::clone(&answer), requests: Arc::clone(&requests) };
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for mut stream in listener.incoming().flatten() {
                requests.lock().unwrap().push(head(&mut stream));
                let (status, text) = match *answer.lock().unwrap() {
                    Answer::Text(text) => (200, text),
                    Answer::Status(status) => (status, ""),
                    Answer::Refused(text) => (403, text),
                    Answer::Hang => {
                        held.push(stream);
                        continue;
                    }
                };
                let length = text.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{text}"
                );
            }
        });
        server
    }

    fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    fn asked(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    async fn find(&self) -> ServerMetrics {
        ServerMetrics::find(&ClientSpec::default(), None, Some(&self.url())).await.unwrap().unwrap()
    }
}

/// The head of a request.
fn head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count > 0) {
        head.extend(byte);
    }
    String::from_utf8_lossy(&head).to_lowercase()
}

/// An address without a server.
fn unused_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/metrics", listener.local_addr().unwrap())
}

#[tokio::test]
async fn readings_lie_between_the_request_and_the_end_of_the_response() {
    let server = Server::start(Answer::Text(VLLM));
    let found = server.find().await;
    assert_eq!((found.software(), found.url()), ("vLLM", server.url()));
    let clock = Arc::new(Clock::start());
    let before = clock.now();
    let (scraper, mut sensor) = found.start(&clock).await;
    scraper.now().await;
    let mut batch = Batch::default();
    sensor.sample(&clock, &mut batch).unwrap();
    assert!(batch.events.is_empty(), "{:?}", batch.events);
    let read: Vec<(Signal, f64)> =
        batch.readings.iter().map(|reading| (sensor.channels()[reading.channel].signal, reading.value)).collect();
    let expected = [
        (Signal::RequestsRunning, 3.0),
        (Signal::RequestsWaiting, 1.0),
        (Signal::PromptTokens, 100.0),
        (Signal::GenerationTokens, 50.0),
        (Signal::KvCacheUse, 50.0),
    ];
    assert_eq!(read, [expected, expected].concat(), "two reads");
    for reading in &batch.readings {
        assert!(before <= reading.after && reading.after < reading.at && reading.at <= clock.now());
    }
    let is_of_server = |channel: &ergometer_telemetry::Channel| {
        channel.device == DeviceId::server() && channel.provenance == Provenance::Gauge
    };
    assert!(sensor.channels().iter().all(is_of_server));
    assert_eq!((sensor.info().id.as_str(), sensor.info().name.as_str()), ("metrics:vllm", server.url().as_str()));
}

#[tokio::test]
async fn requested_metrics_that_cannot_be_read_are_an_error_with_a_hint() {
    let url = |answer| Server::start(answer).url();
    let cases = [
        (unused_address(), "no connection"),
        (url(Answer::Status(404)), "404"),
        (url(Answer::Text("")), "the response has no metrics"),
        (url(Answer::Text("<html>\n")), "line 1 is not a metric: `<html>`"),
        (url(Answer::Text("up 1\n")), "no metrics of vLLM"),
        (String::from("ftp://h/metrics"), "neither http nor https"),
        (String::from("http://me:hunter2@h/metrics"), "a user name or a password"),
        (String::from("http://"), "empty host"),
    ];
    for (address, expected) in cases {
        let error = ServerMetrics::find(&ClientSpec::default(), None, Some(&address)).await.unwrap_err();
        let error = error.one_line(&CommandLine);
        assert!(error.contains(expected) && error.matches("hint: ").count() == 1, "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn metrics_are_optional_unless_requested() {
    let (there, other) = (Server::start(Answer::Text(VLLM)), Server::start(Answer::Status(404)));
    let base = |address: &str| BaseUrl::parse(address).unwrap();
    let spec = ClientSpec::default();
    let at_server = base(&format!("{}/v1", there.address));
    assert!(ServerMetrics::find(&spec, Some(&at_server), Some("off")).await.unwrap().is_none());
    assert_eq!(there.asked(), 0, "`off` sends no request");
    let found = ServerMetrics::find(&spec, Some(&at_server), None).await.unwrap().unwrap();
    assert_eq!(found.url(), there.url());
    assert!(ServerMetrics::find(&spec, Some(&base(&other.address)), None).await.unwrap().is_none());
    assert!(ServerMetrics::find(&spec, Some(&base(&unused_address())), None).await.unwrap().is_none());
    assert!(ServerMetrics::find(&spec, None, None).await.unwrap().is_none(), "the embedded client has no server");
    let short = ServerMetrics::find(&spec, None, Some(&there.address)).await.unwrap().unwrap();
    assert_eq!(short.url(), there.url(), "the scheme and the path may be left out");
}

#[tokio::test]
async fn secrets_are_sent_only_to_their_server() {
    let (own, other) = (Server::start(Answer::Text(VLLM)), Server::start(Answer::Text(VLLM)));
    // PATH is set wherever tests run.
    let network = Network { api_key_env: Some(String::from("PATH")), ..Network::default() };
    let headers = vec![String::from("X-Api-Key: hunter2")];
    let spec = ClientSpec { headers, network, ..ClientSpec::default() };
    let base = BaseUrl::parse(&own.address).unwrap();
    for server in [&own, &other] {
        assert!(ServerMetrics::find(&spec, Some(&base), Some(&server.url())).await.unwrap().is_some());
    }
    let has_secrets = |server: &Server| {
        let request = server.requests.lock().unwrap().remove(0);
        (request.contains("x-api-key: hunter2"), request.contains("authorization: bearer"))
    };
    assert_eq!((has_secrets(&own), has_secrets(&other)), ((true, true), (false, false)));
}

#[tokio::test]
async fn errors_do_not_repeat_secrets() {
    const KEY: &str = "sk-0123456789abcdef";
    let headers = vec![format!("Authorization: Token {KEY}")];
    let spec = ClientSpec { headers, ..ClientSpec::default() };
    let answers = [
        Answer::Text("up 1\nkey sk-0123456789abcdef\n"),
        // Errors show 40 characters of a line.
        Answer::Text("a_name_of_thirty_three_characters sk-0123456789abcdef\n"),
        Answer::Refused("no access with sk-0123456789abcdef"),
    ];
    for answer in answers {
        let server = Server::start(answer);
        let base = BaseUrl::parse(&server.address).unwrap();
        let error = ServerMetrics::find(&spec, Some(&base), Some(&server.url())).await.unwrap_err();
        let error = error.one_line(&CommandLine);
        assert!(error.contains("<redacted>") && !error.contains("sk-0"), "{error}");
        let server = Server::start(Answer::Text(VLLM));
        let base = BaseUrl::parse(&server.address).unwrap();
        let found = ServerMetrics::find(&spec, Some(&base), Some(&server.url())).await.unwrap().unwrap();
        *server.answer.lock().unwrap() = answer;
        let error = found.ask(Duration::from_secs(5)).await.unwrap_err();
        assert!(error.text.contains("<redacted>") && !error.text.contains("sk-0"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_does_not_block_the_sampler() {
    let server = Server::start(Answer::Text(VLLM));
    let found = server.find().await;
    let clock = Arc::new(Clock::start());
    let (scraper, sensor) = found.start(&clock).await;
    let sampler = Sampler::start(vec![Box::new(sensor)], clock, None);
    *server.answer.lock().unwrap() = Answer::Hang;
    scraper.now().await;
    let timeline = sampler.stop();
    assert_eq!(timeline.len(), 5, "earlier readings are kept");
    assert!(timeline.events().is_empty(), "{:?}", timeline.events());
}

/// A sensor, and the sender of its scrapes.
async fn sensor_with_sender() -> (ServerSensor, Sender<Scrape>) {
    let found = Server::start(Answer::Text(VLLM)).find().await;
    let (sender, receiver): (_, Receiver<Scrape>) = channel();
    (ServerSensor::new(&found, receiver), sender)
}

fn scrape(at: i64, values: Result<Vec<Option<f64>>, Message>) -> Scrape {
    let time = Timestamp::from_nanos_since_epoch;
    Scrape { after: time(at - 1), at: time(at), values }
}

#[tokio::test]
async fn failures_are_reported_once_and_counted() {
    let (mut sensor, sender) = sensor_with_sender().await;
    let clock = Clock::start();
    let mut batch = Batch::default();
    for at in [10, 20, 30] {
        sender.send(scrape(at, Err(Message::new("no connection").with_hint(Hint::text("none"))))).unwrap();
        sensor.sample(&clock, &mut batch).unwrap();
    }
    sender.send(scrape(40, Ok(vec![Some(7.0), None, Some(9.0)]))).unwrap();
    sender.send(scrape(50, Err(Message::new("something else")))).unwrap();
    sensor.sample(&clock, &mut batch).unwrap();
    assert_eq!(batch.events.len(), 1, "{:?}", batch.events);
    assert_eq!((batch.events[0].kind, batch.events[0].at_ns), (EventKind::ScrapeFailed, 10));
    assert!(batch.events[0].message.contains("no connection; the run went on"), "{:?}", batch.events);
    let read: Vec<(usize, i64, f64)> =
        batch.readings.iter().map(|reading| (reading.channel, reading.at.nanos_since_epoch(), reading.value)).collect();
    assert_eq!(read, [(0, 40, 7.0), (2, 40, 9.0)], "a missing metric has no reading");
    sensor.sample_last(&clock, &mut batch).unwrap();
    assert_eq!(batch.events.len(), 2);
    assert!(batch.events[1].message.contains("4 of 5 reads"));
}

#[tokio::test]
async fn a_sensor_without_a_scraper_has_no_readings_and_no_events() {
    let (mut sensor, sender) = sensor_with_sender().await;
    drop(sender);
    let mut batch = Batch::default();
    sensor.sample(&Clock::start(), &mut batch).unwrap();
    sensor.sample_last(&Clock::start(), &mut batch).unwrap();
    assert!(batch.readings.is_empty() && batch.events.is_empty());
}
