//! Compares accounting with the formulas, on recorded traces and on random lines.

use std::collections::BTreeMap;

use ergometer_trace::accounting::{By, Filter, FoundBy, Row, StepsBy, executions, gaps, modules, rows, steps, summary};
use ergometer_trace::{KeepIds, KeepLines, ReadOptions, Source, Text, Trace, UnplacedReason, read};
use proptest::prelude::*;

use crate::formulas::{self, Interval};
use crate::{fixture, reference, strict, view};
use ergometer_trace_testing::xspace::{Event, EventMetadata, Line, Plane, Space, Style, Timing};

fn is_aggregated(event: &view::Event) -> bool {
    matches!(event.why_unplaced, Some(UnplacedReason::Aggregated(_)))
}

fn placed(line: &view::Line) -> Vec<Interval> {
    line.events.iter().filter_map(|event| Some((event.start_ps?, event.start_ps? + event.duration_ps))).collect()
}

/// Checks that the times of every plane and line of a file match the formulas.
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
                .filter(|event| is_aggregated(event))
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
fn names_agree(trace: &Trace, expected: &view::TraceView) {
    let mut by_name: BTreeMap<(usize, String), Named> = BTreeMap::new();
    for (number, plane) in expected.planes.iter().enumerate() {
        for line in &plane.lines {
            let mut self_times = formulas::self_times(&placed(line)).into_iter();
            for event in &line.events {
                let name = by_name.entry((number, event.kind.name.clone())).or_default();
                if event.start_ps.is_some() || is_aggregated(event) {
                    name.1.push(event.duration_ps);
                }
                match event.start_ps {
                    Some(start) => {
                        name.0.push((start, start + event.duration_ps));
                        name.2 += self_times.next().expect("one a placed event");
                    }
                    None if is_aggregated(event) => name.2 += i128::from(event.duration_ps),
                    None => {}
                }
            }
        }
    }
    let found = rows(trace, By::Name, &Filter::default());
    assert_eq!(found.len(), by_name.len());
    for row in found {
        let name = trace.text(row.label.name.expect("a name"));
        let (intervals, mut durations, self_time) =
            by_name.remove(&(row.device.plane, name.to_owned())).expect("a name once");
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
            timing: if rare == 0 { Timing::Occurrences(3) } else { Timing::Offset(offset) },
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

pub(crate) fn described(name: &str) -> EventMetadata {
    EventMetadata { name: name.as_bytes().to_vec(), ..EventMetadata::default() }
}

pub(crate) fn text(trace: &Trace, text: Option<Text>) -> &str {
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
    let [space] = reference::parse_sessions(&file).try_into().expect("one session");

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
    let found = steps(&trace, &Filter::default()).steps;
    let facts: Vec<_> =
        found.iter().map(|step| (step.number, step.found_by, step.account.events, step.executions)).collect();
    assert_eq!(facts, [0, 1, 2].map(|number| (number, StepsBy::Annotation, 365, 1)));
    // The kernels of a step run after its annotation ends: by time alone they would belong to the next step.
    assert!(found[0].account.span.expect("work").end > found[0].window.end);

    let trace = strict(&fixture("gpu_infer_20.xplane.pb")).expect("a whole file");
    let found = steps(&trace, &Filter::default()).steps;
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
        for work in summary(&trace, 0).iter().flat_map(|plane| &plane.work) {
            let gaps = found.iter().filter(|gap| gap.device == work.device);
            assert_eq!(gaps.map(|gap| gap.span.length().get()).sum::<i64>(), work.idle.get(), "{name}");
        }
    }
}

#[test]
fn ops_do_not_need_lines_without_work() {
    for name in ["gpu_autotune.xplane.pb", "gpu_train_3.xplane.pb", "small_cpu_666.xplane.pb"] {
        let file = fixture(name);
        let options = ReadOptions { ids: KeepIds::No, lines: KeepLines::OfWork, ..ReadOptions::default() };
        let few = read(vec![Source::from_bytes("host.xplane.pb", file.clone())], &options).expect("a whole file");
        let all = strict(&file).expect("a whole file");
        let facts = |trace: &Trace| -> Vec<(String, i64, u64)> {
            let rows = rows(trace, By::Op, &Filter::default());
            let fact =
                |row: &Row| (text(trace, row.label.name).to_owned(), row.account.self_time.get(), row.account.events);
            rows.iter().map(fact).collect()
        };
        assert_eq!(facts(&few), facts(&all), "{name}");
        assert!(few.event_count() < all.event_count(), "{name}");
    }
}
