//! Tests accounting on small synthetic traces of every platform.

use ergometer_trace::accounting::{By, Class, Filter, StepsBy, executions, modules, rows, scopes, steps, summary};
use ergometer_trace::{ProgramId, Trace};

use crate::accounting::{described, text};
use crate::strict;
use ergometer_trace_testing::xspace::{Event, EventMetadata, Line, Plane, Space, Stat, Style, Timing, Value};

/// The plane of a TPU: two steps, three runs of two modules, their ops, and a collective that overlaps with
/// computation.
fn tpu() -> Space {
    let event = |metadata_id, offset, duration_ps| Event {
        metadata_id,
        timing: Timing::Offset(offset),
        duration_ps,
        stats: vec![],
    };
    let run = |metadata_id, offset, duration_ps, run_id| Event {
        stats: vec![Stat { id: 1, value: Some(Value::Unsigned(run_id)) }],
        ..event(metadata_id, offset, duration_ps)
    };
    let line = |id, name: &str, events| Line { id, name: name.as_bytes().to_vec(), events, ..Line::default() };
    let path = |text: &str| vec![Stat { id: 2, value: Some(Value::Text(text.as_bytes().to_vec())) }];
    let op = |name: &str, scope: &str| EventMetadata { stats: path(scope), ..described(name) };
    Space {
        planes: vec![Plane {
            name: b"/device:TPU:0".to_vec(),
            lines: vec![
                line(1, "Steps", vec![event(1, 0, 100), event(2, 100, 100)]),
                line(2, "XLA Modules", vec![run(3, 0, 90, 7), run(3, 100, 60, 8), run(4, 170, 20, 9)]),
                line(
                    3,
                    "XLA Ops",
                    vec![event(5, 0, 40), event(6, 50, 40), event(5, 100, 30), event(6, 130, 30), event(5, 170, 10)],
                ),
                line(4, "Async XLA Ops", vec![event(7, 30, 30)]),
            ],
            event_metadata: vec![
                (1, described("0")),
                (2, described("1")),
                (3, described("jit_step(18446744073709551615)")),
                (4, described("jit_eval(12)")),
                (5, op("fusion.1", "jit(step)/layer_0/dot")),
                (6, op("fusion.2", "jit(step)/layer_1/dot")),
                (7, described("all-reduce-start.1")),
            ],
            stat_metadata: vec![(1, b"run_id".to_vec()), (2, b"tf_op".to_vec())],
            ..Plane::default()
        }],
        ..Space::default()
    }
}

#[test]
fn a_tpu_has_modules_executions_steps_and_gaps() {
    let trace = strict(&tpu().encode(Style::Plain)).expect("a whole file");
    let none = Filter::default();
    let ops: Vec<_> = rows(&trace, By::Op, &none)
        .iter()
        .map(|row| {
            (
                text(&trace, row.label.name).to_owned(),
                text(&trace, row.label.module).to_owned(),
                row.account.self_time.get(),
            )
        })
        .collect();
    let expected = [
        ("fusion.1", "jit_step", 70),
        ("fusion.2", "jit_step", 70),
        ("all-reduce-start.1", "jit_step", 30),
        ("fusion.1", "jit_eval", 10),
    ];
    assert_eq!(ops, expected.map(|(op, module, time)| (op.to_owned(), module.to_owned(), time)));

    let found = modules(&trace, &none);
    let facts: Vec<_> = found
        .iter()
        .map(|module| {
            let program = module.program.map(ProgramId::get);
            (text(&trace, module.module), program, module.executions, module.account.events, module.account.busy.get())
        })
        .collect();
    let largest = i128::from(u64::MAX);
    assert_eq!(facts, [("jit_step", Some(largest), Some(2), 5, 150), ("jit_eval", Some(12), Some(1), 1, 10)]);

    let found = steps(&trace, &none).steps;
    let facts: Vec<_> =
        found.iter().map(|step| (step.number, step.found_by, step.account.events, step.executions)).collect();
    assert_eq!(facts, [(0, StepsBy::Line, 3, 1), (1, StepsBy::Line, 3, 2)]);

    let work = summary(&trace, 0)[0].work[0].clone();
    assert_eq!((work.busy.get(), work.idle.get()), (160, 20));
    let communication = work.classes.iter().find(|class| class.class == Class::Communication).expect("a collective");
    assert_eq!((communication.busy.get(), communication.exposed.get()), (30, 10));

    let found = scopes(&trace, &none);
    let facts: Vec<_> =
        found.iter().map(|scope| (scope.path.as_deref(), scope.depth, scope.account.self_time.get())).collect();
    assert_eq!(
        facts,
        [
            (Some("jit(step)"), 0, 150),
            (Some("jit(step)/layer_0"), 1, 80),
            (Some("jit(step)/layer_0/dot"), 2, 80),
            (Some("jit(step)/layer_1"), 1, 70),
            (Some("jit(step)/layer_1/dot"), 2, 70),
            (None, 0, 30),
        ]
    );

    let filter = Filter { prefix: Some(String::from("jit_eval")), ..Filter::default() };
    assert_eq!(rows(&trace, By::Op, &filter).len(), 1);
}

