//! The fault matrix: every fault of a server is counted as the right kind of failure, and no run aborts or hangs.

use std::collections::BTreeMap;
use std::time::Duration;

use ergometer::run::{PreparedRun, RunError};
use ergometer_clients::{FailureKind, Outcome};
use ergometer_mock_server::{Fault, FaultRate, MockServer, RunningServer, Script, StreamEnd, UsagePosition};
use ergometer_runs::Closing;
use ergometer_runs::config::{Retries, RunConfig, Schedule};

use crate::dataset::Questions;
use crate::rig::{Rig, closed, config, has_warning};
use crate::sensors::blind;

/// Longer than any run here; ends runs that hang.
const WATCHDOG: Duration = Duration::from_secs(60);

async fn server(script: Script) -> RunningServer {
    MockServer::start(script).await.unwrap()
}

fn with(faults: &[(Fault, f64)]) -> Script {
    let faults = faults.iter().map(|&(fault, rate)| FaultRate { fault, rate }).collect();
    Script { faults, ..Script::instant() }
}

/// The configuration of a client of this server, with short timeouts for faults that hang.
fn talking_to(server: &RunningServer, client: &str) -> RunConfig {
    let mut config = config();
    client.clone_into(&mut config.client.id);
    config.client.model = String::from("mock");
    config.client.base_url = Some(server.base_url());
    config
}

fn impatient(mut config: RunConfig) -> RunConfig {
    config.client.network.timeouts.first_token_s = 0.25;
    config.client.network.timeouts.between_tokens_s = 0.25;
    config
}

/// The failure kind of each fault; `None` if the request succeeds.
fn expected(fault: Fault) -> Option<FailureKind> {
    Some(match fault {
        Fault::Refuse => FailureKind::Connect,
        Fault::Hang => FailureKind::TimeoutFirstToken,
        Fault::HangStream => FailureKind::TimeoutBetweenTokens,
        Fault::Reset => FailureKind::Disconnected,
        Fault::ResetStream | Fault::Truncated => FailureKind::Truncated,
        Fault::TooManyRequests => FailureKind::HttpStatus(429),
        Fault::ServerError => FailureKind::HttpStatus(500),
        Fault::Unavailable => FailureKind::HttpStatus(503),
        Fault::BadSse | Fault::Compressed => FailureKind::Malformed,
        Fault::ErrorStream => FailureKind::MidStream,
        Fault::Empty => FailureKind::Empty,
        Fault::Slow | Fault::NoUsage | Fault::NoDone => return None,
        other => panic!("{other} is not in the matrix"),
    })
}

