//! Tests of the load figures against values computed by hand.

use super::super::example::{Sketch, at, closed_loop, load, open_loop};
use super::*;
use ergometer_clients::{ConnectionUse, Protocol};
use ergometer_runs::config::{RunConfig, Slo};

fn near(found: Option<f64>, wanted: f64) -> bool {
    found.is_some_and(|found| (found - wanted).abs() <= 1e-9 * wanted.abs())
}

/// Two requests at a time for a second: each takes 100 ms, and the last one runs alone.
fn two_at_a_time() -> Vec<Sketch> {
    let one = |number: u32| {
        let sent = 50.0 * f64::from(number);
        Sketch { tokens: Some(2), ..Sketch::plain(u64::from(number), sent, sent + 100.0) }
    };
    (0..20).map(one).collect()
}

#[test]
fn the_whole_run_by_hand() {
    let config = RunConfig { slo: Slo { e2e_s: Some(0.15), ..Slo::default() }, ..closed_loop(2) };
    let mut sketches = two_at_a_time();
    sketches[3].failure = Some(FailureKind::Truncated);
    sketches[3].tokens = None;
    sketches[5].end += 60.0;
    let found = load(&config, &sketches).summarise(&[], &Locality::ThisMachine, Some(7.0));
    let whole = &found.whole;
    assert_eq!((found.mode, found.concurrency, found.rate, found.rate_asked), (Axis::Concurrency, Some(2), None, None));
    assert!(near(Some(whole.duration_s), 1.05) && near(whole.requests_per_second, 19.0 / 1.05), "{whole:?}");
    assert!(near(whole.sent_per_second, 20.0) && whole.output_tokens_per_second == Some(7.0));
    assert_eq!((whole.completed, whole.failed.clone()), (19, BTreeMap::from([(FailureKind::Truncated, 1)])));
    let goodput = whole.goodput.unwrap();
    assert_eq!(goodput.good, 18, "one failed and one took 160 ms");
    assert!(near(Some(goodput.requests_per_second), 18.0 / 1.05) && near(Some(goodput.share), 0.9));
    assert!(near(whole.in_flight.map(|found| found.mean), (20.0 * 0.1 + 0.06) / 1.05));
    assert_eq!(whole.in_flight.unwrap().max, 3);
    assert_eq!((whole.e2e_ms.unwrap().count, whole.schedule_lag_ms.unwrap().count), (19, 20));
    assert!(near(whole.e2e_ms.map(|e2e| e2e.max), 160.0));
    assert_eq!(
        (found.connections, found.requests_on_new_connections, found.ttft_new_connection_ms),
        (None, None, None)
    );
}

#[test]
fn a_closed_loop_is_steady_while_it_is_full() {
    let found = load(&closed_loop(2), &two_at_a_time()).summarise(&[], &Locality::ThisMachine, None);
    let steady = found.steady_state.unwrap();
    assert_eq!(found.steady_state_reason, None);
    let nanos = |millis: f64| at(millis).nanos_since_epoch();
    assert_eq!(
        steady.windows_ns,
        [Some((nanos(50.0), nanos(1000.0)))],
        "from the second request sent to the end of the last but one"
    );
    let figures = &steady.figures;
    assert!(near(Some(figures.duration_s), 0.95) && near(figures.in_flight.map(|found| found.mean), 2.0));
    assert_eq!(figures.e2e_ms.unwrap().count, 19, "all but the first were sent inside");
    assert_eq!(figures.completed, 18, "the last but one ended at the end of the window, the last after it");
    assert!(near(steady.output_tokens, 36.0) && near(figures.output_tokens_per_second, 36.0 / 0.95));
    assert!(steady.energy.is_none());
}

#[test]
fn failures_do_not_count_twice_against_goodput() {
    let config = RunConfig { slo: Slo { e2e_s: Some(0.15), ..Slo::default() }, ..closed_loop(2) };
    let mut sketches = two_at_a_time();
    for place in [4, 7, 8, 11] {
        (sketches[place].failure, sketches[place].tokens) = (Some(FailureKind::Truncated), None);
    }
    let found = load(&config, &sketches).summarise(&[], &Locality::ThisMachine, None).steady_state.unwrap().figures;
    let goodput = found.goodput.unwrap();
    assert_eq!((goodput.good, goodput.share), (15, 15.0 / 19.0));
    assert_eq!(Some(goodput.requests_per_second), found.requests_per_second, "all completed requests are good");
}