fn event(metadata_id: i64, offset: i64, duration_ps: i64) -> Event {
    Event { metadata_id, timing: Timing::Offset(offset), duration_ps, stats: vec![] }
}

fn line(id: i64, name: &str, events: Vec<Event>) -> Line {
    Line { id, name: name.as_bytes().to_vec(), events, ..Line::default() }
}

/// A trace of one plane with these event and stat names.
fn plane(name: &str, lines: Vec<Line>, names: &[&str], stats: &[&str]) -> Trace {
    let plane = Plane {
        name: name.as_bytes().to_vec(),
        lines,
        event_metadata: names.iter().zip(1..).map(|(name, id)| (id, described(name))).collect(),
        stat_metadata: stats.iter().zip(1..).map(|(name, id)| (id, name.as_bytes().to_vec())).collect(),
        ..Plane::default()
    };
    strict(&Space { planes: vec![plane], ..Space::default() }.encode(Style::Plain)).expect("a whole file")
}

#[test]
fn times_at_the_ends_of_the_range_do_not_overflow() {
    let farthest = (1 << 62) - 1;
    let lines = [1, 2].map(|id| line(id, "Stream", vec![event(1, -farthest, i64::MAX - 1)])).to_vec();
    let trace = plane("/device:GPU:0", lines, &["long"], &[]);
    let found = rows(&trace, By::Kernel, &Filter::default());
    assert_eq!((found[0].account.busy.get(), found[0].account.total.get()), (i64::MAX - 1, i64::MAX));
}

#[test]
fn an_event_out_of_range_does_not_change_shares() {
    let lines = vec![line(1, "Stream", vec![event(1, 0, 1000), event(2, 5, i64::MAX)])];
    let trace = plane("/device:GPU:0", lines, &["good", "bad"], &[]);
    let found: Vec<_> = rows(&trace, By::Kernel, &Filter::default())
        .iter()
        .map(|row| (text(&trace, row.label.name).to_owned(), row.account.events, row.account.total.get(), row.share))
        .collect();
    assert_eq!(found, [("good".into(), 1, 1000, Some(1.0)), ("bad".into(), 1, 0, Some(0.0))]);
}

#[test]
fn events_without_a_start_time_belong_to_no_run_and_no_step() {
    let aggregated = Event { timing: Timing::Occurrences(9), ..event(4, 0, 1_000_000) };
    let lines = vec![
        line(1, "Steps", vec![event(1, 0, 90), event(2, 100, 90)]),
        line(2, "XLA Modules", vec![event(3, 0, 90), event(3, 100, 90)]),
        line(3, "XLA Ops", vec![event(4, 0, 40), event(4, 100, 40), aggregated]),
    ];
    let trace = plane("/device:TPU:0", lines, &["0", "1", "jit_f(1)", "op"], &[]);
    let none = Filter::default();
    let totals: Vec<i64> = executions(&trace, &none).iter().map(|run| run.account.total.get()).collect();
    assert_eq!(totals, [40, 40]);
    let found = steps(&trace, &none);
    assert_eq!(found.steps.iter().map(|step| step.account.total.get()).collect::<Vec<_>>(), [40, 40]);
    assert_eq!(found.outside.iter().map(|(_, events)| *events).collect::<Vec<_>>(), [1]);
    let of_modules: Vec<_> =
        modules(&trace, &none).iter().map(|module| (module.module.is_some(), module.account.total.get())).collect();
    assert_eq!(of_modules, [(true, 80), (false, 1_000_000)]);
}

#[test]
fn nested_runs_runs_without_ops_and_two_lines_of_modules() {
    let lines = vec![
        line(1, "XLA Modules", vec![event(1, 0, 100), event(1, 10, 10)]),
        line(2, "XLA Modules", vec![event(2, 200, 100)]),
        line(3, "XLA Ops", vec![event(3, 50, 5), event(3, 12, 2)]),
    ];
    let trace = plane("/device:TPU:0", lines, &["jit_f(1)", "jit_g(2)", "op"], &[]);
    let found: Vec<_> = executions(&trace, &Filter::default())
        .iter()
        .map(|run| (text(&trace, run.module).to_owned(), run.span.length().get(), run.account.events))
        .collect();
    assert_eq!(found, [("jit_f".into(), 100, 1), ("jit_f".into(), 10, 1), ("jit_g".into(), 100, 0)]);
    let found: Vec<_> = modules(&trace, &Filter::default()).iter().map(|module| module.executions).collect();
    assert_eq!(found, [Some(2), Some(1)]);
}

