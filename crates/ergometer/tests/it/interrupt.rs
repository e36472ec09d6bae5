//! The user stops a run: the measurements are kept, and resuming completes the run.

use std::sync::Arc;

use ergometer::run::{FinishedRun, PreparedRun, RunError, Target};
use ergometer_clients::Outcome;
use ergometer_runs::Closing;
use ergometer_runs::config::{RunConfig, Schedule};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::client::{Calls, Scripted, Step, answer};
use crate::dataset::Questions;
use crate::rig::{NoObserver, Rig, closed, config, has_warning};
use crate::sensors::{blind, whole};
use crate::table::Table;

/// Starts a run of ten queries.
fn start(
    rig: &Rig,
    config: RunConfig,
    size: u64,
    client: Scripted,
) -> (Calls, watch::Sender<bool>, JoinHandle<Result<FinishedRun, RunError>>) {
    let (calls, (sender, stop), folder) = (client.calls(), watch::channel(false), rig.folder());
    let run = tokio::spawn(async move {
        let prepared = PreparedRun::with(config, Box::new(Questions::new(size)), Box::new(client), whole()).await?;
        prepared.run(Target::New(folder), stop, Arc::new(NoObserver)).await
    });
    (calls, sender, run)
}

#[tokio::test]
async fn an_interrupted_run_is_kept_and_resuming_completes_it() {
    let rig = Rig::new();
    // The fifth request hangs after half of its answer; the sixth takes a while and may complete.
    let client = Scripted::new(|index| match index {
        4 => vec![Step::Say("1"), Step::Hang],
        5 => answer("15", 100),
        _ => answer("10", 5),
    });
    let two = RunConfig { schedule: Schedule::Concurrency { concurrency: 2 }, ..config() };
    let (calls, sender, run) = start(&rig, two, 10, client);
    calls.sent_are(6).await;
    sender.send(true).unwrap();
    let finished = run.await.unwrap();
    assert_eq!(finished.as_ref().unwrap().closing, Closing::Interrupted);
    let run = closed(finished);
    assert_eq!((calls.sent().len(), calls.closings()), (6, 1), "no further requests are sent");
    let summary = &run.summary;
    assert_eq!((summary.total_queries, summary.complete, summary.closing), (5, false, Some(Closing::Interrupted)));
    assert_eq!(
        (summary.outcomes.completed, summary.outcomes.cancelled),
        (5, 1),
        "the sixth completed within the grace period"
    );
    assert!(has_warning(&run, "it was interrupted"), "{:?}", summary.warnings);
    assert_eq!(Table::read(&rig.folder()).queries(), [0, 1, 2, 3, 5]);
    let (events, exchanges) = rig.exchanges(0);
    assert_eq!(events.closed, Some(Closing::Interrupted));
    let cancelled = exchanges.iter().find(|exchange| exchange.query.index == 4).unwrap();
    assert_eq!((&cancelled.outcome, cancelled.transcript.text.as_str()), (&Outcome::Cancelled, "1"));

    let client = Scripted::new(|_| answer("10", 1));
    let calls = client.calls();
    let run = closed(rig.resume(Questions::new(10), client, whole()).await);
    let mut sent = calls.sent();
    sent.sort_unstable();
    assert_eq!(sent, [4, 6, 7, 8, 9]);
    let summary = &run.summary;
    assert_eq!((summary.total_queries, summary.complete, summary.sessions), (10, true, 2));
    let table = Table::read(&rig.folder());
    assert_eq!(table.queries(), (0..10).collect::<Vec<_>>());
    assert!(
        table.floats("ergometer/energy/measured/gross/joules").iter().all(Option::is_some),
        "records of both sessions have energy"
    );
    let attempts = table.integers("ergometer/attempts");
    assert_eq!(
        (attempts[4], attempts[5], attempts[9]),
        (Some(2), Some(1), Some(1)),
        "the cancelled query has a second attempt"
    );
    let mut requests: Vec<_> = table.integers("ergometer/request");
    requests.sort_unstable();
    requests.dedup();
    assert_eq!(requests.len(), 10, "request numbers are unique");
}

/// All queries had been handed out when the user stopped the run, and those in flight were cancelled: it is not
/// complete.
#[tokio::test]
async fn a_run_stopped_with_its_last_requests_in_flight_is_not_finished() {
    let rig = Rig::new();
    let client = Scripted::new(|index| if index == 2 { vec![Step::Hang] } else { answer("10", 5) });
    let (calls, sender, run) = start(&rig, config(), 3, client);
    calls.sent_are(3).await;
    sender.send(true).unwrap();
    let finished = run.await.unwrap();
    assert_eq!(finished.as_ref().unwrap().closing, Closing::Interrupted);
    let run = closed(finished);
    assert_eq!((run.summary.total_queries, run.summary.complete), (2, false));
    let client = Scripted::new(|_| answer("10", 1));
    let calls = client.calls();
    let run = closed(rig.resume(Questions::new(3), client, whole()).await);
    assert_eq!((calls.sent(), run.summary.complete, run.summary.total_queries), (vec![2], true, 3));
}

/// The user stops the run during the idle measurement after the last request: all records are there.
#[tokio::test]
async fn a_run_stopped_after_its_last_request_is_finished() {
    let rig = Rig::new();
    let long = RunConfig { idle_s: 0.1, ..config() };
    let (calls, sender, run) = start(&rig, long, 2, Scripted::new(|_| answer("10", 5)));
    calls.sent_are(2).await;
    while rig.exchanges(0).1.len() < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    sender.send(true).unwrap();
    let finished = run.await.unwrap();
    assert_eq!(finished.as_ref().unwrap().closing, Closing::Finished);
    let run = closed(finished);
    assert!(
        run.summary.complete && run.summary.energy.measured.unwrap().net_j.is_some(),
        "one idle measurement is enough"
    );
}

/// A run killed before its first record, then resumed and stopped before its first record, can be resumed again.
#[tokio::test]
async fn a_resumed_run_stopped_before_its_first_record_is_interrupted_and_kept() {
    let rig = Rig::new();
    closed(rig.run(config(), Questions::new(2), Scripted::new(|_| answer("10", 1)), blind()).await);
    std::fs::write(rig.journal().events_path(0), b"").unwrap();
    let client = Scripted::new(|_| vec![Step::Hang]);
    let (calls, (sender, stop)) = (client.calls(), watch::channel(false));
    let folder = rig.folder();
    let prepared = PreparedRun::resume_with(&folder, Box::new(Questions::new(2)), Box::new(client), blind());
    let prepared = prepared.await.unwrap();
    let run = tokio::spawn(prepared.run(Target::Resume(rig.folder()), stop, Arc::new(NoObserver)));
    calls.sent_are(1).await;
    sender.send(true).unwrap();
    let finished = run.await.unwrap().unwrap();
    assert!(finished.closing == Closing::Interrupted && finished.closed.is_none(), "{finished:?}");
    let run = closed(rig.resume(Questions::new(2), Scripted::new(|_| answer("10", 1)), blind()).await);
    assert_eq!((run.summary.complete, run.summary.sessions), (true, 3));
    assert_eq!(Table::read(&rig.folder()).queries(), [0, 1]);
}