#[test]
fn an_open_loop_is_steady_from_the_median_answer_to_the_last_arrival() {
    // A request every 100 ms for 2 s. Each is sent 10 ms late, takes 300 ms, and has chunks after 100 and 300 ms.
    let one = |number: u32| {
        let due = 100.0 * f64::from(number);
        let sketch = Sketch::plain(u64::from(number), due, due + 310.0);
        Sketch { sent: due + 10.0, tokens: Some(6), ..sketch }
    };
    let sketches: Vec<Sketch> = (0..21).map(one).collect();
    let config = open_loop(10.0);
    let found = load(&config, &sketches).summarise(&[], &Locality::ThisMachine, None);
    assert!(near(found.rate_asked, 10.0) && near(found.whole.sent_per_second, 10.0) && found.rate == Some(10.0));
    let steady = found.steady_state.unwrap();
    let nanos = |millis: f64| at(millis).nanos_since_epoch();
    assert_eq!(steady.windows_ns, [Some((nanos(300.0), nanos(2000.0)))]);
    assert_eq!(steady.figures.e2e_ms.unwrap().count, 17, "sent at 310 to 1910");
    assert_eq!(steady.figures.completed, 17, "ended at 310 to 1910");
    assert!(near(steady.figures.ttft_scheduled_ms.map(|ttft| ttft.p50), 310.0));
    assert!(near(steady.figures.schedule_lag_ms.map(|lag| lag.max), 10.0));
    let ramped = RunConfig { ramp_s: 0.5, ..config };
    let steady = load(&ramped, &sketches).summarise(&[], &Locality::ThisMachine, None).steady_state.unwrap();
    assert_eq!(steady.windows_ns, [Some((nanos(800.0), nanos(2000.0)))], "the ramp is not steady");
}

#[test]
fn a_missing_steady_state_has_a_reason() {
    let reason = |config: RunConfig, sketches: &[Sketch]| {
        let found = load(&config, sketches).summarise(&[], &Locality::ThisMachine, None);
        assert!(found.steady_state.is_none());
        found.steady_state_reason.unwrap()
    };
    assert_eq!(reason(closed_loop(4), &two_at_a_time()), "at most 2 requests were in flight, and 4 are needed");
    assert!(reason(closed_loop(2), &two_at_a_time()[..9]).starts_with("only 8 completed requests were sent"));
    assert!(reason(open_loop(1.0), &two_at_a_time()[..2]).contains("less time than the median E2E latency"));
    let failed = Sketch { failure: Some(FailureKind::Connect), ..Sketch::plain(0, 0.0, 1.0) };
    assert_eq!(reason(open_loop(1.0), &[failed]), "no request completed");
    let whole = load(&open_loop(1.0), &[failed]).summarise(&[], &Locality::ThisMachine, None).whole;
    assert_eq!((whole.sent_per_second, whole.e2e_ms, whole.completed), (None, None, 0));
}

#[test]
fn a_conversation_is_open_during_think_time() {
    // Two conversations of 20 turns of 10 ms, each followed by 30 ms of think time: never two requests at once.
    let turn = |number: u32| {
        let sent = 20.0 * f64::from(number);
        Sketch { conversation: Some(u64::from(number % 2)), ..Sketch::plain(u64::from(number), sent, sent + 10.0) }
    };
    let sketches: Vec<Sketch> = (0..40).map(turn).collect();
    let found = load(&closed_loop(2), &sketches).summarise(&[], &Locality::ThisMachine, None);
    assert_eq!(found.whole.in_flight.unwrap().max, 1);
    let nanos = |millis: f64| at(millis).nanos_since_epoch();
    assert_eq!(found.steady_state.unwrap().windows_ns, [Some((nanos(20.0), nanos(770.0)))]);
}

