//! `ergo trace summary`: every plane and line of a trace, how busy each was, with what, and what to know of it.

mod picture;
mod report;
mod table;

use std::process::ExitCode;

use ergometer_trace::accounting::{By, Filter, Module, PlaneSummary, Row, modules, rows, summary};
use ergometer_trace::{KeepIds, Platform, StatValue, Trace};

use super::listing::{print_json, width};
use super::open::{Opened, open, plane_label};
use super::rows::compare;
use crate::arguments::{Format, SummaryArguments};
use crate::exit::{Exit, Failure};
use crate::figures::thousands;
use crate::screen::{Screen, print};

/// The widest picture of a device.
const WIDEST: usize = 60;

/// Everything that is shown of a trace.
struct Summary<'a> {
    opened: &'a Opened,
    planes: Vec<PlaneSummary>,
    /// Of all planes, by plane and busy time.
    modules: Vec<Module>,
    /// The kernels of GPUs and the ops of other devices, the longest first.
    kernels: Vec<Row>,
    notes: Vec<String>,
}

pub(super) fn run(arguments: &SummaryArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let opened = open(&arguments.files, KeepIds::Yes, screen)?;
    let filter = opened.filter(&arguments.filter)?;
    let trace = &opened.trace;
    let parts = if arguments.format == Format::Table {
        width().map_or(WIDEST, |width| width.clamp(14, WIDEST + 4) - 4)
    } else {
        0
    };
    let mut planes = summary(trace, parts);
    planes.retain(|plane| filter.takes_plane(trace, &trace.planes()[plane.plane]));
    let mut kernels = if arguments.format == Format::Table { kernels(trace, &planes, &filter) } else { Vec::new() };
    match arguments.order.sort {
        Some(key) => kernels.sort_by(|left, right| compare(trace, key, left, right)),
        None => kernels.sort_by_key(|row| std::cmp::Reverse(row.account.self_time)),
    }
    if arguments.order.reverse {
        kernels.reverse();
    }
    let notes = notes(trace, &planes);
    let summary = Summary { opened: &opened, modules: modules(trace, &filter), kernels, notes, planes };
    match arguments.format {
        Format::Json => print_json(&summary.as_report())?,
        Format::Csv => print(&summary.as_csv())?,
        Format::Table => print(&summary.as_table(arguments.order.top, screen))?,
    }
    if summary.planes.iter().all(|plane| plane.work.is_none()) {
        screen.note("nothing ran on a device in this trace: it has no op and no kernel");
    }
    Ok(Exit::Done.into())
}

/// What the work is made of: kernels on a GPU; elsewhere ops, as events have the names of whatever ran them.
fn kernels(trace: &Trace, planes: &[PlaneSummary], filter: &Filter) -> Vec<Row> {
    let is_gpu = |plane: usize| trace.planes()[plane].platform == Platform::Gpu;
    let working = || planes.iter().filter(|plane| plane.work.is_some()).map(|plane| plane.plane);
    let mut all = Vec::new();
    if working().any(is_gpu) {
        all.extend(rows(trace, By::Kernel, filter).into_iter().filter(|row| is_gpu(row.plane)));
    }
    if working().any(|plane| !is_gpu(plane)) {
        all.extend(rows(trace, By::Op, filter).into_iter().filter(|row| !is_gpu(row.plane)));
    }
    all
}

/// What explains the figures.
fn notes(trace: &Trace, planes: &[PlaneSummary]) -> Vec<String> {
    let mut notes = Vec::new();
    let mut buffers: Vec<&str> = trace
        .kinds()
        .iter()
        .filter_map(|kind| kind.op.map(|op| trace.text(op)))
        .filter(|op| op.starts_with("command_buffer"))
        .collect();
    buffers.sort_unstable();
    buffers.dedup();
    if let Some(first) = buffers.first() {
        let others = if buffers.len() > 1 { format!(" and {} more", buffers.len() - 1) } else { String::new() };
        notes.push(format!("kernels run inside CUDA graphs: op names are the kernels', hlo_op is {first}{others}"));
    }
    for plane in planes.iter().filter(|plane| plane.work.is_some() && plane.partial_overlaps > 0) {
        let count = plane.partial_overlaps;
        let events = if count == 1 {
            String::from("1 event begins")
        } else {
            format!("{} events begin", thousands(count as f64))
        };
        notes.push(format!(
            "{}: {events} inside another on the same line and end outside it: both count the overlap as self",
            plane_label(trace, plane.plane)
        ));
    }
    notes
}

/// What a plane says its device is.
fn device_name(trace: &Trace, plane: usize) -> Option<String> {
    let stats = trace.plane_stats(plane).ok()?;
    let named = |name: &str| stats.iter().find(|stat| stat.name == name);
    match &named("gpu_device_name").or_else(|| named("device_type_string"))?.value {
        StatValue::Text(name) | StatValue::Reference(Ok(name)) => Some(name.clone().into_owned()),
        _ => None,
    }
}
