//! A run takes the place of another only once it has a record of its own.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use ergometer::journal::JournalError;
use ergometer::run::{Finished, Prepared, RunError, Target};
use ergometer_runs::Closing;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::client::{Calls, Scripted, Step, answer};
use crate::dataset::Questions;
use crate::rig::{Nobody, Rig, closed, config};
use crate::sensors::blind;
use crate::table::Table;

/// All names in a folder of runs.
fn names(runs: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A run of three queries, finished.
async fn finished_run() -> Rig {
    let rig = Rig::new();
    closed(rig.run(config(), Questions::new(3), Scripted::new(|_| answer("10", 1)), blind()).await);
    rig
}

fn replace(rig: &Rig, client: Scripted) -> (Calls, watch::Sender<bool>, JoinHandle<Result<Finished, RunError>>) {
    let (calls, (sender, stop), folder) = (client.calls(), watch::channel(false), rig.folder());
    let run = tokio::spawn(async move {
        let prepared = Prepared::with(config(), Box::new(Questions::new(2)), Box::new(client), blind()).await?;
        prepared.run(Target::Replace(folder), stop, Arc::new(Nobody)).await
    });
    (calls, sender, run)
}

#[tokio::test]
async fn the_old_run_is_there_until_the_new_one_has_a_record() {
    let rig = finished_run().await;
    let old = fs::read(rig.folder().join("summary.json")).unwrap();
    // Each request waits until it is let go.
    let gate = Arc::new(Semaphore::new(0));
    let waiting = Arc::clone(&gate);
    let client = Scripted::new(move |_| vec![Step::Pass(Arc::clone(&waiting)), Step::Say("10")]);
    let (calls, _sender, run) = replace(&rig, client);
    calls.sent_are(1).await;
    assert_eq!(fs::read(rig.folder().join("summary.json")).unwrap(), old);
    assert_eq!(names(rig.runs()).len(), 2, "the new one is beside it");
    gate.add_permits(1);
    calls.sent_are(2).await;
    // The second request is in flight, so the first has its record.
    assert_eq!(names(rig.runs()), [".run.old", "run"], "deleted once nothing is measured any more");
    assert!(!rig.folder().join("summary.json").exists(), "the folder is the new run's, which is not closed yet");
    gate.add_permits(1);
    let run = closed(run.await.unwrap());
    assert_eq!((run.summary.total_queries, run.folder.as_path()), (2, rig.folder().as_path()));
    assert_eq!(names(rig.runs()), ["run"]);
    assert_eq!(Table::read(&rig.folder()).queries(), [0, 1]);
    assert_eq!(names(rig.runs()), ["run"]);
}

#[tokio::test]
async fn interrupted_before_its_first_record_a_run_leaves_nothing_behind() {
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

/// Two that would replace the same run: the second must not take away what the first is writing.
#[tokio::test]
async fn a_second_run_of_the_same_name_is_refused_and_harms_nobody() {
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
async fn what_is_no_run_is_left_alone() {
    let rig = Rig::new();
    fs::create_dir(rig.folder()).unwrap();
    fs::write(rig.folder().join("thesis.tex"), "years of work").unwrap();
    let (calls, _sender, run) = replace(&rig, Scripted::new(|_| answer("10", 1)));
    let error = run.await.unwrap().unwrap_err();
    assert!(matches!(error, RunError::NotARun { .. }), "{error}");
    assert_eq!((calls.sent().len(), calls.closings()), (0, 1));
    assert!(rig.folder().join("thesis.tex").exists());
}
