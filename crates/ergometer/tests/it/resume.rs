//! When a run can be resumed.

use std::fs;

use ergometer::close;
use ergometer::journal::{JournalError, JournalFolder};
use ergometer::run::RunError;
use ergometer_clients::{FailureKind, ModelFacts};
use ergometer_diagnostics::Diagnostic;
use ergometer_runs::Closing;
use ergometer_runs::config::RunConfig;

use crate::client::{Call, Scripted, Step, answer};
use crate::dataset::Questions;
use crate::rig::{Rig, closed, config};
use crate::sensors::{blind, whole};
use crate::table::Table;

fn ready() -> Scripted {
    Scripted::new(|_| answer("10", 1))
}

/// A run that stopped at its first failure, the second query.
async fn stopped_run() -> Rig {
    let rig = Rig::new();
    let client = Scripted::new(|index| match index {
        1 => vec![Step::Fail(FailureKind::Rejected, "no")],
        _ => answer("10", 1),
    });
    let once = RunConfig { max_failures: Some(1), ..config() };
    closed(rig.run(once, Questions::new(5), client, blind()).await);
    rig
}

#[tokio::test]
async fn a_changed_dataset_is_refused() {
    let rig = stopped_run().await;
    let before = fs::read(rig.folder().join("summary.json")).unwrap();
    let client = ready();
    let calls = client.calls();
    let other = Questions { fingerprint: String::from("questions-edited"), ..Questions::new(5) };
    let error = rig.resume(other, client, blind()).await.unwrap_err();
    assert!(matches!(error, RunError::NotResumable { .. }), "{error}");
    let told = error.to_string();
    assert!(told.contains("the dataset questions has changed") && error.hint().is_some(), "{told}");
    assert_eq!(calls.all(), [Call::Close]);
    assert_eq!(rig.journal().sessions().unwrap(), [0], "no session was added");
    assert_eq!(fs::read(rig.folder().join("summary.json")).unwrap(), before);
}

#[tokio::test]
async fn a_changed_model_is_refused() {
    let rig = stopped_run().await;
    let facts = ModelFacts { parameters: Some(7), ..ModelFacts::default() };
    let client = Scripted { facts, ..ready() };
    let calls = client.calls();
    let error = rig.resume(Questions::new(5), client, blind()).await.unwrap_err();
    assert!(error.to_string().contains("the model has changed"), "{error}");
    assert_eq!((calls.sent(), calls.closings()), (vec![], 1));
}

#[tokio::test]
async fn a_changed_configuration_is_refused() {
    let rig = stopped_run().await;
    let path = rig.folder().join("journal/run.json");
    let text = fs::read_to_string(&path).unwrap();
    for (from, to, told) in [
        ("\"concurrency\": 1", "\"concurrency\": 8", "its configuration does not match its hash"),
        ("\"format_version\": 1", "\"format_version\": 2", "later version"),
        ("\"config\":", "\"confog\":", "is damaged: missing field `config`"),
    ] {
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let client = ready();
        let calls = client.calls();
        let error = rig.resume(Questions::new(5), client, blind()).await.unwrap_err();
        assert!(error.to_string().contains(told) && error.to_string().contains("run.json"), "{error}");
        assert_eq!(calls.all(), [Call::Close], "{to}");
        assert!(close::close(&rig.folder()).unwrap_err().to_string().contains(told));
    }
    let nowhere = Rig::new();
    let error = nowhere.resume(Questions::new(5), ready(), blind()).await.unwrap_err();
    assert!(error.to_string().ends_with("no such file or folder"), "{error}");
    fs::create_dir(nowhere.folder()).unwrap();
    let error = nowhere.resume(Questions::new(5), ready(), blind()).await.unwrap_err();
    assert!(matches!(error, RunError::Journal(JournalError::NoJournal { .. })), "{error}");
}

#[tokio::test]
async fn resuming_a_finished_run_sends_no_request_and_closes_it_again() {
    let rig = Rig::new();
    let warm = RunConfig { warmup: 1, ..config() };
    let first = closed(rig.run(warm, Questions::new(3), ready(), whole()).await);
    fs::remove_file(rig.folder().join("summary.json")).unwrap();
    fs::remove_file(rig.folder().join("data-00000-of-00001.arrow")).unwrap();
    let client = ready();
    let calls = client.calls();
    let finished = rig.resume(Questions::new(3), client, whole()).await;
    assert_eq!(finished.as_ref().unwrap().closing, Closing::Finished);
    let again = closed(finished);
    assert_eq!((calls.sent(), calls.closings()), (vec![], 1));
    assert_eq!(Table::read(&rig.folder()).queries(), [0, 1, 2]);
    assert!(rig.folder().join("summary.json").exists());
    // All fields are equal except the time at which the file was written.
    let generated_at = first.summary.generated_at;
    assert_eq!(ergometer_runs::summary::Summary { generated_at, ..again.summary }, first.summary);
}

#[tokio::test]
async fn a_failed_query_is_settled_and_not_sent_again() {
    let rig = stopped_run().await;
    let client = ready();
    let calls = client.calls();
    let run = closed(rig.resume(Questions::new(5), client, blind()).await);
    assert_eq!(calls.sent(), [2, 3, 4]);
    assert_eq!((run.summary.total_queries, run.summary.complete), (5, true));
    assert_eq!(run.summary.outcomes.failed.get(&FailureKind::Rejected), Some(&1));
}

#[tokio::test]
async fn a_run_in_use_cannot_be_resumed() {
    let rig = stopped_run().await;
    let lock = JournalFolder::of_run(&rig.folder()).lock().unwrap();
    let client = ready();
    let calls = client.calls();
    let error = rig.resume(Questions::new(5), client, blind()).await.unwrap_err();
    assert!(matches!(error, RunError::Journal(JournalError::InUse { .. })), "{error}");
    assert_eq!((calls.sent(), calls.closings()), (vec![], 1));
    assert_eq!(rig.journal().sessions().unwrap(), [0]);
    drop(lock);
    assert!(closed(rig.resume(Questions::new(5), ready(), blind()).await).summary.complete);
}

#[tokio::test]
async fn the_duration_covers_all_sessions() {
    let rig = Rig::new();
    let short = RunConfig { duration_s: Some(0.1), ..config() };
    let endless = || Questions { size: None, ..Questions::new(1) };
    let run = closed(rig.run(short, endless(), Scripted::new(|_| answer("10", 20)), blind()).await);
    let client = ready();
    let calls = client.calls();
    let again = closed(rig.resume(endless(), client, blind()).await);
    assert!(calls.sent().is_empty(), "the duration was over");
    assert_eq!(again.summary.total_queries, run.summary.total_queries);
}
