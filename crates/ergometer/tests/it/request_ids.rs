//! The request ids of a run: sent to the server, and stored in the journal and in `requests.parquet`.

use std::sync::Arc;

use ergometer::run::{PreparedRun, Target};
use ergometer_mock_server::{Fault, FaultRate, MockServer, RunningServer, Script};
use ergometer_runs::config::{Retries, RunConfig};
use ergometer_runs::saved::Attempt;
use tokio::sync::watch;

use crate::client::{Scripted, answer};
use crate::dataset::Questions;
use crate::rig::{NoObserver, Rig, closed, config};
use crate::sensors::blind;

fn talking_to(server: &RunningServer) -> RunConfig {
    let mut config = config();
    config.client.id = String::from("openai");
    config.client.model = String::from("mock");
    config.client.base_url = Some(server.base_url());
    config
}

/// The request numbers and ids in `requests.parquet`.
fn stored(rig: &Rig) -> Vec<(u64, Option<String>)> {
    let mut stored = Vec::new();
    Attempt::each(&rig.folder(), |attempt, _| stored.push((attempt.request, attempt.request_id))).unwrap();
    stored
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_attempt_has_its_own_id_and_a_resumed_run_keeps_its_own() {
    let faults = vec![FaultRate { fault: Fault::Truncated, rate: 0.5 }];
    let server = MockServer::start(Script { faults, ..Script::instant() }).await.unwrap();
    let rig = Rig::new();
    let retries = Retries { most: 1, backoff_s: 0.001 };
    let config = RunConfig { warmup: 2, retries, max_failures: Some(1), ..talking_to(&server) };
    let spec = config.client.clone();
    closed(rig.run_client(config, Questions::new(12)).await);
    let (first, run) = (stored(&rig), rig.journal().manifest().unwrap().run_id());

    let client = ergometer_clients::open(&spec).unwrap();
    let resumed = PreparedRun::resume_with(&rig.folder(), Box::new(Questions::new(12)), client, blind()).await.unwrap();
    let (_sender, stop) = watch::channel(false);
    closed(resumed.run(Target::Resume(rig.folder()), stop, Arc::new(NoObserver)).await);

    let all = stored(&rig);
    assert!(all.len() > first.len() && first.len() > 2, "{first:?}, then {all:?}");
    assert!((0..).zip(&all).all(|(number, (request, id))| *request == number && *id == Some(run.request(number))));
    let journal: Vec<_> = [0, 1].into_iter().flat_map(|session| rig.exchanges(session).1).collect();
    assert!(journal.iter().any(|exchange| exchange.attempt == 2), "some requests were retried");
    assert!(journal.iter().all(|exchange| exchange.transcript.request_id == Some(run.request(exchange.request))));
    let mut sent: Vec<String> = server.stop().await.requests.into_iter().map(|request| request.id).collect();
    let mut expected: Vec<String> = all.into_iter().filter_map(|(_, id)| id).collect();
    expected.extend([0, 1, 0, 1].map(|number| run.warmup(number)));
    sent.sort();
    expected.sort();
    assert_eq!(sent, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_id_of_the_user_is_sent_instead_and_nothing_is_stored() {
    let server = MockServer::start(Script::instant()).await.unwrap();
    let rig = Rig::new();
    let mut config = RunConfig { warmup: 1, ..talking_to(&server) };
    config.client.headers = vec![String::from("X-REQUEST-ID: mine")];
    closed(rig.run_client(config, Questions::new(2)).await);
    assert_eq!(stored(&rig), [(0, None), (1, None)]);
    let ids: Vec<String> = server.stop().await.requests.into_iter().map(|request| request.id).collect();
    assert_eq!(ids, ["mine"; 3]);
}

#[tokio::test]
async fn a_client_that_sends_no_id_stores_none() {
    let rig = Rig::new();
    closed(rig.run(config(), Questions::new(2), Scripted::new(|_| answer("10", 1)), blind()).await);
    assert_eq!(stored(&rig), [(0, None), (1, None)]);
}
