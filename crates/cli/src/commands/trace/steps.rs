//! `ergo trace steps`: prints the work of each device in each step of the program, and the work outside steps.

use std::cmp::Ordering;
use std::process::ExitCode;

use ergometer_diagnostics::{Message, command, hint};
use ergometer_trace::Trace;
use ergometer_trace::accounting::{DeviceId, Span, Step, Steps, StepsBy, steps};

use super::cell::Cell;
use super::listing::{Column, Listing, arrange};
use super::open::{Needs, device_cells, device_columns, device_label, open};
use super::rows::start;
use super::shares::Shares;
use crate::arguments::{StepSort, TableArguments};
use crate::exit::{Exit, Failure};
use crate::figures::{percent, thousands};
use crate::screen::Screen;

/// The device of a row.
const DEVICE: [Column; 4] = device_columns(3);

/// A step has a window, which the host annotated, and a span, in which its work ran on the device.
const COLUMNS: [Column; 17] = [
    DEVICE[0],
    DEVICE[1],
    DEVICE[2],
    DEVICE[3],
    Column::figure("step", "step"),
    Column::name("name", "name"),
    Column::data("found_by"),
    Column::figure("window_start_ps", "window start").rank(5),
    Column::figure("window_span_ps", "window").rank(2),
    Column::figure("start_ps", "work start").rank(4),
    Column::figure("span_ps", "work span"),
    Column::figure("busy_ps", "busy"),
    Column::figure("total_ps", "total").rank(7),
    Column::figure("self_ps", "self").rank(6),
    Column::figure("share", "share").rank(3),
    Column::figure("events", "events"),
    Column::figure("executions", "executions").rank(1),
];

pub(super) fn run(arguments: &TableArguments<StepSort>, screen: Screen) -> Result<ExitCode, Failure> {
    let opened = open(&arguments.files, Needs::Everything, screen)?;
    let filter = opened.filter(&arguments.filter)?;
    let trace = &opened.trace;
    let found = steps(trace, &filter);
    if found.steps.is_empty() {
        opened.explain_empty("steps", &arguments.filter, screen);
    }
    let notes = notes(trace, &found, screen);
    let shares = Shares::new(trace, &filter);
    let mut rows = found.steps;
    let more =
        arrange(&mut rows, &arguments.order, arguments.format, |key, left, right| compare(trace, key, left, right));
    let time = |time: Option<_>| time.map_or(Cell::Absent, Cell::Time);
    let cells = |row: &Step| {
        let mut cells = device_cells(trace, row.device);
        cells.extend([
            Cell::Number(row.number),
            Cell::text(Some(trace.text(row.name))),
            Cell::text(Some(row.found_by.name())),
            Cell::Time(row.window.start),
            Cell::Time(row.window.length()),
            time(row.account.span.map(|span| span.start)),
            time(row.account.span.map(Span::length)),
            Cell::Time(row.account.busy),
            Cell::Time(row.account.total),
            Cell::Time(row.account.self_time),
            Cell::share(shares.share(row.device, row.account.self_time)),
            Cell::Count(row.account.events),
            Cell::Count(row.executions),
        ]);
        cells
    };
    Listing { columns: &COLUMNS, rows, more, cells, notes }.print(arguments.format, screen)?;
    Ok(Exit::Done.into())
}

/// Notes on how steps were found and how many events are outside them. A warning if most are outside.
fn notes(trace: &Trace, found: &Steps, screen: Screen) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for &(device, _) in &found.outside {
        let Some(first) = found.steps.iter().find(|step| step.device == device) else { continue };
        let note = match first.found_by {
            StepsBy::Line => String::from(
                "steps come from the steps line of the trace; an event belongs to the step in which it starts",
            ),
            StepsBy::Annotation => String::from(
                "steps are annotations of the program; an event belongs to the step in which the host launched it, if \
                 the trace records the launch; else to the step in which it ran",
            ),
            StepsBy::Module => format!(
                "the program has no step annotations: a step lasts from one execution of {}, the busiest module, to the \
                 next, with the executions of other modules in between",
                trace.text(first.name)
            ),
        };
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    for &(device, outside) in &found.outside {
        let inside = events(found, device);
        if outside == 0 || !found.steps.iter().any(|step| step.device == device) {
            continue;
        }
        let (all, label) = (inside + outside, device_label(trace, device));
        notes.push(format!(
            "{} of {} events on {label} are outside every step",
            thousands(outside as f64),
            thousands(all as f64)
        ));
        if outside > inside {
            let share = percent(outside as f64 / all as f64);
            let message = Message::new(format!("{share} of the events on {label} are outside every step"));
            screen.warning(&message.with_hint(hint!(
                command("trace executions"),
                " lists every execution; an event belongs to a step if the program launches it, and waits for its result, \
                 inside the step annotation"
            )));
        }
    }
    notes
}

/// The number of events in the steps of a device.
fn events(found: &Steps, device: DeviceId) -> u64 {
    found.steps.iter().filter(|step| step.device == device).map(|step| step.account.events).sum()
}

fn compare(trace: &Trace, key: StepSort, left: &Step, right: &Step) -> Ordering {
    let (one, other) = (&left.account, &right.account);
    match key {
        StepSort::Start => start(one).cmp(&start(other)),
        StepSort::Busy => other.busy.cmp(&one.busy),
        StepSort::SelfTime => other.self_time.cmp(&one.self_time),
        StepSort::Total => other.total.cmp(&one.total),
        StepSort::Span => other.span.map(Span::length).cmp(&one.span.map(Span::length)),
        StepSort::Window => right.window.length().cmp(&left.window.length()),
        StepSort::Events => other.events.cmp(&one.events),
        StepSort::Executions => right.executions.cmp(&left.executions),
        StepSort::Name => trace.text(left.name).cmp(trace.text(right.name)),
    }
}
