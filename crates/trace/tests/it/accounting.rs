//! Accounting against the formulas by their words, on recorded traces and on small ones of every platform.

use std::collections::BTreeMap;

use ergometer_trace::accounting::{
    By, Class, Filter, FoundBy, StepsBy, executions, gaps, modules, rows, scopes, steps, summary,
};
use ergometer_trace::{ProgramId, Text, Trace};
use proptest::prelude::*;

use crate::encode::{Event, EventMetadata, Line, Place, Plane, Space, Stat, Style, Value};
use crate::formulas::{self, Interval};
use crate::{fixture, reference, seen, strict};

fn placed(line: &seen::Line) -> Vec<Interval> {
    line.events.iter().filter_map(|event| Some((event.start_ps?, event.start_ps? + event.duration_ps))).collect()
}

/// Every plane and line of a file has the times that the formulas give.
fn agrees(file: &[u8]) {
    let trace = strict(file).expect("a whole file");
    let expected = reference::expect(&[("host.xplane.pb", file)]);
    let summaries = summary(&trace, 7);
    for (number, plane) in expected.planes.iter().enumerate() {
        let count: usize = plane.lines.iter().map(|line| line.events.len()).sum();
        let Some(found) = summaries.iter().find(|summary| summary.plane == number) else {
            assert_eq!(count, 0, "{}", plane.name);
            continue;
        };
        assert_eq!(found.events, count as u64);
        let all: Vec<Interval> = plane.lines.iter().flat_map(placed).collect();
        assert_eq!(i128::from(found.busy.get()), formulas::busy(&all));
        assert_eq!(found.span.map_or(0, |span| i128::from(span.length().get())), formulas::span(&all));
        for (line, found) in plane.lines.iter().zip(&found.lines) {
            let intervals = placed(line);
            assert_eq!(i128::from(found.busy.get()), formulas::busy(&intervals), "{}", line.name);
            let unplaced: i128 = line
                .events
                .iter()
                .filter(|event| event.start_ps.is_none())
                .map(|event| i128::from(event.duration_ps))
                .sum();
            assert_eq!(i128::from(found.total.get()), formulas::total(&intervals) + unplaced);
            let self_time: i128 = formulas::self_times(&intervals).iter().sum();
            assert_eq!(i128::from(found.self_time.get()), self_time + unplaced);
        }
    }
    names_agree(&trace, &expected);
}

/// The intervals, durations and self time of a name.
type Named = (Vec<Interval>, Vec<i64>, i128);

/// Times by name, over all lines of a plane.
fn names_agree(trace: &Trace, expected: &seen::Seen) {
    let mut by_name: BTreeMap<(usize, String), Named> = BTreeMap::new();
    for (number, plane) in expected.planes.iter().enumerate() {
        for line in &plane.lines {
            let mut self_times = formulas::self_times(&placed(line)).into_iter();
            for event in &line.events {
                let name = by_name.entry((number, event.kind.name.clone())).or_default();
                name.1.push(event.duration_ps);
                match event.start_ps {
                    Some(start) => {
                        name.0.push((start, start + event.duration_ps));
                        name.2 += self_times.next().expect("one a placed event");
                    }
                    None => name.2 += i128::from(event.duration_ps),
                }
            }
        }
    }
    let found = rows(trace, By::Name, &Filter::default());
    assert_eq!(found.len(), by_name.len());
    for row in found {
        let name = trace.text(row.label.name.expect("a name"));
        let (intervals, mut durations, self_time) = by_name.remove(&(row.plane, name.to_owned())).expect("a name once");
        let account = row.account;
        durations.sort_unstable();
        assert_eq!(account.events, durations.len() as u64, "{name}");
        assert_eq!(i128::from(account.busy.get()), formulas::busy(&intervals), "{name}");
        assert_eq!(i128::from(account.self_time.get()), self_time, "{name}");
        assert_eq!(account.total.get(), durations.iter().sum::<i64>(), "{name}");
        assert_eq!((Some(&account.min.get()), Some(&account.max.get())), (durations.first(), durations.last()));
        let middle = durations.len() / 2;
        let median = if durations.len() % 2 == 1 {
            durations[middle] as f64
        } else {
            (durations[middle - 1] + durations[middle]) as f64 / 2.0
        };
        assert_eq!(account.median_ps, median, "{name}");
    }
}

#[test]
fn recorded_traces_have_the_times_of_the_formulas() {
    for name in ["small_cpu_666.xplane.pb", "gpu_autotune.xplane.pb"] {
        agrees(&fixture(name));
    }
}

