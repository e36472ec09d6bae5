//! Reads arbitrary bytes as a trace. Reading must not panic or use more memory than the size of the file justifies, and
//! lenient mode must not change an undamaged file.

#![no_main]

use ergometer_profiler::{Profiler, ProfilerOptions};
use ergometer_trace::accounting::{By, Filter, executions, gaps, modules, rows, scopes, steps, summary};
use ergometer_trace::{EventId, KindId, Leniency, Notice, ReadOptions, Source, Trace, TraceError, read};
use ergometer_trace::{FunctionOptions, functions};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let strict = trace(data, Leniency::Strict);
    let lenient = trace(data, Leniency::KeepWhole);
    for trace in strict.iter().chain(&lenient) {
        walk(trace, data.len());
        account(trace);
    }
    match (strict, lenient) {
        (Ok(strict), Ok(lenient)) => {
            assert_eq!(strict.notices(), lenient.notices());
            assert_eq!(content(&strict), content(&lenient));
            let losses = |notice: &&Notice| matches!(notice, Notice::Lost { .. } | Notice::DamagedEvents { .. });
            assert_eq!(strict.notices().iter().find(losses), None);
        }
        (Ok(_), Err(error)) => panic!("lenient mode rejects an undamaged file: {error}"),
        (Err(TraceError::Damaged { damage, .. }), _) => assert!(damage.offset <= data.len() as u64),
        (Err(_), _) => {}
    }
});

fn trace(data: &[u8], leniency: Leniency) -> Result<Trace, TraceError> {
    let options = ReadOptions { leniency, ..ReadOptions::default() };
    read(vec![Source::from_bytes("host.xplane.pb", data.to_vec())], &options)
}

/// Reads every event and stat. An event takes at least two bytes: a tag and a length.
fn walk(trace: &Trace, bytes: usize) {
    assert!(trace.event_count() <= bytes / 2);
    for (plane_number, plane) in trace.planes().iter().enumerate() {
        let _ = trace.plane_stats(plane_number);
        for (line_number, line) in plane.lines.iter().enumerate() {
            for (number, event) in line.events().enumerate() {
                assert!(event.duration.get() >= 0);
                assert_eq!(event.start.is_none(), line.why_unplaced(number).is_some());
                if let Some(start) = event.start {
                    let end = start.get().checked_add(event.duration.get()).expect("an end");
                    assert!(start.get().abs().max(end.abs()) < 1 << 62);
                }
                let _ = trace.event_stats(EventId { plane: plane_number, line: line_number, event: number });
                let _ = trace.kind_stats(event.kind);
            }
        }
    }
    for notice in trace.notices() {
        assert!(!notice.to_string().is_empty());
    }
}

/// Runs every analysis and compares the results with each other.
fn account(trace: &Trace) {
    let everything = Filter::default();
    for plane in summary(trace, 10) {
        assert!(plane.busy <= plane.total && plane.self_time <= plane.total);
        if let Some(span) = plane.span {
            assert!(plane.busy <= span.length());
        }
        for work in plane.work {
            assert_eq!(work.busy.get() + work.idle.get(), work.span.length().get());
            assert!(work.timeline.iter().all(|part| (0.0..=1.0).contains(part)));
        }
    }
    for by in [By::Op, By::Kernel, By::Name, By::Class] {
        for row in rows(trace, by, &everything) {
            let account = row.account;
            assert!(account.events > 0 && account.busy <= account.total && account.self_time <= account.total);
            assert!(account.min <= account.max && account.median_ps <= account.p90_ps);
        }
    }
    let runs = executions(trace, &everything).len() as u64;
    assert_eq!(modules(trace, &everything).iter().filter_map(|module| module.executions).sum::<u64>(), runs);
    let _ = steps(trace, &everything);
    let _ = gaps(trace, &everything);
    // Every kernel is in one top-level scope, or in none.
    let sum = |times: Vec<i64>| times.into_iter().map(i128::from).sum::<i128>();
    let outermost = scopes(trace, &everything).into_iter().filter(|scope| scope.depth == 0);
    let in_scopes = sum(outermost.map(|scope| scope.account.self_time.get()).collect());
    let in_kernels = sum(rows(trace, By::Kernel, &everything).iter().map(|row| row.account.self_time.get()).collect());
    assert!(in_scopes == in_kernels || in_scopes.max(in_kernels) > 1 << 62);
    let _ = functions(trace, &FunctionOptions::autotune().expect("the default pattern is valid"));
    let options = ProfilerOptions { prefix_filter: String::new(), min_duration_ns: 0.0, ..ProfilerOptions::default() };
    let with_regex = ProfilerOptions { event_filter_regex: Some(String::from("[a-f]")), ..options.clone() };
    for options in [options, with_regex] {
        let profiler = Profiler::new(options).expect("valid options");
        for plane in 0..trace.planes().len() {
            let _ = profiler.get_events_from_plane(trace, plane);
        }
    }
}

type EventContent = (KindId, Option<i64>, i64);

fn content(trace: &Trace) -> (Vec<&str>, Vec<EventContent>) {
    let names = trace.planes().iter().map(|plane| trace.text(plane.name));
    let lines = trace.planes().iter().flat_map(|plane| &plane.lines);
    let events = lines.flat_map(|line| line.events());
    let events = events.map(|event| (event.kind, event.start.map(|start| start.get()), event.duration.get()));
    (names.collect(), events.collect())
}
