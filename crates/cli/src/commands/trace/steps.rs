//! `ergo trace steps`: what each device did for each step of the program, and what was in no step.

use std::cmp::Ordering;
use std::process::ExitCode;

use ergometer_trace::accounting::{By, Filter, Step, StepsBy, outside_steps, rows, steps};
use ergometer_trace::{KeepIds, Trace};

use super::cell::Cell;
use super::listing::{Column, Listing, arrange};
use super::open::{host, open, plane_label, plane_name};
use crate::arguments::{StepSort, TableArguments};
use crate::exit::{Exit, Failure};
use crate::figures::thousands;
use crate::screen::Screen;

const COLUMNS: [Column; 13] = [
    Column::shared("", "device").only_table().rank(3),
    Column::data("plane"),
    Column::data("host"),
    Column::figure("step", "step"),
    Column::name("name", "name"),
    Column::data("found_by"),
    Column::figure("start_ps", "start").rank(1),
    Column::figure("span_ps", "span"),
    Column::figure("busy_ps", "busy"),
    Column::figure("total_ps", "total").rank(5),
    Column::figure("self_ps", "self").rank(4),
    Column::figure("events", "events"),
    Column::figure("executions", "executions").rank(2),
];

pub(super) fn run(arguments: &TableArguments<StepSort>, screen: Screen) -> Result<ExitCode, Failure> {
    let opened = open(&arguments.files, KeepIds::Yes, screen)?;
    let filter = opened.filter(&arguments.filter)?;
    let trace = &opened.trace;
    let mut rows = steps(trace, &filter);
    let notes = if rows.is_empty() {
        opened.tell_empty("steps", &arguments.filter, screen);
        Vec::new()
    } else {
        notes(trace, &filter, &rows)
    };
    let more =
        arrange(&mut rows, &arguments.order, arguments.format, |key, left, right| compare(trace, key, left, right));
    let cells = |row: &Step| {
        vec![
            Cell::owned(plane_label(trace, row.plane)),
            Cell::text(Some(plane_name(trace, row.plane))),
            Cell::text(host(trace, row.plane)),
            Cell::Number(row.number),
            Cell::text(Some(trace.text(row.name))),
            Cell::text(Some(found_by(row.found_by))),
            Cell::Time(row.span.start),
            Cell::Time(row.span.length()),
            Cell::Time(row.account.busy),
            Cell::Time(row.account.total),
            Cell::Time(row.account.self_time),
            Cell::Count(row.account.events),
            Cell::Count(row.executions),
        ]
    };
    Listing { columns: &COLUMNS, rows, more, cells, notes }.print(arguments.format, screen)?;
    Ok(Exit::Done.into())
}

fn found_by(found_by: StepsBy) -> &'static str {
    match found_by {
        StepsBy::Line => "line",
        StepsBy::Annotation => "annotation",
        StepsBy::Module => "module",
    }
}

/// Where the steps come from, and what is in none.
fn notes(trace: &Trace, filter: &Filter, steps: &[Step]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    let mut planes: Vec<usize> = steps.iter().map(|step| step.plane).collect();
    planes.dedup();
    for &plane in &planes {
        let Some(first) = steps.iter().find(|step| step.plane == plane) else { continue };
        let note = match first.found_by {
            StepsBy::Line => String::from("steps are those of the trace's own line; work is of the step it starts in"),
            StepsBy::Annotation => {
                String::from("steps are those the program annotated; work is of the step in which the host launched it")
            }
            StepsBy::Module => format!(
                "the program annotated no steps: each is a run of {}, the busiest module, up to the next run",
                trace.text(first.name)
            ),
        };
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let work = rows(trace, By::Class, filter);
    for &plane in &planes {
        let events = work.iter().filter(|row| row.plane == plane).map(|row| row.account.events).sum();
        let outside = outside_steps(steps, plane, events);
        if outside > 0 {
            notes.push(format!(
                "{} of {} events on {} are in no step",
                thousands(outside as f64),
                thousands(events as f64),
                plane_label(trace, plane)
            ));
        }
    }
    notes
}

fn compare(trace: &Trace, key: StepSort, left: &Step, right: &Step) -> Ordering {
    let (one, other) = (&left.account, &right.account);
    match key {
        StepSort::Start => left.span.start.cmp(&right.span.start),
        StepSort::Busy => other.busy.cmp(&one.busy),
        StepSort::SelfTime => other.self_time.cmp(&one.self_time),
        StepSort::Total => other.total.cmp(&one.total),
        StepSort::Span => right.span.length().cmp(&left.span.length()),
        StepSort::Events => other.events.cmp(&one.events),
        StepSort::Executions => right.executions.cmp(&left.executions),
        StepSort::Name => trace.text(left.name).cmp(trace.text(right.name)),
    }
}