fn small_line() -> impl Strategy<Value = Line> {
    let event =
        (1_i64..4, 0_i64..40, 0_i64..12, 0_i64..20).prop_map(|(metadata_id, offset, duration_ps, rare)| Event {
            metadata_id,
            place: if rare == 0 { Place::Occurrences(3) } else { Place::Offset(offset) },
            duration_ps,
            stats: Vec::new(),
        });
    (1_i64..4, prop::collection::vec(event, 0..20)).prop_map(|(id, events)| Line {
        id,
        name: b"a line".to_vec(),
        events,
        ..Line::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn traces_have_the_times_of_the_formulas(lines in prop::collection::vec(small_line(), 1..5)) {
        let plane = Plane {
            name: b"/device:GPU:0".to_vec(),
            lines,
            event_metadata: ["a", "b", "c"].iter().zip(1..).map(|(name, id)| (id, described(name))).collect(),
            ..Plane::default()
        };
        agrees(&Space { planes: vec![plane], ..Space::default() }.encode(Style::Plain));
    }
}

fn described(name: &str) -> EventMetadata {
    EventMetadata { name: name.as_bytes().to_vec(), ..EventMetadata::default() }
}

fn text(trace: &Trace, text: Option<Text>) -> &str {
    text.map_or("-", |text| trace.text(text))
}

fn runs(file: &[u8]) -> BTreeMap<(String, FoundBy), usize> {
    let trace = strict(file).expect("a whole file");
    let mut runs = BTreeMap::new();
    for execution in executions(&trace, &Filter::default()) {
        *runs.entry((text(&trace, execution.module).to_owned(), execution.found_by)).or_default() += 1;
    }
    runs
}

fn four_times_five(found_by: FoundBy) -> BTreeMap<(String, FoundBy), usize> {
    (0..4).map(|id| ((format!("jit_autotune_fn_{id}"), found_by), 5)).collect()
}

const SCOPES: &[u8] = b"/host:__ScopeRangeCallStack__";

#[test]
fn executions_are_found_by_scope_and_without() {
    let file = fixture("gpu_autotune.xplane.pb");
    assert_eq!(runs(&file), four_times_five(FoundBy::Scope));
    let [space] = reference::sessions_of(&file).try_into().expect("one session");

    let mut without_last = space.clone();
    for plane in without_last.planes.iter_mut().filter(|plane| plane.name == SCOPES) {
        let last = plane.stats.iter().filter(|stat| stat.id != 281_474_976_710_727).map(|stat| stat.id).max();
        plane.stats.retain(|stat| Some(stat.id) != last);
    }
    assert_eq!(runs(&without_last.encode(Style::Plain)), four_times_five(FoundBy::Scope));

    let mut without_scopes = space;
    without_scopes.planes.retain(|plane| plane.name != SCOPES);
    assert_eq!(runs(&without_scopes.encode(Style::Plain)), four_times_five(FoundBy::Correlation));
}

#[test]
fn executions_of_files_put_together_stay_apart() {
    let file = fixture("gpu_train_3.xplane.pb");
    let trace = strict(&[file.clone(), file].concat()).expect("two files in one");
    let found = modules(&trace, &Filter::default());
    assert_eq!(found.iter().map(|module| module.executions).collect::<Vec<_>>(), [Some(6)]);
}

#[test]
fn steps_are_annotated_or_derived() {
    let trace = strict(&fixture("gpu_train_3.xplane.pb")).expect("a whole file");
    let found = steps(&trace, &Filter::default());
    let facts: Vec<_> =
        found.iter().map(|step| (step.number, step.found_by, step.account.events, step.executions)).collect();
    assert_eq!(facts, [0, 1, 2].map(|number| (number, StepsBy::Annotation, 365, 1)));
    // The kernels of a step run after its annotation is closed: time alone would put them into the next.
    assert!(found[0].account.span.expect("work").end > found[0].span.end);

    let trace = strict(&fixture("gpu_infer_20.xplane.pb")).expect("a whole file");
    let found = steps(&trace, &Filter::default());
    assert!(
        found.iter().all(|step| step.found_by == StepsBy::Module && step.account.events == 156 && step.executions == 1)
    );
    assert_eq!(found.len(), 20);
}

#[test]
fn idle_time_is_the_sum_of_the_gaps() {
    for name in
        ["small_cpu_666.xplane.pb", "gpu_autotune.xplane.pb", "gpu_infer_20.xplane.pb", "med_cpu_26820.xplane.pb"]
    {
        let trace = strict(&fixture(name)).expect("a whole file");
        let found = gaps(&trace, &Filter::default());
        for plane in summary(&trace, 0).iter().filter_map(|plane| Some((plane.plane, plane.work.clone()?))) {
            let idle: i64 = found.iter().filter(|gap| gap.plane == plane.0).map(|gap| gap.span.length().get()).sum();
            assert_eq!(idle, plane.1.idle.get(), "{name}");
        }
    }
}

/// A TPU's plane: two steps, three runs of two modules, ops in them, a collective that computing hides in part.
fn tpu() -> Space {
    let event = |metadata_id, offset, duration_ps| Event {
        metadata_id,
        place: Place::Offset(offset),
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
fn a_tpu_answers_the_same_questions() {
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

    let found = steps(&trace, &none);
    let facts: Vec<_> =
        found.iter().map(|step| (step.number, step.found_by, step.account.events, step.executions)).collect();
    assert_eq!(facts, [(0, StepsBy::Line, 3, 1), (1, StepsBy::Line, 3, 2)]);

    let work = summary(&trace, 0)[0].work.clone().expect("work");
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
