//! Calibration: requests at 1 and 4 in flight before a run under load, which are no records.

use std::sync::Arc;

use ergometer::journal::JournalFolder;
use ergometer::run::{PreparedRun, Sensing, Target};
use ergometer_attribution::Calibration;
use ergometer_clients::{FailureKind, Locality, Outcome};
use ergometer_runs::config::{Arrivals, CountedDevices, RunConfig, Schedule};
use ergometer_runs::{Closing, Exchange};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::client::{Scripted, Step, answer};
use crate::dataset::Questions;
use crate::rig::{NoObserver, Rig, assert_near, closed, config};
use crate::sensors::{cpu, machine, slow_gpu, whole};
use crate::table::Table;

/// A short calibration before a run at 8 in flight.
fn loaded() -> RunConfig {
    RunConfig { schedule: Schedule::Concurrency { concurrency: 8 }, idle_s: 0.1, calibrate_s: 0.4, ..config() }
}

fn quick() -> Scripted {
    Scripted::new(|_| answer("10", 10))
}

/// How many of the exchanges were in flight when this one was sent.
fn in_flight(exchange: &Exchange, all: &[Exchange]) -> usize {
    all.iter().filter(|other| other.sent <= exchange.sent && exchange.sent < other.end).count()
}

#[tokio::test]
async fn a_run_under_load_is_calibrated_at_1_and_4_in_flight() {
    let rig = Rig::new();
    let run = closed(rig.run(loaded(), Questions::new(24), quick(), whole()).await);
    let (events, exchanges) = rig.exchanges(0);
    let calibration = &events.calibration;
    let loads: Vec<usize> = calibration.iter().map(|exchange| in_flight(exchange, calibration)).collect();
    let first = calibration.iter().find(|exchange| exchange.request == 0).unwrap();
    assert_eq!(in_flight(first, calibration), 1);
    assert_eq!(loads.iter().max(), Some(&4), "{loads:?}");
    let start = exchanges.iter().map(|exchange| exchange.sent).min().unwrap();
    assert!(calibration.iter().all(|exchange| exchange.end < start), "before the first request");
    assert!(calibration.iter().all(|exchange| exchange.outcome == Outcome::Completed));

    let summary = &run.summary;
    assert_eq!((summary.total_queries, summary.outcomes.completed, summary.complete), (24, 24, true));
    assert_eq!(Table::read(&rig.folder()).queries(), (0..24).collect::<Vec<_>>());
    assert_eq!((exchanges.len(), events.next_request), (24, 24));
    let balance = summary.energy.measured.as_ref().unwrap().balance;
    assert_near(balance.requests_j + balance.idle_j + balance.unattributed_j, balance.meter_j, 1e-9);
    let between = (exchanges.iter().map(|exchange| exchange.end).max().unwrap() - start).get();
    assert_near(balance.meter_j, crate::sensors::GPU_W * between, 0.05);
}

#[tokio::test]
async fn only_measured_servers_under_load_are_calibrated() {
    let calibration = async |config: RunConfig, client: Scripted, sensing: Sensing| {
        let prepared = PreparedRun::with(config, Box::new(Questions::new(9)), Box::new(client), sensing).await.unwrap();
        prepared.calibration().map(|length| length.as_secs_f64())
    };
    let open = |max_in_flight| {
        let schedule = Schedule::Rate { rate: 9.0, arrivals: Arrivals::Poisson };
        RunConfig { schedule, max_in_flight, ..loaded() }
    };
    for config in [loaded(), open(None), open(Some(8))] {
        assert_eq!(calibration(config.clone(), quick(), whole()).await, Some(0.4), "{config:?}");
    }
    let mut embedded = loaded();
    embedded.client.id = String::from("embedded");
    let without = [
        open(Some(7)),
        embedded,
        RunConfig { schedule: Schedule::Concurrency { concurrency: 7 }, ..loaded() },
        RunConfig { calibrate_s: 0.0, ..loaded() },
        RunConfig { idle_s: 0.0, ..loaded() },
        RunConfig { devices: CountedDevices::parse(&[String::from("cpu")]).unwrap(), ..loaded() },
    ];
    for config in without {
        assert_eq!(calibration(config.clone(), quick(), whole()).await, None, "{config:?}");
    }
    assert_eq!(calibration(loaded(), quick(), machine(vec![cpu()])).await, None, "modelled only");
    let elsewhere = Locality::Elsewhere { host: String::from("far.example") };
    assert_eq!(calibration(loaded(), Scripted { place: elsewhere, ..quick() }, whole()).await, None);
}

#[tokio::test]
async fn a_run_stopped_during_its_calibration_leaves_nothing() {
    let rig = Rig::new();
    let client = Scripted::new(|_| vec![Step::Say("1"), Step::Hang]);
    let (calls, (sender, stop)) = (client.calls(), watch::channel(false));
    let config = RunConfig { calibrate_s: 600.0, ..loaded() };
    let prepared = PreparedRun::with(config, Box::new(Questions::new(9)), Box::new(client), whole()).await.unwrap();
    let run = tokio::spawn(prepared.run(Target::New(rig.folder()), stop, Arc::new(NoObserver)));
    calls.sent_are(1).await;
    sender.send(true).unwrap();
    let finished = run.await.unwrap().unwrap();
    assert_eq!((finished.closing, finished.folder, calls.sent().len()), (Closing::Interrupted, None, 1));
    assert!(finished.failure.is_none() && finished.closed.is_none());
    assert_eq!(std::fs::read_dir(rig.runs()).unwrap().count(), 0);
}

