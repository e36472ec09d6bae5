//! `ergo trace ops`, `kernels` and `events`: print counts and times by name.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::process::ExitCode;

use ergometer_trace::accounting::{Account, By, Class, Row, rows};
use ergometer_trace::{ProgramId, Text, Trace};
use ergometer_units::Picos;

use super::cell::Cell;
use super::listing::{Column, Listing, arrange};
use super::open::{Needs, device_cells, device_columns, open};
use crate::arguments::{ClassArguments, ClassChoice, KernelsArguments, OpsArguments, RowSort, TableArguments};
use crate::exit::{Exit, Failure};
use crate::screen::Screen;

/// The device of a row.
const DEVICE: [Column; 4] = device_columns(1);

/// The columns. `key` is the heading of the name.
pub(super) const fn columns(key: &'static str) -> [Column; 19] {
    [
        DEVICE[0],
        DEVICE[1],
        DEVICE[2],
        DEVICE[3],
        Column::name("name", key),
        Column::data(key).only_json(),
        Column::shared("module", "module"),
        Column::data("program_id"),
        Column::figure("", "program").only_table().rank(8),
        Column::distinct("class", "class").rank(4),
        Column::figure("count", "count"),
        Column::figure("self_ps", "self"),
        Column::figure("share", "share"),
        Column::figure("total_ps", "total").rank(7),
        Column::figure("busy_ps", "busy").rank(6),
        Column::figure("min_ps", "min").rank(10),
        Column::figure("median_ps", "median").rank(2),
        Column::figure("p90_ps", "p90").rank(9),
        Column::figure("max_ps", "max").rank(5),
    ]
}

/// Singular and plural of a row.
fn noun(by: By) -> (&'static str, &'static str) {
    match by {
        By::Op => ("op", "ops"),
        By::Kernel => ("kernel", "kernels"),
        By::Name => ("event", "events"),
        By::Class => ("class", "classes"),
    }
}

pub(super) fn ops(arguments: &OpsArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let is_selected = |trace: &Trace, row: &Row| {
        arguments.class.takes(row.class) && arguments.module.takes(row.label.module.map(|module| trace.text(module)))
    };
    list(&arguments.table, By::Op, is_selected, screen)
}

pub(super) fn kernels(arguments: &KernelsArguments, screen: Screen) -> Result<ExitCode, Failure> {
    list(&arguments.table, By::Kernel, |_: &Trace, row: &Row| arguments.class.takes(row.class), screen)
}

pub(super) fn events(arguments: &TableArguments<RowSort>, screen: Screen) -> Result<ExitCode, Failure> {
    list(arguments, By::Name, |_: &Trace, _: &Row| true, screen)
}

impl ClassArguments {
    fn takes(&self, class: Option<Class>) -> bool {
        self.class.is_none_or(|choice| {
            class
                == Some(match choice {
                    ClassChoice::Compute => Class::Compute,
                    ClassChoice::Communication => Class::Communication,
                    ClassChoice::Memcpy => Class::Memcpy,
                })
        })
    }
}

/// Prints the rows that pass the filters.
fn list(
    arguments: &TableArguments<RowSort>,
    by: By,
    is_selected: impl Fn(&Trace, &Row) -> bool,
    screen: Screen,
) -> Result<ExitCode, Failure> {
    let opened = open(&arguments.files, if by == By::Name { Needs::Times } else { Needs::Work }, screen)?;
    let filter = opened.filter(&arguments.filter)?;
    let trace = &opened.trace;
    let mut rows = rows(trace, by, &filter);
    let (key, what) = noun(by);
    let found = rows.len();
    rows.retain(|row| is_selected(trace, row));
    if found == 0 {
        opened.explain_empty(what, &arguments.filter, screen);
    } else if rows.is_empty() {
        screen.note(&format!("no {what} match --class/--module ({found} in the trace)"));
    }
    let more =
        arrange(&mut rows, &arguments.order, arguments.format, |key, left, right| compare(trace, key, left, right));
    let is_ambiguous = is_ambiguous(rows.iter().map(|row| (row.label.module, row.label.program)));
    let columns = columns(key);
    let cells = |row: &Row| cells(trace, row, is_ambiguous);
    Listing { columns: &columns, rows, more, cells, notes: Vec::new() }.print(arguments.format, screen)?;
    Ok(Exit::Done.into())
}

/// The cells of a row, one for each of [`columns`].
pub(super) fn cells<'a>(trace: &'a Trace, row: &Row, is_ambiguous: bool) -> Vec<Cell<'a>> {
    let module = row.label.module;
    let name = row.label.name.map(|name| trace.text(name));
    let mut cells = device_cells(trace, row.device);
    cells.extend([
        Cell::text(name),
        Cell::text(name),
        Cell::text(module.map(|module| trace.text(module))),
        Cell::program(row.label.program),
        Cell::program(row.label.program.filter(|_| is_ambiguous)),
        Cell::text(row.class.map(Class::name)),
        Cell::Count(row.account.events),
        Cell::Time(row.account.self_time),
        Cell::share(row.share),
    ]);
    cells.extend(Cell::times(&row.account));
    cells
}

/// Whether a module was compiled several times, so that its name is ambiguous.
pub(super) fn is_ambiguous(mut modules: impl Iterator<Item = (Option<Text>, Option<ProgramId>)>) -> bool {
    let mut first: HashMap<Text, Option<ProgramId>> = HashMap::new();
    modules.any(|(module, program)| module.is_some_and(|module| *first.entry(module).or_insert(program) != program))
}

/// Descending order; ascending for names and starts.
pub(super) fn compare(trace: &Trace, key: RowSort, left: &Row, right: &Row) -> Ordering {
    let (one, other) = (&left.account, &right.account);
    let name = |row: &Row| row.label.name.map(|name| trace.text(name));
    match key {
        RowSort::SelfTime => other.self_time.cmp(&one.self_time),
        RowSort::Share => right.share.unwrap_or(-1.0).total_cmp(&left.share.unwrap_or(-1.0)),
        RowSort::Total => other.total.cmp(&one.total),
        RowSort::Busy => other.busy.cmp(&one.busy),
        RowSort::Count => other.events.cmp(&one.events),
        RowSort::Min => other.min.cmp(&one.min),
        RowSort::Median => other.median_ps.total_cmp(&one.median_ps),
        RowSort::P90 => other.p90_ps.total_cmp(&one.p90_ps),
        RowSort::Max => other.max.cmp(&one.max),
        RowSort::Name => name(left).cmp(&name(right)),
        RowSort::Start => start(one).cmp(&start(other)),
    }
}

/// The first start; rows without a start come last.
pub(super) fn start(account: &Account) -> (bool, Picos) {
    (account.span.is_none(), account.span.map_or(Picos::ZERO, |span| span.start))
}