#[test]
fn gaps_are_pooled_over_completed_requests() {
    let answer = |index, chunks, end| Sketch { chunks, ..Sketch::plain(index, 0.0, end) };
    let failed = Sketch { failure: Some(FailureKind::Truncated), ..answer(2, &[1.0, 900.0], 901.0) };
    let whole = Sketch { is_whole: true, ..answer(3, &[5.0], 6.0) };
    let sketches = [answer(0, &[10.0, 11.0, 13.0], 14.0), answer(1, &[2.0, 5.0], 6.0), failed, whole];
    let found = load(&closed_loop(1), &sketches).summarise(&[], &Locality::ThisMachine, None).whole;
    let itl = found.itl_ms.unwrap();
    assert_eq!((itl.count, itl.min, itl.p50, itl.max), (3, 1.0, 2.0, 3.0));
    assert_eq!((found.ttft_ms.unwrap().count, found.e2e_ms.unwrap().count), (2, 3));
}

#[test]
fn a_retried_request_is_sent_once_and_in_flight_twice() {
    let first =
        Sketch { failure: Some(FailureKind::HttpStatus(503)), is_retried: true, ..Sketch::plain(0, 0.0, 100.0) };
    let sketches = [first, Sketch::plain(0, 900.0, 1000.0), Sketch::plain(1, 500.0, 1000.0)];
    let found = load(&open_loop(2.0), &sketches).summarise(&[], &Locality::ThisMachine, None);
    assert!(near(found.rate_asked, 2.0) && near(found.whole.sent_per_second, 2.0), "{found:?}");
    assert_eq!((found.whole.completed, found.whole.failed.len()), (2, 0));
    assert!(near(found.whole.in_flight.map(|found| found.mean), 0.7));
    assert_eq!(found.whole.schedule_lag_ms.unwrap().count, 2, "a retry has no scheduled time");
    let waited = found.whole.ttft_scheduled_ms.unwrap();
    assert!(waited.max >= 900.0, "the wait starts at the first attempt: {waited:?}");
    let slow = Sketch::plain(2, 600.0, 5000.0);
    let sent_every_10_ms = |end: fn(f64) -> f64| -> Vec<Sketch> {
        let sketch =
            |number| Sketch { index: number, ..Sketch::plain(number, 10.0 * number as f64, end(number as f64)) };
        (0..61).map(sketch).collect()
    };
    // One answer every 40 ms: the queue grows, and so does the time of each request.
    let crowd = sent_every_10_ms(|number| 40.0 * (number + 1.0));
    let found = load(&open_loop(100.0), &crowd).backlog().unwrap();
    assert!(near(Some(found.0), 100.0) && (24.0..=27.0).contains(&found.1) && found.2 == 46, "{found:?}");
    // Each answer takes 500 ms: the run is over before as many requests end as are sent.
    let short = sent_every_10_ms(|number| 10.0 * number + 500.0);
    assert_eq!(load(&open_loop(100.0), &short).backlog(), None);
    assert_eq!(load(&closed_loop(60), &crowd).backlog(), None, "a closed loop waits");
    assert_eq!(load(&open_loop(2.0), &[slow]).backlog(), None);
}

#[test]
fn requests_on_new_connections_are_counted() {
    let line = |connect| Some(ConnectionUse { protocol: Protocol::Http1, connect, waited: None });
    let new = Sketch { line: line(Some(Seconds::from_millis(4.0))), ..Sketch::plain(0, 0.0, 30.0) };
    let old = Sketch { line: line(None), ..Sketch::plain(1, 0.0, 10.0) };
    let found = load(&closed_loop(2), &[new, old]).summarise(&[], &Locality::ThisMachine, None);
    assert_eq!(found.requests_on_new_connections, Some(1));
    assert!(near(found.ttft_new_connection_ms.map(|ttft| ttft.p50), 30.0));
    let found = load(&closed_loop(2), &[old]).summarise(&[], &Locality::ThisMachine, None);
    assert_eq!((found.requests_on_new_connections, found.ttft_new_connection_ms), (Some(0), None));
}
