//! `ergo trace scopes`: prints the time in each named scope of the program, as a tree.

use std::cmp::Ordering;
use std::process::ExitCode;

use ergometer_trace::accounting::{Scope, scopes};

use super::cell::Cell;
use super::listing::{Column, Listing, arrange};
use super::open::{Needs, device_cells, device_columns, open};
use crate::arguments::{ScopeSort, TableArguments};
use crate::exit::{Exit, Failure};
use crate::screen::Screen;

/// The device of a row.
const DEVICE: [Column; 4] = device_columns(1);

const COLUMNS: [Column; 17] = [
    DEVICE[0],
    DEVICE[1],
    DEVICE[2],
    DEVICE[3],
    Column::name("", "scope").only_table(),
    Column::data("scope"),
    Column::data("depth"),
    Column::figure("count", "count"),
    Column::figure("self_ps", "self"),
    Column::figure("own_ps", "own").rank(2),
    Column::figure("share", "share"),
    Column::figure("total_ps", "total").rank(6),
    Column::figure("busy_ps", "busy").rank(3),
    Column::figure("min_ps", "min").rank(8),
    Column::figure("median_ps", "median").rank(4),
    Column::figure("p90_ps", "p90").rank(7),
    Column::figure("max_ps", "max").rank(5),
];

pub(super) fn run(arguments: &TableArguments<ScopeSort>, screen: Screen) -> Result<ExitCode, Failure> {
    let opened = open(&arguments.files, Needs::Everything, screen)?;
    let filter = opened.filter(&arguments.filter)?;
    let trace = &opened.trace;
    let mut rows = scopes(trace, &filter);
    let mut notes = Vec::new();
    if rows.is_empty() {
        opened.explain_empty("scopes", &arguments.filter, screen);
    } else if rows.iter().all(|scope| scope.path.is_none()) {
        notes.push(String::from(
            "the trace has no scope names, neither in its events nor in a compiled program: record it with \
             `enable_hlo_proto`, which is JAX's default",
        ));
    } else {
        notes.push(String::from(
            "self: self time of the ops in a scope and its nested scopes; own: without nested scopes",
        ));
    }
    let more = arrange(&mut rows, &arguments.order, arguments.format, compare);
    let is_tree = matches!(arguments.order.sort, None | Some(ScopeSort::Tree));
    let cells = |row: &Scope| {
        let path = row.path.clone();
        let shown = if is_tree && !arguments.order.reverse { in_tree(row) } else { path.clone() };
        let mut cells = device_cells(trace, row.device);
        cells.extend([
            Cell::owned(shown.unwrap_or_else(|| String::from("(none)"))),
            path.map_or(Cell::Absent, Cell::owned),
            Cell::Count(row.depth as u64),
            Cell::Count(row.account.events),
            Cell::Time(row.account.self_time),
            Cell::Time(row.own_time),
            Cell::share(row.share),
        ]);
        cells.extend(Cell::times(&row.account));
        cells
    };
    Listing { columns: &COLUMNS, rows, more, cells, notes }.print(arguments.format, screen)?;
    Ok(Exit::Done.into())
}

/// The last part of a path, indented by its depth.
fn in_tree(scope: &Scope) -> Option<String> {
    let path = scope.path.as_deref()?;
    let mut open = 0_i32;
    // A slash in parentheses is not a separator.
    let last = path.char_indices().rev().find(|&(_, character)| {
        match character {
            ')' => open += 1,
            '(' => open -= 1,
            _ => {}
        }
        character == '/' && open <= 0
    });
    let name = last.filter(|_| scope.depth > 0).map_or(path, |(at, _)| &path[at + 1..]);
    Some(format!("{}{name}", "  ".repeat(scope.depth)))
}

fn compare(key: ScopeSort, left: &Scope, right: &Scope) -> Ordering {
    let (one, other) = (&left.account, &right.account);
    match key {
        ScopeSort::Tree => Ordering::Equal,
        ScopeSort::SelfTime => other.self_time.cmp(&one.self_time),
        ScopeSort::Own => right.own_time.cmp(&left.own_time),
        ScopeSort::Total => other.total.cmp(&one.total),
        ScopeSort::Busy => other.busy.cmp(&one.busy),
        ScopeSort::Count => other.events.cmp(&one.events),
        ScopeSort::Min => other.min.cmp(&one.min),
        ScopeSort::Median => other.median_ps.total_cmp(&one.median_ps),
        ScopeSort::P90 => other.p90_ps.total_cmp(&one.p90_ps),
        ScopeSort::Max => other.max.cmp(&one.max),
        ScopeSort::Name => left.path.cmp(&right.path),
    }
}