/// An op of a device of the host.
fn host_op(metadata_id: i64, offset: i64, duration_ps: i64, device: i64, run: i64) -> Event {
    let stat = |id, value| Stat { id, value: Some(value) };
    let stats = vec![
        stat(1, Value::Text(b"op".to_vec())),
        stat(2, Value::Text(b"jit_f".to_vec())),
        stat(3, Value::Signed(device)),
        stat(4, Value::Signed(run)),
    ];
    Event { stats, ..event(metadata_id, offset, duration_ps) }
}

const HOST_STATS: [&str; 5] = ["hlo_op", "hlo_module", "device_ordinal", "run_id", "step_num"];

#[test]
fn devices_of_one_plane_have_separate_accounts() {
    // Device 1 computes while device 0 communicates, which does not count as overlap.
    let lines = vec![
        line(1, "a", vec![host_op(1, 0, 10, 0, 1), host_op(2, 10, 10, 0, 1)]),
        line(2, "b", vec![host_op(1, 10, 10, 1, 1), host_op(2, 30, 10, 1, 1)]),
    ];
    let trace = plane("/host:CPU", lines, &["dot", "all-reduce.1"], &HOST_STATS);
    let works = summary(&trace, 0)[0].work.clone();
    let facts: Vec<_> =
        works.iter().map(|work| (work.device.ordinal, work.busy.get(), work.idle.get(), work.gaps)).collect();
    assert_eq!(facts, [(Some(0), 20, 0, 0), (Some(1), 20, 10, 1)]);
    for work in &works {
        let communication = work.classes.iter().find(|class| class.class == Class::Communication).expect("some");
        assert_eq!(communication.exposed.get(), 10);
    }
    let filter = Filter { devices: vec![String::from("cpu#1")], ..Filter::default() };
    assert!(rows(&trace, By::Kernel, &filter).iter().all(|row| row.device.ordinal == Some(1)));
    // A run on two devices is one step of each.
    assert_eq!(steps(&trace, &Filter::default()).steps.len(), 2);
}

#[test]
fn work_belongs_to_the_step_that_launched_it() {
    let step = |number: i64, offset| Event {
        stats: vec![Stat { id: 5, value: Some(Value::Signed(number)) }],
        ..event(3, offset, 10)
    };
    // Each call is reported by two nested events; both runs begin after the annotations end.
    let calls = vec![step(0, 0), event(2, 1, 5), event(2, 2, 3), step(1, 20), event(2, 21, 5), event(2, 22, 3)];
    let lines = vec![
        line(1, "python", calls),
        line(2, "worker", vec![host_op(1, 40, 10, 0, 7), host_op(1, 50, 10, 0, 8), host_op(1, 61, 4, 0, 8)]),
    ];
    let trace = plane("/host:CPU", lines, &["dot", "PjitFunction(f)", "train"], &HOST_STATS);
    let found = steps(&trace, &Filter::default());
    let facts: Vec<_> = found.steps.iter().map(|step| (step.number, step.account.events, step.executions)).collect();
    assert_eq!(facts, [(0, 1, 1), (1, 2, 1)]);
    assert_eq!(found.outside[0].1, 0);
}

#[test]
fn nested_steps_contain_the_work_that_starts_in_them() {
    let step = |number: i64, offset, duration| Event {
        stats: vec![Stat { id: 1, value: Some(Value::Signed(number)) }],
        ..event(1, offset, duration)
    };
    let mut annotations = vec![step(1000, 0, 10_000)];
    annotations.extend((0..100).map(|number| step(number, number * 100, 50)));
    let kernels = (0..100).map(|number| event(2, number * 100 + 70, 10)).collect();
    let metadata = |names: &[&str]| names.iter().zip(1..).map(|(name, id)| (id, described(name))).collect::<Vec<_>>();
    let planes =
        [("/host:CPU", "python", annotations), ("/device:GPU:0", "Stream", kernels)].map(|(name, thread, events)| {
            Plane {
                name: name.as_bytes().to_vec(),
                lines: vec![line(1, thread, events)],
                event_metadata: metadata(&["train", "kernel"]),
                stat_metadata: vec![(1, b"step_num".to_vec())],
                ..Plane::default()
            }
        });
    let trace =
        strict(&Space { planes: planes.to_vec(), ..Space::default() }.encode(Style::Plain)).expect("a whole file");
    let found = steps(&trace, &Filter::default());
    let outer = found.steps.iter().find(|step| step.number == 1000).expect("the outer step");
    assert_eq!((outer.account.events, found.outside[0].1), (100, 0));
}
