//! `ergo trace executions`: prints every execution of every module in order of time.

use std::cmp::Ordering;
use std::process::ExitCode;

use ergometer_trace::Trace;
use ergometer_trace::accounting::{Execution, FoundBy, executions};

use super::cell::Cell;
use super::listing::{Column, Listing, arrange};
use super::open::{Needs, device_cells, device_columns, open};
use super::rows::is_ambiguous;
use super::shares::Shares;
use crate::arguments::{ExecutionSort, ExecutionsArguments};
use crate::exit::{Exit, Failure};
use crate::figures::thousands;
use crate::screen::Screen;

/// The device of a row.
const DEVICE: [Column; 4] = device_columns(3);

const COLUMNS: [Column; 17] = [
    DEVICE[0],
    DEVICE[1],
    DEVICE[2],
    DEVICE[3],
    Column::name("module", "module"),
    Column::data("program_id"),
    Column::figure("", "program").only_table().rank(6),
    Column::figure("execution", "execution"),
    Column::data("id"),
    Column::data("found_by"),
    Column::figure("start_ps", "start").rank(1),
    Column::figure("busy_ps", "busy"),
    Column::figure("span_ps", "span"),
    Column::figure("total_ps", "total").rank(5),
    Column::figure("self_ps", "self").rank(4),
    Column::figure("share", "share").rank(3),
    Column::figure("events", "events").rank(2),
];

pub(super) fn run(arguments: &ExecutionsArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let ExecutionsArguments { table: arguments, module } = arguments;
    let opened = open(&arguments.files, Needs::Everything, screen)?;
    let filter = opened.filter(&arguments.filter)?;
    let trace = &opened.trace;
    let mut rows = executions(trace, &filter);
    let found = rows.len();
    rows.retain(|row| module.takes(row.module.map(|module| trace.text(module))));
    if found == 0 {
        opened.explain_empty("executions", &arguments.filter, screen);
    } else if rows.is_empty() {
        screen.note(&format!("no executions match --module ({found} in the trace)"));
    }
    let unknown = rows.iter().filter(|row| row.found_by == FoundBy::Nothing).count();
    if unknown > 0 {
        screen.warning(&format!(
            "the trace does not separate the executions of {}: each module is one row",
            if unknown == 1 { String::from("a module") } else { format!("{} modules", thousands(unknown as f64)) }
        ));
    }
    let more =
        arrange(&mut rows, &arguments.order, arguments.format, |key, left, right| compare(trace, key, left, right));
    let shares = Shares::new(trace, &filter);
    let is_ambiguous = is_ambiguous(rows.iter().map(|row| (row.module, row.program)));
    let cells = |row: &Execution| {
        let mut cells = device_cells(trace, row.device);
        cells.extend([
            Cell::text(row.module.map(|module| trace.text(module))),
            Cell::program(row.program),
            Cell::program(row.program.filter(|_| is_ambiguous)),
            Cell::Count(row.number),
            Cell::number(row.id),
            Cell::text(Some(row.found_by.name())),
            Cell::Time(row.span.start),
            Cell::Time(row.account.busy),
            Cell::Time(row.span.length()),
            Cell::Time(row.account.total),
            Cell::Time(row.account.self_time),
            Cell::share(shares.share(row.device, row.account.self_time)),
            Cell::Count(row.account.events),
        ]);
        cells
    };
    Listing { columns: &COLUMNS, rows, more, cells, notes: Vec::new() }.print(arguments.format, screen)?;
    Ok(Exit::Done.into())
}

fn compare(trace: &Trace, key: ExecutionSort, left: &Execution, right: &Execution) -> Ordering {
    let (one, other) = (&left.account, &right.account);
    let name = |row: &Execution| row.module.map(|module| trace.text(module));
    match key {
        ExecutionSort::Start => left.span.start.cmp(&right.span.start),
        ExecutionSort::Busy => other.busy.cmp(&one.busy),
        ExecutionSort::SelfTime => other.self_time.cmp(&one.self_time),
        ExecutionSort::Total => other.total.cmp(&one.total),
        ExecutionSort::Span => right.span.length().cmp(&left.span.length()),
        ExecutionSort::Events => other.events.cmp(&one.events),
        ExecutionSort::Name => name(left).cmp(&name(right)),
    }
}
