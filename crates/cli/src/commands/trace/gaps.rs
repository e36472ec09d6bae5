//! `ergo trace gaps`: prints when a device was idle between its first and its last event.

use std::collections::HashMap;
use std::process::ExitCode;

use ergometer_trace::accounting::{DeviceId, Filter, Gap, gaps};
use ergometer_trace::{KindId, Trace};
use ergometer_units::Picos;

use super::cell::Cell;
use super::listing::{Column, Listing, arrange};
use super::open::{Needs, device_cells, device_columns, device_label, open};
use crate::arguments::{GapSort, TableArguments};
use crate::exit::{Exit, Failure};
use crate::figures::{percent, thousands, time_ps};
use crate::screen::Screen;

/// The device of a row.
const DEVICE: [Column; 4] = device_columns(2);

/// The headings of the events around a gap, here and in the HTML report.
pub(super) const HEADS: [&str; 2] = ["event before", "event after"];

const COLUMNS: [Column; 11] = [
    DEVICE[0],
    DEVICE[1],
    DEVICE[2],
    DEVICE[3],
    Column::figure("start_ps", "start").rank(1),
    Column::figure("duration_ps", "duration"),
    Column::figure("share", "idle share"),
    Column::name("before", HEADS[0]),
    Column::data("before_module"),
    Column::name("after", HEADS[1]),
    Column::data("after_module"),
];

pub(super) fn run(arguments: &TableArguments<GapSort>, screen: Screen) -> Result<ExitCode, Failure> {
    let opened = open(&arguments.files, Needs::Work, screen)?;
    let filter = opened.filter(&arguments.filter)?;
    let trace = &opened.trace;
    let all = gaps(trace, &Filter { devices: filter.devices.clone(), ..Filter::default() });
    let mut idle: HashMap<DeviceId, Picos> = HashMap::new();
    for gap in &all {
        *idle.entry(gap.device).or_default() += gap.span.length();
    }
    let is_filtered = filter.prefix.is_some() || filter.pattern.is_some() || filter.min_duration > Picos::ZERO;
    let mut rows = if is_filtered { gaps(trace, &filter) } else { all };
    if rows.is_empty() && is_filtered {
        opened.explain_empty("gaps", &arguments.filter, screen);
    } else if rows.is_empty() {
        screen.note("no gaps: no device was idle between its first and its last event");
    }
    let notes = totals(trace, &rows, &idle);
    let more = arrange(&mut rows, &arguments.order, arguments.format, |key, left, right| match key {
        GapSort::Duration => right.span.length().cmp(&left.span.length()),
        GapSort::Start => left.span.start.cmp(&right.span.start),
    });
    let name = |kind: KindId| Cell::text(Some(trace.text(trace.kind(kind).name)));
    let module = |kind: KindId| Cell::text(trace.kind(kind).module.map(|module| trace.text(module)));
    let cells = |gap: &Gap| {
        let of_idle = idle.get(&gap.device).filter(|idle| **idle > Picos::ZERO);
        let mut cells = device_cells(trace, gap.device);
        cells.extend([
            Cell::Time(gap.span.start),
            Cell::Time(gap.span.length()),
            Cell::share(of_idle.map(|idle| gap.span.length().get() as f64 / idle.get() as f64)),
            name(gap.before),
            module(gap.before),
            name(gap.after),
            module(gap.after),
        ]);
        cells
    };
    Listing { columns: &COLUMNS, rows, more, cells, notes }.print(arguments.format, screen)?;
    Ok(Exit::Done.into())
}

/// The total of the gaps of each device.
fn totals(trace: &Trace, rows: &[Gap], idle: &HashMap<DeviceId, Picos>) -> Vec<String> {
    let mut devices: Vec<DeviceId> = rows.iter().map(|gap| gap.device).collect();
    devices.sort_unstable();
    devices.dedup();
    let total = |device: DeviceId| {
        let of_device = rows.iter().filter(|gap| gap.device == device);
        let total = of_device.clone().map(|gap| gap.span.length()).sum::<Picos>().get() as f64;
        let whole = idle.get(&device).map_or(total, |idle| idle.get() as f64);
        let part = if whole > total { format!(", {} of its idle time", percent(total / whole)) } else { String::new() };
        let count = of_device.count();
        let gaps = if count == 1 { String::from("1 gap") } else { format!("{} gaps", thousands(count as f64)) };
        format!("{} on {}: {} in total{part}", gaps, device_label(trace, device), time_ps(total))
    };
    devices.into_iter().map(total).collect()
}
