//! The order of calls, closing the client in every case, and failing requests.

use std::sync::Arc;

use ergometer::journal::JournalFolder;
use ergometer::run::{PreparedRun, RunError, Target};
use ergometer_clients::{FailureKind, Outcome};
use ergometer_diagnostics::{CommandLine, Diagnostic};
use ergometer_runs::Closing;
use ergometer_runs::config::{Arrivals, RunConfig, Schedule};
use tokio::sync::watch;

use crate::client::{Call, Scripted, Step, answer};
use crate::dataset::Questions;
use crate::rig::{NoObserver, Rig, closed, config, has_warning};
use crate::sensors::{blind, machine, unwritable_at_the_end, whole};
use crate::table::Table;

#[tokio::test]
async fn the_client_is_called_in_order_and_closed_once() {
    let rig = Rig::new();
    let client = Scripted::new(|_| answer("10", 1));
    let calls = client.calls();
    let finished = rig.run(config(), Questions::new(3), client, blind()).await.unwrap();
    assert_eq!(finished.closing, Closing::Finished);
    let (all, ask) = (calls.all(), Call::Stream);
    assert_eq!(all, [Call::Health, Call::Prepare, ask(0), ask(1), ask(2), Call::Close]);
}

#[tokio::test]
async fn an_unhealthy_client_is_closed_without_a_request() {
    let rig = Rig::new();
    let client = Scripted { is_healthy: false, ..Scripted::new(|_| answer("10", 1)) };
    let calls = client.calls();
    let error = rig.run(config(), Questions::new(3), client, blind()).await.unwrap_err();
    assert!(matches!(&error, RunError::Client(_)) && error.to_string().contains("the server is down"), "{error}");
    assert_eq!(calls.all(), [Call::Health, Call::Close]);

    let client = Scripted { has_model: false, ..Scripted::new(|_| answer("10", 1)) };
    let calls = client.calls();
    let error = rig.run(config(), Questions::new(3), client, blind()).await.unwrap_err();
    assert!(error.to_string().contains("no such model"), "{error}");
    assert_eq!(calls.all(), [Call::Health, Call::Prepare, Call::Close]);
    assert_eq!(std::fs::read_dir(rig.runs()).unwrap().count(), 0, "no folder is left");
}