/// Requests that take longer than the calibration are cancelled, and what arrived is kept. Failures do not end the run,
/// and a resumed run is not calibrated again.
#[tokio::test]
async fn a_calibrated_run_is_resumed_without_another_calibration() {
    let rig = Rig::new();
    let client = Scripted::new(|index| match index {
        // Beyond the queries of the run.
        index if index >= 20 && index.is_multiple_of(2) => vec![Step::Say("1"), Step::Hang],
        index if index >= 20 || index == 3 => vec![Step::Fail(FailureKind::MidStream, "gone")],
        _ => answer("10", 10),
    });
    let config = RunConfig { max_queries: Some(20), max_failures: Some(1), ..loaded() };
    let finished = rig.run(config, Questions::new(60), client, machine(vec![slow_gpu()])).await;
    assert_eq!(finished.as_ref().unwrap().closing, Closing::TooManyFailures);
    closed(finished);
    let calibration = rig.exchanges(0).0.calibration;
    assert!(calibration.iter().all(|exchange| exchange.query.index >= 20));
    let mut cancelled = calibration.iter().filter(|exchange| exchange.outcome == Outcome::Cancelled).peekable();
    assert!(cancelled.peek().is_some() && cancelled.all(|exchange| exchange.transcript.text == "1"));

    let run = closed(rig.resume(Questions::new(60), quick(), machine(vec![slow_gpu()])).await);
    assert_eq!((run.summary.total_queries, run.summary.complete), (20, true));
    assert!(rig.exchanges(1).0.calibration.is_empty());
}

/// Makes a run with this name, and returns the queries it sent and its calibration requests.
async fn sent_by(rig: &Rig, name: &str, dataset: Questions) -> (usize, usize) {
    let (client, folder) = (quick(), rig.runs().join(name));
    let (calls, (_sender, stop)) = (client.calls(), watch::channel(false));
    let config = RunConfig { calibrate_s: 1.0, ..loaded() };
    let sensing = machine(vec![slow_gpu()]);
    let prepared = PreparedRun::with(config, Box::new(dataset), Box::new(client), sensing).await.unwrap();
    closed(prepared.run(Target::New(folder.clone()), stop, Arc::new(NoObserver)).await);
    let events = JournalFolder::of_run(&folder).events(0).unwrap();
    (calls.sent().len(), events.calibration.len())
}

#[tokio::test]
async fn the_calibration_of_an_earlier_run_is_reused() {
    let rig = Rig::new();
    let (sent, calibration) = sent_by(&rig, "first", Questions::new(40)).await;
    assert!(calibration > 4 && sent == 40 + calibration, "{sent} {calibration}");
    assert_eq!(sent_by(&rig, "second", Questions::new(40)).await, (40, 0));
    let second = rig.runs().join("second");
    let read = |name: &str| {
        let path = JournalFolder::of_run(&rig.runs().join(name)).calibration_path();
        Calibration::read(&path).unwrap().unwrap()
    };
    let (own, copy) = (read("first"), read("second"));
    assert_eq!((own.run.as_deref(), copy.run.as_deref()), (None, Some("first")));
    let mut unnamed = copy.clone();
    unnamed.run = None;
    assert_eq!(unnamed, own);

    // The copy outlives the run it comes from, and a copy can be copied. The scripted GPU has a constant power, so the
    // calibration gets other observations, of a server whose steps cost energy.
    std::fs::remove_dir_all(rig.runs().join("first")).unwrap();
    let path = JournalFolder::of_run(&second).calibration_path();
    let mut file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let observation = |number: i32| {
        let [steps, sequences] = [f64::from(20 + number % 7), f64::from(20 + number % 11)];
        json!([[30.0, 3.0, steps, sequences, 200.0, 0.0], 100.0 + 9.0 * steps + 2.0 * sequences])
    };
    file["scopes"][0]["observations"] = (0..90).map(observation).collect();
    std::fs::write(&path, file.to_string()).unwrap();
    let again = ergometer::close::close(&second).unwrap();
    let model = again.summary.attribution.unwrap().cost_model.unwrap();
    assert_eq!(model.calibration_s, own.seconds);
    assert_eq!(sent_by(&rig, "third", Questions::new(40)).await, (40, 0));
    assert_eq!(read("third"), read("second"));

    // Several copies of one calibration count once.
    let folders = ["second", "third"].map(|name| rig.runs().join(name));
    let together = ergometer::close::attribute(&folders, None).unwrap();
    for run in together {
        assert_eq!(run.summary.attribution.unwrap().cost_model.unwrap().calibration_s, own.seconds);
    }
    // A run of a sweep also reuses those beside the sweep.
    let sweep = rig.runs().join("sweep_x");
    std::fs::create_dir(&sweep).unwrap();
    std::fs::write(sweep.join("sweep.json"), "{}").unwrap();
    assert_eq!(sent_by(&rig, "sweep_x/concurrency_8", Questions::new(40)).await, (40, 0));
    std::fs::remove_dir_all(&sweep).unwrap();
    assert!(sent_by(&rig, "other", Questions::new(41)).await.1 > 0, "another dataset");
    let mut old = own;
    old.measured_ns -= 25 * 3_600_000_000_000;
    for name in ["second", "third"] {
        old.write(&JournalFolder::of_run(&rig.runs().join(name)).calibration_path()).unwrap();
    }
    assert!(sent_by(&rig, "later", Questions::new(40)).await.1 > 0, "more than a day later");
}
