//! A run replaces another once it has its first record.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use ergometer::journal::JournalError;
use ergometer::run::{FinishedRun, PreparedRun, RunError, Target};
use ergometer_runs::Closing;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::client::{Calls, Scripted, Step, answer};
use crate::dataset::Questions;
use crate::rig::{NoObserver, Rig, closed, config};
use crate::sensors::blind;
use crate::table::Table;

/// All names in a folder of runs.
fn names(runs: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A finished run of three queries.
async fn finished_run() -> Rig {
    let rig = Rig::new();
    closed(rig.run(config(), Questions::new(3), Scripted::new(|_| answer("10", 1)), blind()).await);
    rig
}

fn replace(rig: &Rig, client: Scripted) -> (Calls, watch::Sender<bool>, JoinHandle<Result<FinishedRun, RunError>>) {
    let (calls, (sender, stop), folder) = (client.calls(), watch::channel(false), rig.folder());
    let run = tokio::spawn(async move {
        let prepared = PreparedRun::with(config(), Box::new(Questions::new(2)), Box::new(client), blind()).await?;
        prepared.run(Target::Replace(folder), stop, Arc::new(NoObserver)).await
    });
    (calls, sender, run)
}

#[tokio::test]
async fn the_old_run_is_kept_until_the_new_one_has_a_record() {
    let rig = finished_run().await;
    let old = fs::read(rig.folder().join("summary.json")).unwrap();
    // Each request waits for a permit.
    let gate = Arc::new(Semaphore::new(0));
    let waiting = Arc::clone(&gate);
    let client = Scripted::new(move |_| vec![Step::Pass(Arc::clone(&waiting)), Step::Say("10")]);
    let (calls, _sender, run) = replace(&rig, client);
    calls.sent_are(1).await;
    assert_eq!(fs::read(rig.folder().join("summary.json")).unwrap(), old);
    assert_eq!(names(rig.runs()).len(), 2, "the new run is next to it");
    gate.add_permits(1);
    calls.sent_are(2).await;
    // The second request is in flight, so the first has its record.
    assert_eq!(names(rig.runs()), [".run.old", "run"], "the old run is deleted after the measurement");
    assert!(!rig.folder().join("summary.json").exists(), "the folder is that of the new run, which is not closed yet");
    gate.add_permits(1);
    let run = closed(run.await.unwrap());
    assert_eq!((run.summary.total_queries, run.folder.as_path()), (2, rig.folder().as_path()));
    assert_eq!(names(rig.runs()), ["run"]);
    assert_eq!(Table::read(&rig.folder()).queries(), [0, 1]);
    assert_eq!(names(rig.runs()), ["run"]);
}

#[tokio::test]
async fn a_run_interrupted_before_its_first_record_leaves_no_folder() {
    let rig = finished_run().await;
    let old = fs::read(rig.folder().join("summary.json")).unwrap();
    let (calls, sender, run) = replace(&rig, Scripted::new(|_| vec![Step::Hang]));
    calls.sent_are(1).await;
    sender.send(true).unwrap();
    let finished = run.await.unwrap().unwrap();
    assert!(finished.closing == Closing::Interrupted && finished.closed.is_none() && finished.failure.is_none());
    assert_eq!(calls.closings(), 1);
    assert_eq!(names(rig.runs()), ["run"]);
    assert_eq!(fs::read(rig.folder().join("summary.json")).unwrap(), old);
    assert_eq!(Table::read(&rig.folder()).rows(), 3);
}

#[tokio::test]
async fn a_new_run_without_a_record_leaves_no_folder() {
    let rig = Rig::new();
    let (calls, sender, run) = replace(&rig, Scripted::new(|_| vec![Step::Hang]));
    calls.sent_are(1).await;
    assert_eq!(names(rig.runs()), ["run"]);
    sender.send(true).unwrap();
    assert!(run.await.unwrap().unwrap().closed.is_none());
    assert!(names(rig.runs()).is_empty());
}

/// Two runs would replace the same run: the second must not remove the files of the first.
#[tokio::test]
async fn a_second_run_of_the_same_name_is_refused() {
    let rig = finished_run().await;
    let gate = Arc::new(Semaphore::new(0));
    let waiting = Arc::clone(&gate);
    let client = Scripted::new(move |_| vec![Step::Pass(Arc::clone(&waiting)), Step::Say("10")]);
    let (calls, _sender, first) = replace(&rig, client);
    calls.sent_are(1).await;
    let (_, _second_sender, second) = replace(&rig, Scripted::new(|_| answer("10", 1)));
    let error = second.await.unwrap().unwrap_err();
    assert!(matches!(error, RunError::Journal(JournalError::InUse { .. })), "{error}");
    gate.add_permits(2);
    assert_eq!(closed(first.await.unwrap()).summary.total_queries, 2);
    assert_eq!(names(rig.runs()), ["run"]);
}

#[tokio::test]
async fn other_folders_are_not_replaced() {
    let rig = Rig::new();
    fs::create_dir(rig.folder()).unwrap();
    fs::write(rig.folder().join("thesis.tex"), "years of work").unwrap();
    let (calls, _sender, run) = replace(&rig, Scripted::new(|_| answer("10", 1)));
    let error = run.await.unwrap().unwrap_err();
    assert!(matches!(error, RunError::NotARun { .. }), "{error}");
    assert_eq!((calls.sent().len(), calls.closings()), (0, 1));
    assert!(rig.folder().join("thesis.tex").exists());
}