#[tokio::test]
async fn an_invalid_run_closes_the_client() {
    let rig = Rig::new();
    let cases: [(RunConfig, Questions, &str); 2] = [
        (config(), Questions { size: None, ..Questions::new(1) }, "is endless"),
        (
            RunConfig {
                devices: ergometer_runs::config::CountedDevices::parse(&[String::from("gpu:7")]).unwrap(),
                ..config()
            },
            Questions::new(1),
            "`gpu:7`",
        ),
    ];
    for (config, dataset, told) in cases {
        let client = Scripted::new(|_| answer("10", 1));
        let calls = client.calls();
        let error = rig.run(config, dataset, client, whole()).await.unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
        assert_eq!(calls.all(), [Call::Close], "{told}");
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_created_closes_the_client() {
    let rig = Rig::new();
    std::fs::write(rig.folder(), "a file").unwrap();
    let client = Scripted::new(|_| answer("10", 1));
    let calls = client.calls();
    let error = rig.run(config(), Questions::new(3), client, blind()).await.unwrap_err();
    assert!(matches!(error, RunError::Exists { .. }), "{error}");
    assert_eq!(calls.all(), [Call::Health, Call::Prepare, Call::Close]);
}

/// The journal folder is damaged during the run, so that its first session cannot start.
#[tokio::test]
async fn a_journal_that_cannot_be_written_closes_the_client() {
    let rig = Rig::new();
    closed(rig.run(config(), Questions::new(1), Scripted::new(|_| answer("10", 1)), blind()).await);
    // A folder has the name of the next session's readings.
    std::fs::remove_file(rig.journal().events_path(0)).unwrap();
    std::fs::remove_file(rig.journal().readings_path(0)).unwrap();
    std::fs::create_dir(rig.journal().readings_path(0)).unwrap();
    let client = Scripted::new(|_| answer("10", 1));
    let calls = client.calls();
    let error = rig.resume(Questions::new(1), client, blind()).await.unwrap_err();
    assert!(matches!(error, RunError::Recording(_)), "{error}");
    assert_eq!(calls.all(), [Call::Health, Call::Prepare, Call::Close]);
    assert!(rig.folder().join("summary.json").exists(), "existing files are kept");
}

#[tokio::test]
async fn a_failed_request_is_counted_and_the_run_continues() {
    let rig = Rig::new();
    let client = Scripted::new(|index| match index {
        1 => vec![Step::Fail(FailureKind::Rejected, "prompt too long")],
        2 => vec![Step::Say("12"), Step::Fail(FailureKind::MidStream, "the line went dead")],
        _ => answer("10", 1),
    });
    let run = closed(rig.run(config(), Questions::new(5), client, blind()).await);
    let outcomes = &run.summary.outcomes;
    assert_eq!((outcomes.completed, outcomes.cancelled, outcomes.lost), (3, 0, 0));
    assert_eq!(
        outcomes.failed.iter().collect::<Vec<_>>(),
        [(&FailureKind::MidStream, &1), (&FailureKind::Rejected, &1)]
    );
    assert_eq!((run.summary.total_queries, run.summary.complete), (5, true));
    assert!(has_warning(&run, "1 request failed: rejected (prompt too long)"), "{:?}", run.summary.warnings);
    let table = Table::read(&rig.folder());
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(table.queries(), [0, 1, 2, 3, 4]);
    assert_eq!(table.texts("ergometer/outcome")[..3], [some("completed"), some("failed"), some("failed")]);
    assert_eq!(table.texts("ergometer/failure")[..3], [None, some("rejected"), some("mid_stream")]);
    assert_eq!(table.texts("ergometer/cause")[2], some("the line went dead"));
    assert_eq!(table.texts("model_answers/*")[..3], [some("10"), None, None], "a partial answer is not an answer");
    let correct = table.booleans("model_metrics/*/lm_correctness");
    assert_eq!(correct, [true, false, false, false, false].map(Some), "a failed request is a wrong answer");
    assert_eq!(rig.exchanges(0).1[2].transcript.text, "12", "the journal has the partial answer");
}

#[tokio::test]
async fn a_request_that_times_out_fails_and_keeps_its_chunks() {
    let rig = Rig::new();
    let client = Scripted::new(|index| if index == 0 { vec![Step::Say("10"), Step::Hang] } else { answer("11", 1) });
    let config = RunConfig { timeout_s: Some(0.15), ..config() };
    let run = closed(rig.run(config, Questions::new(2), client, blind()).await);
    assert_eq!(run.summary.outcomes.failed.iter().collect::<Vec<_>>(), [(&FailureKind::TimeoutTotal, &1)]);
    assert_eq!(run.summary.outcomes.completed, 1);
    let (_, exchanges) = rig.exchanges(0);
    let Outcome::Failed { kind, cause } = &exchanges[0].outcome else { panic!("{exchanges:?}") };
    assert_eq!((*kind, cause.as_str()), (FailureKind::TimeoutTotal, "not finished within 0.15 s"));
    assert_eq!((exchanges[0].transcript.text.as_str(), exchanges[0].transcript.chunks.len()), ("10", 1));
    let table = Table::read(&rig.folder());
    assert!(table.floats("model_metrics/*/latency_metrics/total_query_seconds")[0].unwrap() >= 0.15);
    assert!(table.floats("model_metrics/*/latency_metrics/time_to_first_token_seconds")[0].is_some());
    assert_eq!(table.booleans("model_metrics/*/lm_correctness")[0], Some(false));
}

#[tokio::test]
async fn too_many_failures_end_the_run_early() {
    let rig = Rig::new();
    let client = Scripted::new(|index| match index {
        2 | 4 => vec![Step::Fail(FailureKind::Rejected, "no")],
        _ => answer("10", 1),
    });
    let calls = client.calls();
    let config = RunConfig { max_failures: Some(2), ..config() };
    let finished = rig.run(config, Questions::new(20), client, blind()).await;
    assert_eq!(finished.as_ref().unwrap().closing, Closing::TooManyFailures);
    let run = closed(finished);
    assert_eq!((calls.sent(), calls.closings()), (vec![0, 1, 2, 3, 4], 1));
    assert_eq!((run.summary.total_queries, run.summary.complete), (5, false));
    assert!(has_warning(&run, "too many requests failed"), "{:?}", run.summary.warnings);
}

#[tokio::test]
async fn the_duration_ends_a_run_of_an_endless_dataset() {
    let rig = Rig::new();
    let config = RunConfig { duration_s: Some(0.2), ..config() };
    let endless = Questions { size: None, ..Questions::new(1) };
    let finished = rig.run(config, endless, Scripted::new(|_| answer("10", 5)), blind()).await;
    assert_eq!(finished.as_ref().unwrap().closing, Closing::Duration);
    let run = closed(finished);
    assert!(run.summary.complete && run.summary.total_queries > 0);
    assert_eq!(Table::read(&rig.folder()).rows() as u64, run.summary.total_queries);
}

#[tokio::test]
async fn warm_up_requests_do_not_count() {
    let rig = Rig::new();
    let client = Scripted::new(|_| answer("10", 1));
    let calls = client.calls();
    let config = RunConfig { warmup: 3, ..config() };
    let run = closed(rig.run(config, Questions::new(2), client, blind()).await);
    assert_eq!(calls.sent(), [0, 1, 0, 0, 1], "a short dataset is repeated");
    assert_eq!(run.summary.total_queries, 2);
    assert_eq!(rig.exchanges(0).0.warmup.len(), 1);
}

/// A panic of the client fails its request, and its slot continues.
#[tokio::test]
async fn a_client_that_panics_fails_its_request() {
    let rig = Rig::new();
    let client = Scripted::new(|index| match index {
        1 => vec![Step::Say("1"), Step::Panic],
        _ => answer("10", 1),
    });
    let calls = client.calls();
    let warm = RunConfig { warmup: 2, ..config() };
    let finished = rig.run(warm, Questions::new(4), client, blind()).await;
    assert_eq!(finished.as_ref().unwrap().closing, Closing::Finished);
    let run = closed(finished);
    assert_eq!((run.summary.total_queries, run.summary.complete, run.summary.outcomes.completed), (4, true, 3));
    assert!(has_warning(&run, "rejected (the client panicked: the script says so)"), "{:?}", run.summary.warnings);
    assert_eq!((calls.sent(), calls.closings()), (vec![0, 1, 0, 1, 2, 3], 1));
    assert_eq!(rig.exchanges(0).1[1].transcript.text, "1");
}

/// The panic of a sending task is an internal error, not an invalid configuration (exit 2) or a full disk. In a closed loop
/// a dataset is read by the task that sends, or by a blocking thread; in an open loop by the thread of the schedule.
#[tokio::test]
async fn a_dataset_that_panics_ends_the_run_with_an_internal_error() {
    let open_loop = Schedule::Rate { rate: 1000.0, arrivals: Arrivals::Constant };
    for (is_packed, schedule) in [(false, Schedule::ONE), (true, Schedule::ONE), (false, open_loop)] {
        let rig = Rig::new();
        let dataset = Questions { is_packed, panics_at: Some(2), ..Questions::new(4) };
        let client = Scripted::new(|_| answer("10", 1));
        let calls = client.calls();
        let config = RunConfig { schedule, ..config() };
        let finished = rig.run(config, dataset, client, blind()).await.unwrap();
        assert_eq!(finished.closing, Closing::Failed, "packed: {is_packed}, {schedule:?}");
        let failure = finished.failure.unwrap();
        assert!(matches!(failure, RunError::Internal(_)), "{failure}");
        assert_eq!((rig.exchanges(0).1.len(), calls.closings()), (2, 1), "the answers before the panic are kept");
    }
}

/// Readings that cannot be written after the last request are a failure, too: the journal must not say that the session
/// finished.
#[tokio::test]
async fn a_recording_that_cannot_be_finished_ends_the_session_as_unwritable() {
    let rig = Rig::new();
    let client = Scripted::new(|_| answer("10", 1));
    let finished = rig.run(config(), Questions::new(2), client, machine(vec![unwritable_at_the_end()])).await.unwrap();
    assert_eq!((finished.closing, rig.exchanges(0).0.closed), (Closing::Unwritable, Some(Closing::Unwritable)));
    assert!(matches!(finished.failure, Some(RunError::Recording(_))), "{:?}", finished.failure);
    assert_eq!(finished.closed.unwrap().summary.outcomes.completed, 2, "the answers are kept");
}

#[tokio::test]
async fn invalid_durations_are_refused() {
    let invalid = [
        (RunConfig { idle_s: -1.0, ..config() }, "--idle"),
        (RunConfig { idle_s: f64::NAN, ..config() }, "--idle"),
        (RunConfig { calibrate_s: f64::INFINITY, ..config() }, "--calibrate"),
        (RunConfig { ramp_s: -0.5, ..config() }, "--ramp"),
        (RunConfig { duration_s: Some(1e300), ..config() }, "--duration"),
        (RunConfig { timeout_s: Some(-1.0), ..config() }, "--timeout"),
    ];
    for (config, option) in invalid {
        let rig = Rig::new();
        let client = Scripted::new(|_| answer("10", 1));
        let calls = client.calls();
        let error = rig.run(config, Questions::new(1), client, blind()).await.unwrap_err();
        assert!(matches!(error, RunError::Config(_)), "{error}");
        assert!(error.one_line(&CommandLine).contains(option), "{error}");
        assert_eq!((calls.sent(), rig.folder().exists()), (vec![], false));
    }
}

#[tokio::test]
async fn a_new_run_does_not_write_into_an_existing_one() {
    let rig = Rig::new();
    closed(rig.run(config(), Questions::new(1), Scripted::new(|_| answer("10", 1)), blind()).await);
    let before = std::fs::read(rig.folder().join("journal/run.json")).unwrap();
    let (_sender, stop) = watch::channel(false);
    let client = Scripted::new(|_| answer("10", 1));
    let calls = client.calls();
    let other = RunConfig { max_queries: Some(1), ..config() };
    let prepared = PreparedRun::with(other, Box::new(Questions::new(9)), Box::new(client), blind()).await.unwrap();
    let error = prepared.run(Target::Resume(rig.folder()), stop, Arc::new(NoObserver)).await.unwrap_err();
    assert!(matches!(error, RunError::Config(_)), "{error}");
    assert_eq!((calls.sent(), calls.closings()), (vec![], 1));
    assert_eq!(std::fs::read(rig.folder().join("journal/run.json")).unwrap(), before);
    assert!(JournalFolder::of_run(&rig.folder()).manifest().is_ok());
}
