//! Builds the tables of lines, ops, kernels, scopes, modules, executions, steps and gaps, with the columns of `ergo
//! trace … --format csv`.

use ergometer_statistics::percentile;
use ergometer_trace::accounting::{
    self, Account, By, Class, DeviceId, Execution, Filter, Gap, Module, Row, Scope, Span, Step,
};
use ergometer_trace::{KindId, Text, Trace};
use ergometer_units::Picos;
use pyo3::PyResult;

use crate::table::{Columns, Table};

/// Selects the times of the executions of a module.
type ModuleTimes = fn(&Module) -> &[Picos];

/// The columns that name the device of each row.
fn device_columns(trace: &Trace, rows: &[DeviceId]) -> Columns {
    let plane = |row: &DeviceId| trace.planes().get(row.plane);
    Columns::default()
        .text("plane", rows.iter().map(|row| plane(row).map(|plane| trace.text(plane.name))))
        .text("host", rows.iter().map(|row| plane(row)?.host.map(|host| trace.text(host))))
        .integer("device_ordinal", rows.iter().map(|row| row.ordinal))
}

fn text(trace: &Trace, text: Option<Text>) -> Option<&str> {
    text.map(|text| trace.text(text))
}

/// One row per line, with its times.
pub(super) fn lines(trace: &Trace) -> PyResult<Table> {
    let planes = accounting::summary(trace, 1);
    let rows: Vec<_> =
        planes.iter().flat_map(|plane| plane.lines.iter().map(move |line| (plane.plane, line))).collect();
    let ids: Vec<DeviceId> = rows.iter().map(|&(plane, _)| DeviceId { plane, ordinal: None }).collect();
    let lines = || rows.iter().map(|(_, line)| line);
    device_columns(trace, &ids)
        .text("line", lines().map(|line| Some(trace.text(line.name))))
        .integer("line_id", lines().map(|line| line.id))
        .count("events", lines().map(|line| line.events))
        .integer("start_ps", lines().map(|line| line.span.map(|span| span.start.get())))
        .integer("end_ps", lines().map(|line| line.span.map(|span| span.end.get())))
        .integer("busy_ps", lines().map(|line| line.busy.get()))
        .integer("total_ps", lines().map(|line| line.total.get()))
        .integer("self_ps", lines().map(|line| line.self_time.get()))
        .finish()
}

/// One row per label, longest self time first.
pub(super) fn rows(trace: &Trace, by: By, filter: &Filter) -> PyResult<Table> {
    let rows = accounting::rows(trace, by, filter);
    let ids: Vec<DeviceId> = rows.iter().map(|row| row.device).collect();
    let accounts = |value: fn(&Account) -> i64| rows.iter().map(move |row| value(&row.account));
    let with_modules = |columns: Columns| match by {
        By::Op => columns
            .text("module", rows.iter().map(|row| text(trace, row.label.module)))
            .program("program_id", rows.iter().map(|row| row.label.program)),
        By::Kernel | By::Name | By::Class => columns,
    };
    let name = rows.iter().map(|row| text(trace, row.label.name));
    with_modules(device_columns(trace, &ids).text("name", name))
        .text("class", rows.iter().map(|row| row.class.map(Class::name)))
        .count("count", rows.iter().map(|row| row.account.events))
        .integer("self_ps", accounts(|account| account.self_time.get()))
        .number("share", rows.iter().map(|row: &Row| row.share))
        .integer("total_ps", accounts(|account| account.total.get()))
        .integer("busy_ps", accounts(|account| account.busy.get()))
        .integer("min_ps", accounts(|account| account.min.get()))
        .number("median_ps", rows.iter().map(|row| row.account.median_ps))
        .number("p90_ps", rows.iter().map(|row| row.account.p90_ps))
        .integer("max_ps", accounts(|account| account.max.get()))
        .finish()
}

/// One row per module, with its number of executions and the time of an execution.
pub(super) fn modules(trace: &Trace, filter: &Filter) -> PyResult<Table> {
    let rows = accounting::modules(trace, filter);
    let ids: Vec<DeviceId> = rows.iter().map(|row| row.device).collect();
    let executions = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let mut columns = device_columns(trace, &ids)
        .text("module", rows.iter().map(|row| text(trace, row.module)))
        .program("program_id", rows.iter().map(|row| row.program))
        .count("events", rows.iter().map(|row| row.account.events))
        .integer("executions", rows.iter().map(|row| row.executions.map(executions)))
        .integer("busy_ps", rows.iter().map(|row| row.account.busy.get()))
        .number("share", rows.iter().map(|row| row.share))
        .integer("total_ps", rows.iter().map(|row| row.account.total.get()))
        .integer("self_ps", rows.iter().map(|row| row.account.self_time.get()))
        .integer("span_ps", rows.iter().map(|row| row.account.span.map(|span| span.length().get())));
    let times: [(&str, ModuleTimes); 2] = [("busy", |row| &row.busy), ("span", |row| &row.spans)];
    for (name, times) in times {
        let spreads: Vec<Vec<i64>> = rows.iter().map(|row| sorted(times(row))).collect();
        let named = |what: &str| format!("{name}_per_execution_{what}_ps");
        columns = columns
            .number(&named("mean"), spreads.iter().map(|times| mean(times)))
            .number(&named("median"), spreads.iter().map(|times| percentile(times, 50.0)))
            .number(&named("p90"), spreads.iter().map(|times| percentile(times, 90.0)))
            .integer(&named("min"), spreads.iter().map(|times| times.first().copied()))
            .integer(&named("max"), spreads.iter().map(|times| times.last().copied()));
    }
    columns.finish()
}

