//! Schedules: closed loop, rate, replay and conversations.

use std::sync::Arc;
use std::time::Duration;

use ergometer_clients::{EarlierTurn, FailureKind};
use ergometer_diagnostics::Diagnostic;
use ergometer_runs::config::{Arrivals, RunConfig, Schedule, Think};
use ergometer_runs::{Closing, Exchange};
use tokio::sync::Semaphore;

use crate::client::{Scripted, Step, answer};
use crate::dataset::Questions;
use crate::rig::{Rig, closed, config};
use crate::sensors::blind;

fn at_rate(rate: f64) -> RunConfig {
    RunConfig { schedule: Schedule::Rate { rate, arrivals: Arrivals::Constant }, ..config() }
}

/// When each request was due, in milliseconds from the first, in the order of the dataset.
fn due(rig: &Rig) -> Vec<f64> {
    let mut exchanges = rig.exchanges(0).1;
    exchanges.sort_by_key(|exchange| exchange.query.index);
    exchanges.iter().map(|exchange| (exchange.scheduled - exchanges[0].scheduled).as_millis()).collect()
}

fn in_order(rig: &Rig, session: u32) -> Vec<Exchange> {
    let mut exchanges = rig.exchanges(session).1;
    exchanges.sort_by_key(|exchange| exchange.query.index);
    exchanges
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_loop_does_not_wait_for_answers() {
    let (rig, gate) = (Rig::new(), Arc::new(Semaphore::new(0)));
    let wait = Arc::clone(&gate);
    // No request is answered before all are sent.
    let client = Scripted::new(move |_| [vec![Step::Pass(Arc::clone(&wait))], answer("10", 1)].concat());
    let calls = client.calls();
    let opening = tokio::spawn(async move {
        calls.sent_are(20).await;
        gate.add_permits(20);
    });
    let run = closed(rig.run(at_rate(500.0), Questions::new(20), client, blind()).await);
    opening.await.unwrap();
    assert_eq!((run.summary.total_queries, run.summary.closing), (20, Some(Closing::Finished)));
    for (index, due) in due(&rig).into_iter().enumerate() {
        assert!((due - 2.0 * index as f64).abs() < 1e-3, "{index} was due after {due} ms");
    }
    for exchange in in_order(&rig, 0) {
        assert!(exchange.sent >= exchange.scheduled, "never early");
    }
    let sender = rig.exchanges(0).0.sender.unwrap();
    assert_eq!(sender.most_in_flight, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_beyond_max_in_flight_wait_and_have_a_lag() {
    let rig = Rig::new();
    let config = RunConfig { max_in_flight: Some(2), ..at_rate(10_000.0) };
    let client = Scripted::new(|_| answer("10", 5));
    closed(rig.run(config, Questions::new(8), client, blind()).await);
    assert_eq!(rig.exchanges(0).0.sender.unwrap().most_in_flight, 2);
    // All were due within a millisecond, and three pairs of at least 10 ms each came before the last.
    let longest =
        in_order(&rig, 0).iter().map(|exchange| (exchange.sent - exchange.scheduled).get()).fold(0.0, f64::max);
    assert!(longest > 0.028, "{longest} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_is_replayed_at_its_speed() {
    let rig = Rig::new();
    let config = RunConfig { schedule: Schedule::Replay { speed: 10.0 }, ..config() };
    let recorded = Questions { apart_s: Some(0.05), ..Questions::new(6) };
    closed(rig.run(config, recorded, Scripted::new(|_| answer("10", 1)), blind()).await);
    for (index, due) in due(&rig).into_iter().enumerate() {
        assert!((due - 5.0 * index as f64).abs() < 1e-3, "{index} was due after {due} ms");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dataset_without_arrival_times_cannot_be_replayed() {
    let rig = Rig::new();
    let config = RunConfig { schedule: Schedule::Replay { speed: 1.0 }, ..config() };
    let finished = rig.run(config, Questions::new(3), Scripted::new(|_| answer("10", 1)), blind()).await;
    let error = finished.unwrap_err();
    assert!(error.to_string().contains("has no arrival times") && error.hint().is_some(), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_sent_after_the_duration() {
    let rig = Rig::new();
    let config = RunConfig { duration_s: Some(0.2), ..at_rate(2.5) };
    let endless = Questions { size: None, ..Questions::new(0) };
    let run = closed(rig.run(config, endless, Scripted::new(|_| answer("10", 1)), blind()).await);
    assert_eq!((run.summary.total_queries, run.summary.closing), (1, Some(Closing::Duration)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ramp_starts_slots_one_after_the_other() {
    let (rig, gate) = (Rig::new(), Arc::new(Semaphore::new(0)));
    let wait = Arc::clone(&gate);
    let client = Scripted::new(move |_| [vec![Step::Pass(Arc::clone(&wait))], answer("10", 1)].concat());
    let calls = client.calls();
    let opening = tokio::spawn(async move {
        calls.sent_are(4).await;
        gate.add_permits(8);
    });
    let config = RunConfig { schedule: Schedule::Concurrency { concurrency: 4 }, ramp_s: 0.2, ..config() };
    closed(rig.run(config, Questions::new(8), client, blind()).await);
    opening.await.unwrap();
    let due = due(&rig);
    for (index, due) in due[..4].iter().enumerate() {
        assert!((due - 50.0 * index as f64).abs() < 1e-3, "{index} was due after {due} ms");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_sent_with_the_earlier_turns() {
    let rig = Rig::new();
    let client =
        Scripted::new(|index| answer(["10", "11", "12", "13", "14", "15"][usize::try_from(index).unwrap()], 1));
    let calls = client.calls();
    let think = Think::Fixed { seconds: 0.03 };
    let config = RunConfig { schedule: Schedule::Concurrency { concurrency: 2 }, think, ..config() };
    let talk = Questions { turns: 3, ..Questions::new(6) };
    closed(rig.run(config, talk, client, blind()).await);
    let said = |index: u64| EarlierTurn { problem: format!("what is 10 + {index}?"), answer: (10 + index).to_string() };
    for first in [0, 3] {
        assert_eq!(calls.before(first), []);
        assert_eq!(calls.before(first + 1), [said(first)]);
        assert_eq!(calls.before(first + 2), [said(first), said(first + 1)]);
    }
    for pair in in_order(&rig, 0).chunks(3).flat_map(|turns| turns.windows(2)) {
        let thought = (pair[1].scheduled - pair[0].end).as_millis();
        assert!((thought - 30.0).abs() < 1e-3, "the think time was {thought} ms");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_after_a_failed_turn_count_as_failed_and_are_not_sent() {
    let rig = Rig::new();
    let client = Scripted::new(|index| match index {
        1 => vec![Step::Fail(FailureKind::Rejected, "no")],
        _ => answer("10", 1),
    });
    let calls = client.calls();
    let run = closed(rig.run(config(), Questions { turns: 4, ..Questions::new(8) }, client, blind()).await);
    assert_eq!(calls.sent(), [0, 1, 4, 5, 6, 7]);
    let failed = &run.summary.outcomes.failed;
    assert_eq!((failed[&FailureKind::Rejected], failed[&FailureKind::Conversation]), (1, 2));
    assert_eq!((run.summary.total_queries, run.summary.complete), (8, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_resumed_at_its_next_turn() {
    let rig = Rig::new();
    let (talk, once) =
        (|| Questions { turns: 3, ..Questions::new(6) }, RunConfig { max_failures: Some(1), ..config() });
    // The first conversation completes; in the second the user stops after the first turn.
    let client = Scripted::new(|index| match index {
        4 => vec![Step::Wait(Duration::from_millis(1)), Step::Fail(FailureKind::Rejected, "no")],
        _ => answer("10", 1),
    });
    closed(rig.run(once, talk(), client, blind()).await);
    // As after a kill: the second turn of the second conversation did not end, and the third was not sent.
    let path = rig.journal().events_path(0);
    let text = std::fs::read_to_string(&path).unwrap();
    let kept: Vec<&str> = text.lines().filter(|line| !line.contains("\"failed\"")).collect();
    std::fs::write(&path, kept.join("\n") + "\n").unwrap();
    let client = Scripted::new(|_| answer("11", 1));
    let calls = client.calls();
    let run = closed(rig.resume(talk(), client, blind()).await);
    assert_eq!(calls.sent(), [4, 5]);
    let said =
        |index: u64, answer: &str| EarlierTurn { problem: format!("what is 10 + {index}?"), answer: answer.to_owned() };
    assert_eq!(calls.before(5), [said(3, "10"), said(4, "11")]);
    assert_eq!((run.summary.total_queries, run.summary.complete), (6, true));
}
