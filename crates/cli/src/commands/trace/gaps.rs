//! `ergo trace gaps`: when a device had nothing to do between its first and its last work.

use std::collections::HashMap;
use std::process::ExitCode;

use ergometer_trace::accounting::{Filter, Gap, gaps};
use ergometer_trace::{KeepIds, KindId, Trace};
use ergometer_units::Picos;

use super::cell::Cell;
use super::listing::{Column, Listing, arrange};
use super::open::{host, open, plane_label, plane_name};
use crate::arguments::{GapSort, TableArguments};
use crate::exit::{Exit, Failure};
use crate::figures::{percent, thousands, time_ps};
use crate::screen::Screen;

const COLUMNS: [Column; 10] = [
    Column::shared("", "device").only_table().rank(2),
    Column::data("plane"),
    Column::data("host"),
    Column::figure("start_ps", "start").rank(1),
    Column::figure("duration_ps", "duration"),
    Column::figure("share", "of idle"),
    Column::name("before", "before"),
    Column::data("before_module"),
    Column::name("after", "after"),
    Column::data("after_module"),
];

pub(super) fn run(arguments: &TableArguments<GapSort>, screen: Screen) -> Result<ExitCode, Failure> {
    let opened = open(&arguments.files, KeepIds::No, screen)?;
    let filter = opened.filter(&arguments.filter)?;
    let trace = &opened.trace;
    let all = gaps(trace, &Filter { devices: filter.devices.clone(), ..Filter::default() });
    let mut idle: HashMap<usize, Picos> = HashMap::new();
    for gap in &all {
        *idle.entry(gap.plane).or_default() += gap.span.length();
    }
    let is_filtered = filter.prefix.is_some() || filter.pattern.is_some() || filter.min_duration > Picos::ZERO;
    let mut rows = if is_filtered { gaps(trace, &filter) } else { all };
    if rows.is_empty() && is_filtered {
        opened.tell_empty("gaps", &arguments.filter, screen);
    } else if rows.is_empty() {
        screen.note("no gaps: no device stood idle between its first and its last work");
    }
    let notes = totals(trace, &rows, &idle);
    let more = arrange(&mut rows, &arguments.order, arguments.format, |key, left, right| match key {
        GapSort::Duration => right.span.length().cmp(&left.span.length()),
        GapSort::Start => left.span.start.cmp(&right.span.start),
    });
    let name = |kind: KindId| Cell::text(Some(trace.text(trace.kind(kind).name)));
    let module = |kind: KindId| Cell::text(trace.kind(kind).module.map(|module| trace.text(module)));
    let cells = |gap: &Gap| {
        let of_idle = idle.get(&gap.plane).filter(|idle| **idle > Picos::ZERO);
        vec![
            Cell::owned(plane_label(trace, gap.plane)),
            Cell::text(Some(plane_name(trace, gap.plane))),
            Cell::text(host(trace, gap.plane)),
            Cell::Time(gap.span.start),
            Cell::Time(gap.span.length()),
            Cell::share(of_idle.map(|idle| gap.span.length().get() as f64 / idle.get() as f64)),
            name(gap.before),
            module(gap.before),
            name(gap.after),
            module(gap.after),
        ]
    };
    Listing { columns: &COLUMNS, rows, more, cells, notes }.print(arguments.format, screen)?;
    Ok(Exit::Done.into())
}

/// How much there is of it together, by plane.
fn totals(trace: &Trace, rows: &[Gap], idle: &HashMap<usize, Picos>) -> Vec<String> {
    let mut planes: Vec<usize> = rows.iter().map(|gap| gap.plane).collect();
    planes.sort_unstable();
    planes.dedup();
    let total = |plane: usize| {
        let of_plane = rows.iter().filter(|gap| gap.plane == plane);
        let total = of_plane.clone().map(|gap| gap.span.length()).sum::<Picos>().get() as f64;
        let whole = idle.get(&plane).map_or(total, |idle| idle.get() as f64);
        let part = if whole > total { format!(", {} of its idle time", percent(total / whole)) } else { String::new() };
        let count = of_plane.count();
        let gaps = if count == 1 { String::from("1 gap") } else { format!("{} gaps", thousands(count as f64)) };
        format!("{} on {}: {} together{part}", gaps, plane_label(trace, plane), time_ps(total))
    };
    planes.into_iter().map(total).collect()
}