/// Makes a run for every fault, with the fault on every request.
async fn matrix(client: &str) {
    for fault in Fault::ALL.into_iter().filter(|fault| *fault != Fault::Refuse) {
        let server = server(with(&[(fault, 1.0)])).await;
        let rig = Rig::new();
        let config = talking_to(&server, client);
        let hangs = matches!(fault, Fault::Hang | Fault::HangStream);
        let run = rig.run_client(if hangs { impatient(config) } else { config }, Questions::new(3));
        let run = tokio::time::timeout(WATCHDOG, run).await.unwrap_or_else(|_| panic!("{client}: {fault} hangs"));
        assert_eq!(run.as_ref().unwrap().closing, Closing::Finished, "{client}: {fault}");
        let run = closed(run);
        // [DONE] is optional for OpenAI's protocol; the line with `done` is the only end of Ollama's.
        let is_end = client == "ollama" && fault == Fault::NoDone;
        let kind = if is_end { Some(FailureKind::Truncated) } else { expected(fault) };
        let failed: Vec<_> = run.summary.outcomes.failed.iter().map(|(kind, count)| (*kind, *count)).collect();
        assert!(run.summary.outcomes.retried.is_empty(), "{client}: {fault}");
        assert_eq!(failed, kind.map(|kind| (kind, 3)).into_iter().collect::<Vec<_>>(), "{client}: {fault}");
        assert_eq!(run.summary.outcomes.completed, if kind.is_none() { 3 } else { 0 }, "{client}: {fault}");
        // The chunks before the fault are kept.
        let partial = matches!(fault, Fault::HangStream | Fault::ResetStream | Fault::Truncated | Fault::ErrorStream);
        for exchange in rig.exchanges(0).1 {
            assert!(!partial || !exchange.transcript.text.is_empty(), "{client}: {fault} lost the partial answer");
        }
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_of_an_openai_server_is_counted_as_its_kind() {
    matrix("openai").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_of_an_ollama_server_is_counted_as_its_kind() {
    matrix("ollama").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_server_is_an_error_before_the_run_and_a_failure_in_it() {
    let server = server(Script::instant()).await;
    let config = talking_to(&server, "openai");
    let client = ergometer_clients::open(&config.client).unwrap();
    let prepared = PreparedRun::with(config.clone(), Box::new(Questions::new(3)), client, blind()).await.unwrap();
    server.stop().await;
    let rig = Rig::new();
    let run = closed(rig.run_prepared(prepared).await);
    assert_eq!(run.summary.outcomes.failed, BTreeMap::from([(FailureKind::Connect, 3)]));
    let error = Rig::new().run_client(config, Questions::new(3)).await.unwrap_err();
    assert!(matches!(error, RunError::Client(_)) && error.to_string().contains("connection refused"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_faults_are_counted_by_kind() {
    let kinds = [
        Fault::Reset,
        Fault::TooManyRequests,
        Fault::ServerError,
        Fault::BadSse,
        Fault::ErrorStream,
        Fault::Truncated,
        Fault::Empty,
        Fault::NoUsage,
        Fault::NoDone,
    ];
    let rates: Vec<_> = kinds.iter().map(|&fault| (fault, 0.08)).collect();
    let server = server(with(&rates)).await;
    let rig = Rig::new();
    let config = RunConfig { schedule: Schedule::Concurrency { concurrency: 8 }, ..talking_to(&server, "openai") };
    let run = tokio::time::timeout(WATCHDOG, rig.run_client(config, Questions::new(150))).await.unwrap();
    let run = closed(run);
    let mut truth: BTreeMap<FailureKind, u64> = BTreeMap::new();
    for request in server.stop().await.requests {
        if let Some(kind) = request.fault.and_then(expected) {
            *truth.entry(kind).or_default() += 1;
        }
    }
    assert!(truth.len() >= 6, "{truth:?}");
    // A request lost on a reused connection is retried at once and counted as retried.
    let mut counted = run.summary.outcomes.failed.clone();
    for (kind, count) in &run.summary.outcomes.retried {
        assert!(*kind == FailureKind::Disconnected && *count <= 8, "{kind}: {count}");
        *counted.entry(*kind).or_default() += count;
    }
    assert_eq!(counted, truth);
    let failed: u64 = run.summary.outcomes.failed.values().sum();
    assert_eq!(run.summary.outcomes.completed + failed, 150);
    // If a server sends no usage, its tokenizer counts after the run.
    assert!(!has_warning(&run, "are unknown"), "{:?}", run.summary.warnings);
    assert_eq!(run.summary.tokens.source.as_deref(), Some("mixed"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_attempts_are_stored_and_the_last_is_the_record() {
    let server = server(Script { retry_after: Duration::ZERO, ..with(&[(Fault::TooManyRequests, 0.5)]) }).await;
    let rig = Rig::new();
    let retries = Retries { most: 20, backoff_s: 0.001 };
    let run = closed(rig.run_client(RunConfig { retries, ..talking_to(&server, "openai") }, Questions::new(20)).await);
    let truth = server.stop().await;
    let faults = truth.requests.iter().filter(|request| request.fault.is_some()).count() as u64;
    assert!(faults > 3);
    assert_eq!(run.summary.outcomes.completed, 20);
    assert_eq!(run.summary.outcomes.retried, BTreeMap::from([(FailureKind::HttpStatus(429), faults)]));
    let (_, exchanges) = rig.exchanges(0);
    assert_eq!(exchanges.len() as u64, 20 + faults);
    for query in 0..20 {
        let of_query: Vec<_> = exchanges.iter().filter(|exchange| exchange.query.index == query).collect();
        let attempts: Vec<u32> = of_query.iter().map(|exchange| exchange.attempt).collect();
        assert!(attempts.iter().copied().eq(1..=u32::try_from(attempts.len()).unwrap()), "{attempts:?}");
        let (last, before) = of_query.split_last().unwrap();
        assert!(last.outcome == Outcome::Completed && !last.is_retried);
        assert!(before.iter().all(|exchange| exchange.is_retried && exchange.end <= last.sent));
    }
    // Permanent failures are not retried.
    let server = self::server(with(&[(Fault::BadSse, 1.0)])).await;
    let rig = Rig::new();
    let run = closed(rig.run_client(RunConfig { retries, ..talking_to(&server, "openai") }, Questions::new(2)).await);
    assert_eq!((run.summary.outcomes.retried.len(), server.stop().await.requests.len()), (0, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_transcript_matches_what_the_server_sent() {
    let script = Script {
        reasoning: 3,
        tokens_per_chunk: 2,
        usage: UsagePosition::Last,
        end: StreamEnd::Bare,
        ..Script::instant()
    };
    let server = server(script).await;
    let rig = Rig::new();
    let mut config = talking_to(&server, "openai");
    config.request.max_tokens = Some(12);
    let run = closed(
        rig.run_client(RunConfig { schedule: Schedule::Concurrency { concurrency: 4 }, ..config }, Questions::new(12))
            .await,
    );
    assert_eq!(run.summary.outcomes.completed, 12, "{:?}", run.summary.warnings);
    let truth = server.stop().await;
    let (_, exchanges) = rig.exchanges(0);
    for exchange in &exchanges {
        let transcript = &exchange.transcript;
        let id = transcript.request_id.as_ref().unwrap();
        let sent = truth.requests.iter().find(|request| request.id == *id).unwrap();
        let usage = transcript.usage.unwrap();
        assert_eq!((usage.output, usage.input), (sent.tokens, sent.prompt_tokens));
        assert_eq!(transcript.chunks.len(), sent.sent_ns.len(), "chunks do not depend on how reads are split");
        assert_eq!(transcript.reasoning.split_whitespace().count(), 3);
        let times: Vec<i64> = transcript.chunks.iter().map(|chunk| chunk.at.nanos_since_epoch()).collect();
        assert!(times.is_sorted() && exchange.sent.nanos_since_epoch() <= times[0]);
    }
}