fn sorted(times: &[Picos]) -> Vec<i64> {
    let mut sorted: Vec<i64> = times.iter().map(|time| time.get()).collect();
    sorted.sort_unstable();
    sorted
}

fn mean(times: &[i64]) -> Option<f64> {
    let sum: i128 = times.iter().map(|&time| i128::from(time)).sum();
    (!times.is_empty()).then(|| sum as f64 / times.len() as f64)
}

/// One row per execution of a module, in order of time.
pub(super) fn executions(trace: &Trace, filter: &Filter) -> PyResult<Table> {
    let rows = accounting::executions(trace, filter);
    let ids: Vec<DeviceId> = rows.iter().map(|row| row.device).collect();
    let times = |value: fn(&Execution) -> Picos| rows.iter().map(move |row| value(row).get());
    device_columns(trace, &ids)
        .text("module", rows.iter().map(|row| text(trace, row.module)))
        .program("program_id", rows.iter().map(|row| row.program))
        .count("execution", rows.iter().map(|row| row.number))
        .integer("id", rows.iter().map(|row| row.id))
        .text("found_by", rows.iter().map(|row| Some(row.found_by.name())))
        .integer("start_ps", times(|row| row.span.start))
        .integer("busy_ps", times(|row| row.account.busy))
        .integer("span_ps", times(|row| Span::length(row.span)))
        .integer("total_ps", times(|row| row.account.total))
        .integer("self_ps", times(|row| row.account.self_time))
        .count("events", rows.iter().map(|row| row.account.events))
        .finish()
}

/// One row per named scope, each followed by its inner scopes, longest first.
pub(super) fn scopes(trace: &Trace, filter: &Filter) -> PyResult<Table> {
    let rows = accounting::scopes(trace, filter);
    let ids: Vec<DeviceId> = rows.iter().map(|row| row.device).collect();
    let accounts = |value: fn(&Account) -> Picos| rows.iter().map(move |row: &Scope| value(&row.account).get());
    device_columns(trace, &ids)
        .text("scope", rows.iter().map(|row| row.path.as_deref()))
        .count("depth", rows.iter().map(|row| row.depth as u64))
        .count("count", rows.iter().map(|row| row.account.events))
        .integer("self_ps", accounts(|account| account.self_time))
        .integer("own_ps", rows.iter().map(|row| row.own_time.get()))
        .number("share", rows.iter().map(|row| row.share))
        .integer("total_ps", accounts(|account| account.total))
        .integer("busy_ps", accounts(|account| account.busy))
        .integer("min_ps", accounts(|account| account.min))
        .number("median_ps", rows.iter().map(|row| row.account.median_ps))
        .number("p90_ps", rows.iter().map(|row| row.account.p90_ps))
        .integer("max_ps", accounts(|account| account.max))
        .finish()
}

/// One row per step, by device and time.
pub(super) fn steps(trace: &Trace, filter: &Filter) -> PyResult<Table> {
    let rows = accounting::steps(trace, filter).steps;
    let ids: Vec<DeviceId> = rows.iter().map(|row| row.device).collect();
    let times = |value: fn(&Step) -> Picos| rows.iter().map(move |row| value(row).get());
    let spans = |value: fn(Span) -> Picos| rows.iter().map(move |row| row.account.span.map(|span| value(span).get()));
    device_columns(trace, &ids)
        .integer("step", rows.iter().map(|row| row.number))
        .text("name", rows.iter().map(|row| Some(trace.text(row.name))))
        .text("found_by", rows.iter().map(|row| Some(row.found_by.name())))
        .integer("window_start_ps", times(|row| row.window.start))
        .integer("window_span_ps", times(|row| row.window.length()))
        .integer("start_ps", spans(|span| span.start))
        .integer("span_ps", spans(Span::length))
        .integer("busy_ps", times(|row| row.account.busy))
        .integer("total_ps", times(|row| row.account.total))
        .integer("self_ps", times(|row| row.account.self_time))
        .count("events", rows.iter().map(|row| row.account.events))
        .count("executions", rows.iter().map(|row| row.executions))
        .finish()
}

/// One row per gap between the first and the last work of a device, longest first.
pub(super) fn gaps(trace: &Trace, filter: &Filter) -> PyResult<Table> {
    let rows = accounting::gaps(trace, filter);
    let ids: Vec<DeviceId> = rows.iter().map(|row| row.device).collect();
    let name = |kind: fn(&Gap) -> KindId| rows.iter().map(move |row| Some(trace.text(trace.kind(kind(row)).name)));
    let module = |kind: fn(&Gap) -> KindId| rows.iter().map(move |row| text(trace, trace.kind(kind(row)).module));
    device_columns(trace, &ids)
        .integer("start_ps", rows.iter().map(|row| row.span.start.get()))
        .integer("duration_ps", rows.iter().map(|row| row.span.length().get()))
        .text("before", name(|row| row.before))
        .text("before_module", module(|row| row.before))
        .text("after", name(|row| row.after))
        .text("after_module", module(|row| row.after))
        .finish()
}
