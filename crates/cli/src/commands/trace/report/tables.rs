//! The tables of a trace.

use ergometer_charts::{Block, Cell, Table};
use ergometer_statistics::Distribution;
use ergometer_trace::accounting::{Class, Row};
use ergometer_units::Picos;
use ergometer_units::format::{percent, thousands};

use super::super::gaps::HEADS;
use super::{Accounts, seconds, share, shown};

/// The most rows of a table; the other `ergo trace` commands print all.
const MOST: usize = 1_000;

fn time(time: Picos) -> Cell {
    Cell::Number { value: seconds(time), shown: shown(time) }
}

fn count(count: u64) -> Cell {
    Cell::Number { value: count as f64, shown: thousands(count as f64) }
}

fn part(share: Option<f64>) -> Cell {
    Cell::number(share, percent)
}

/// The table, cut to [`MOST`] rows; `None` without rows.
fn finished(mut table: Table, all: usize, command: &str) -> Option<Block> {
    if all > MOST {
        table.notes.push(format!("Shows the first {MOST} of {} rows; `{command}` prints all.", thousands(all as f64)));
        table.rows.truncate(MOST);
    }
    (!table.rows.is_empty()).then_some(Block::Table(table))
}

pub(super) fn devices(account: &Accounts) -> Option<Block> {
    let heads = [
        ("device", "device"),
        ("class", "class"),
        ("events", "events"),
        ("busy", "busy_s"),
        ("exposed", "exposed_s"),
        ("share of time", "share"),
    ];
    let mut table = Table::new("devices", "Devices", &heads);
    for work in account.working() {
        for class in &work.classes {
            table.rows.push(vec![
                Cell::text(work.device.label(account.trace)),
                Cell::text(class.class.label()),
                count(class.events),
                time(class.busy),
                if class.class == Class::Compute { Cell::Absent } else { time(class.exposed) },
                part(share(class.busy, work.span.length())),
            ]);
        }
    }
    table.notes.push(String::from("Exposed: the time of communication and copies during which nothing was computed."));
    finished(table, 0, "ergo trace summary")
}

pub(super) fn modules(account: &Accounts) -> Option<Block> {
    let heads = [
        ("module", "module"),
        ("device", "device"),
        ("executions", "executions"),
        ("busy, median", "busy_median_s"),
        ("min", "busy_min_s"),
        ("max", "busy_max_s"),
        ("span, median", "span_median_s"),
        ("total busy", "busy_s"),
        ("share", "share"),
    ];
    let mut table = Table::new("modules", "Compiled modules", &heads);
    for module in account.modules.iter().take(MOST) {
        let distribution =
            |times: &[Picos]| Distribution::from_values(&times.iter().map(|time| seconds(*time)).collect::<Vec<f64>>());
        let (busy, span) = (distribution(&module.busy), distribution(&module.spans));
        let number = |value: Option<f64>| Cell::number(value, |value| ergometer_units::format::quantity(value, "s"));
        table.rows.push(vec![
            Cell::text(account.name(module.module)),
            Cell::text(module.device.label(account.trace)),
            module.executions.map_or(Cell::Absent, count),
            number(busy.map(|busy| busy.p50)),
            number(busy.map(|busy| busy.min)),
            number(busy.map(|busy| busy.max)),
            number(span.map(|span| span.p50)),
            time(module.account.busy),
            part(module.share),
        ]);
    }
    finished(table, account.modules.len(), "ergo trace modules")
}

pub(super) fn kernels(account: &Accounts) -> Option<Block> {
    finished(rows(account, &account.kernels, "kernels", "kernel"), account.kernels.len(), "ergo trace kernels")
}

pub(super) fn ops(account: &Accounts) -> Option<Block> {
    finished(rows(account, &account.ops, "ops", "op"), account.ops.len(), "ergo trace ops")
}

fn rows(account: &Accounts, rows: &[Row], id: &str, noun: &str) -> Table {
    let heads = [
        (noun, noun),
        ("module", "module"),
        ("device", "device"),
        ("count", "count"),
        ("self", "self_s"),
        ("share", "share"),
        ("total", "total_s"),
        ("mean", "mean_s"),
    ];
    let mut table = Table::new(id, "", &heads);
    for row in rows.iter().take(MOST) {
        let events = row.account.events;
        let mean = (events > 0).then(|| seconds(row.account.total) / events as f64);
        table.rows.push(vec![
            Cell::text(account.name(row.label.name)),
            row.label.module.map_or(Cell::Absent, |module| Cell::text(account.trace.text(module))),
            Cell::text(row.device.label(account.trace)),
            count(events),
            time(row.account.self_time),
            part(row.share),
            time(row.account.total),
            Cell::number(mean, |value| ergometer_units::format::quantity(value, "s")),
        ]);
    }
    table
}

pub(super) fn gaps(account: &Accounts) -> Option<Block> {
    let heads = [
        ("device", "device"),
        ("start", "start_s"),
        ("duration", "duration_s"),
        (HEADS[0], "before_kind"),
        (HEADS[1], "after_kind"),
    ];
    let mut table = Table::new("gaps", "Longest gaps", &heads);
    let kind = |id| account.trace.text(account.trace.kind(id).name).to_owned();
    for gap in account.gaps.iter().take(MOST) {
        table.rows.push(vec![
            Cell::text(gap.device.label(account.trace)),
            time(gap.span.start),
            time(gap.span.length()),
            Cell::text(kind(gap.before)),
            Cell::text(kind(gap.after)),
        ]);
    }
    finished(table, account.gaps.len(), "ergo trace gaps")
}

pub(super) fn executions(account: &Accounts) -> Option<Block> {
    let heads = [
        ("module", "module"),
        ("device", "device"),
        ("execution", "execution"),
        ("start", "start_s"),
        ("busy", "busy_s"),
        ("span", "span_s"),
        ("events", "events"),
    ];
    let mut table = Table::new("executions", "Executions of modules", &heads);
    for execution in account.executions.iter().take(MOST) {
        table.rows.push(vec![
            Cell::text(account.name(execution.module)),
            Cell::text(execution.device.label(account.trace)),
            count(execution.number),
            time(execution.span.start),
            time(execution.account.busy),
            time(execution.span.length()),
            count(execution.account.events),
        ]);
    }
    finished(table, account.executions.len(), "ergo trace executions")
}
