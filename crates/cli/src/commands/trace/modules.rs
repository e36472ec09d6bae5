//! `ergo trace modules`: prints the compiled modules, the number of their executions and their times.

use std::cmp::Ordering;
use std::process::ExitCode;

use ergometer_trace::Trace;
use ergometer_trace::accounting::{Module, Span, modules};

use super::cell::Cell;
use super::listing::{Column, Listing, arrange};
use super::open::{Needs, device_cells, device_columns, open};
use super::rows::{is_ambiguous, start};
use super::spread::Spread;
use crate::arguments::{ModuleSort, TableArguments};
use crate::exit::{Exit, Failure};
use crate::screen::Screen;

/// The device of a row.
const DEVICE: [Column; 4] = device_columns(4);

/// The columns. JSON has distributions as objects, CSV as one column per value.
pub(super) const COLUMNS: [Column; 29] = [
    DEVICE[0],
    DEVICE[1],
    DEVICE[2],
    DEVICE[3],
    Column::name("module", "module"),
    Column::data("program_id"),
    Column::figure("", "program").only_table().rank(5),
    Column::figure("events", "events").rank(3),
    Column::data("count"),
    Column::figure("executions", "executions"),
    Column::figure("busy_per_execution_ps", "busy/execution").only_json(),
    Column::figure("span_per_execution_ps", "span/execution").only_json().rank(1),
    Column::figure("busy_ps", "busy").rank(2),
    Column::figure("share", "share"),
    Column::data("total_ps"),
    Column::data("self_ps"),
    Column::data("span_ps"),
    Column::data("busy_per_execution_mean_ps").only_csv(),
    Column::data("busy_per_execution_half_width_ps").only_csv(),
    Column::data("busy_per_execution_median_ps").only_csv(),
    Column::data("busy_per_execution_p90_ps").only_csv(),
    Column::data("busy_per_execution_min_ps").only_csv(),
    Column::data("busy_per_execution_max_ps").only_csv(),
    Column::data("span_per_execution_mean_ps").only_csv(),
    Column::data("span_per_execution_half_width_ps").only_csv(),
    Column::data("span_per_execution_median_ps").only_csv(),
    Column::data("span_per_execution_p90_ps").only_csv(),
    Column::data("span_per_execution_min_ps").only_csv(),
    Column::data("span_per_execution_max_ps").only_csv(),
];

pub(super) fn run(arguments: &TableArguments<ModuleSort>, screen: Screen) -> Result<ExitCode, Failure> {
    let opened = open(&arguments.files, Needs::Everything, screen)?;
    let filter = opened.filter(&arguments.filter)?;
    let trace = &opened.trace;
    let mut rows = modules(trace, &filter);
    if rows.is_empty() {
        opened.explain_empty("modules", &arguments.filter, screen);
    }
    let more =
        arrange(&mut rows, &arguments.order, arguments.format, |key, left, right| compare(trace, key, left, right));
    let is_ambiguous = is_ambiguous(rows.iter().map(|row| (row.module, row.program)));
    let cells = |row: &Module| cells(trace, row, is_ambiguous);
    Listing { columns: &COLUMNS, rows, more, cells, notes: Vec::new() }.print(arguments.format, screen)?;
    Ok(Exit::Done.into())
}

/// The cells of a module, one for each of [`COLUMNS`].
pub(super) fn cells<'a>(trace: &'a Trace, row: &Module, is_ambiguous: bool) -> Vec<Cell<'a>> {
    let (busy, spans) = (Spread::from_times(&row.busy), Spread::from_times(&row.spans));
    let module = row.module;
    let mut cells = device_cells(trace, row.device);
    cells.extend([
        Cell::text(module.map(|module| trace.text(module))),
        Cell::program(row.program),
        Cell::program(row.program.filter(|_| is_ambiguous)),
        Cell::Count(row.account.events),
        Cell::Count(row.account.events),
        Cell::count(row.executions),
        Cell::spread(busy),
        Cell::spread(spans),
        Cell::Time(row.account.busy),
        Cell::share(row.share),
        Cell::Time(row.account.total),
        Cell::Time(row.account.self_time),
        row.account.span.map(Span::length).map_or(Cell::Absent, Cell::Time),
    ]);
    for spread in [busy, spans] {
        let part = |value: Option<f64>| value.map_or(Cell::Absent, Cell::Between);
        cells.extend([
            part(spread.map(|spread| spread.mean)),
            part(spread.and_then(|spread| spread.half_width)),
            part(spread.map(|spread| spread.median)),
            part(spread.map(|spread| spread.p90)),
            Cell::number(spread.map(|spread| spread.min)),
            Cell::number(spread.map(|spread| spread.max)),
        ]);
    }
    cells
}

fn compare(trace: &Trace, key: ModuleSort, left: &Module, right: &Module) -> Ordering {
    let (one, other) = (&left.account, &right.account);
    let name = |row: &Module| row.module.map(|module| trace.text(module));
    match key {
        ModuleSort::Busy => other.busy.cmp(&one.busy),
        ModuleSort::SelfTime => other.self_time.cmp(&one.self_time),
        ModuleSort::Total => other.total.cmp(&one.total),
        ModuleSort::Span => other.span.map(Span::length).cmp(&one.span.map(Span::length)),
        ModuleSort::Executions => right.executions.cmp(&left.executions),
        ModuleSort::Events => other.events.cmp(&one.events),
        ModuleSort::Name => name(left).cmp(&name(right)),
        ModuleSort::Start => start(one).cmp(&start(other)),
    }
}
