//! `ergo trace summary`: prints how busy each plane and line of a trace was, its top modules and kernels, and notes.

mod picture;
mod report;
mod table;

use std::collections::{HashMap, HashSet};
use std::process::ExitCode;

use ergometer_trace::accounting::{By, DeviceId, Filter, Module, PlaneSummary, Row, modules, rows, summary};
use ergometer_trace::{Line, Platform, Session, StatValue, Text, Trace};
use ergometer_units::Timestamp;

use super::listing::{print_json, width};
use super::open::{Needs, OpenTrace, device_label, is_filtered, open, plane_label};
use super::rows::compare;
use crate::arguments::{Format, SummaryArguments};
use crate::exit::{Exit, Failure};
use crate::figures::thousands;
use crate::screen::{Screen, print};

/// The default number of modules and kernels per device.
const ROWS: usize = 5;
/// The maximum width of the activity bar of a device.
const WIDEST: usize = 60;

/// Everything that is printed.
struct Summary<'a> {
    opened: &'a OpenTrace,
    planes: Vec<PlaneSummary>,
    /// The modules of all planes, by plane and busy time.
    modules: Vec<Module>,
    /// The executions of each device, of all modules.
    runs: HashMap<DeviceId, Runs>,
    /// The kernels of GPUs and the ops of other devices, by descending self time.
    kernels: Vec<Row>,
    notes: Vec<String>,
    /// The number of modules and kernels per device, if given.
    top: Option<usize>,
}

/// The executions on a device.
#[derive(Default)]
struct Runs {
    modules: Vec<Option<Text>>,
    executions: u64,
}

impl Runs {
    fn by_device(modules: &[Module]) -> HashMap<DeviceId, Self> {
        let mut runs: HashMap<DeviceId, Self> = HashMap::new();
        for module in modules {
            if let Some(executions) = module.executions {
                let of_device = runs.entry(module.device).or_default();
                of_device.modules.push(module.module);
                of_device.executions += executions;
            }
        }
        runs
    }
}

pub(super) fn run(arguments: &SummaryArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let opened = open(&arguments.files, Needs::Everything, screen)?;
    let filter = opened.filter(&arguments.filter)?;
    let trace = &opened.trace;
    let parts = if arguments.format == Format::Table {
        width().map_or(WIDEST, |width| width.clamp(14, WIDEST + 4) - 4)
    } else {
        0
    };
    let mut planes = summary(trace, parts);
    let working: Vec<String> =
        planes.iter().flat_map(|plane| &plane.work).map(|work| device_label(trace, work.device)).collect();
    for plane in &mut planes {
        plane.work.retain(|work| filter.takes_device(trace, work.device));
    }
    planes.retain(|plane| filter.takes_plane(trace, plane.plane) || !plane.work.is_empty());
    let mut kernels = if arguments.format == Format::Csv { Vec::new() } else { kernels(trace, &planes, &filter) };
    match arguments.order.sort {
        Some(key) => kernels.sort_by(|left, right| compare(trace, key, left, right)),
        None => kernels.sort_by_key(|row| std::cmp::Reverse(row.account.self_time)),
    }
    if arguments.order.reverse {
        kernels.reverse();
    }
    let mut notes = notes(trace, &planes);
    if is_twice(trace.sessions()) {
        notes.push(String::from("two files hold the same profiler session, so it counts twice; pass only one of them"));
    }
    let sessions = apart(trace.sessions());
    if sessions > 1 {
        notes.push(format!(
            "{sessions} profiler sessions follow each other, and the time between them counts as idle; pass the files of one \
             session only"
        ));
    }
    let is_filtered = is_filtered(&arguments.filter);
    if is_filtered {
        notes.push(String::from(
            "the filter applies to the listed modules and kernels; all other figures cover all events",
        ));
    }
    let listed = modules(trace, &filter);
    let all = is_filtered.then(|| modules(trace, &Filter { devices: filter.devices.clone(), ..Filter::default() }));
    let runs = Runs::by_device(all.as_deref().unwrap_or(&listed));
    let summary = Summary { opened: &opened, modules: listed, runs, kernels, notes, planes, top: arguments.order.top };
    match arguments.format {
        Format::Json => print_json(&summary.as_report())?,
        Format::Csv => print(&summary.as_csv())?,
        Format::Table => print(&summary.as_table(screen))?,
    }
    if summary.planes.iter().all(|plane| plane.work.is_empty()) {
        screen.note(&match working.as_slice() {
            [] => String::from("no device in this trace has events: it has no ops and no kernels"),
            some => format!("no matching device has events; the devices with events are {}", some.join(", ")),
        });
    }
    Ok(Exit::Done.into())
}

/// The rows of the summary: kernels on a GPU, ops elsewhere, where event names are those of threads.
fn kernels(trace: &Trace, planes: &[PlaneSummary], filter: &Filter) -> Vec<Row> {
    let is_gpu = |plane: usize| trace.planes()[plane].platform == Platform::Gpu;
    let working = || planes.iter().filter(|plane| !plane.work.is_empty()).map(|plane| plane.plane);
    let mut all = Vec::new();
    if working().any(is_gpu) {
        all.extend(rows(trace, By::Kernel, filter).into_iter().filter(|row| is_gpu(row.device.plane)));
    }
    if working().any(|plane| !is_gpu(plane)) {
        all.extend(rows(trace, By::Op, filter).into_iter().filter(|row| !is_gpu(row.device.plane)));
    }
    all
}

/// Notes that explain the figures.
pub(super) fn notes(trace: &Trace, planes: &[PlaneSummary]) -> Vec<String> {
    let mut notes = Vec::new();
    let ops = || trace.kinds().iter().filter_map(|kind| kind.op.map(|op| trace.text(op)));
    if ops().any(|op| op.starts_with("command_buffer")) {
        notes.push(String::from(
            "kernels run inside CUDA graphs, so the trace does not name their ops: `ergo trace ops` shows kernel names",
        ));
    }
    for plane in planes.iter().filter(|plane| !plane.work.is_empty()) {
        let lines = plane.lines.iter().zip(&trace.planes()[plane.plane].lines);
        for (line, of_trace) in lines.filter(|(line, _)| line.partial_overlaps > 0) {
            if !has_work(trace, plane.plane, of_trace) {
                continue;
            }
            let events = match line.partial_overlaps {
                1 => String::from("1 event starts inside another and ends outside it"),
                count => format!("{} events start inside another and end outside it", thousands(count as f64)),
            };
            let label = plane_label(trace, plane.plane);
            notes.push(format!(
                "{label}, line {}: {events}; the overlap counts as self time of both",
                trace.text(line.name)
            ));
        }
    }
    notes
}

/// Whether two sessions are the same, by start and end in nanoseconds. Host names may come from file names.
fn is_twice(sessions: &[Session]) -> bool {
    let mut seen = HashSet::new();
    sessions.iter().any(|session| {
        let times = session.started.zip(session.stopped);
        times.is_some_and(|times| !seen.insert(times))
    })
}

/// The number of groups of sessions that do not overlap in time.
fn apart(sessions: &[Session]) -> usize {
    let mut times: Vec<(Timestamp, Timestamp)> =
        sessions.iter().filter_map(|session| Some((session.started?, session.stopped?))).collect();
    times.sort_unstable();
    let mut until = None;
    let mut groups = 0;
    for (started, stopped) in times {
        groups += usize::from(until.is_none_or(|until| started > until));
        until = until.max(Some(stopped));
    }
    groups
}

/// Whether a line has work of its device: streams and op lines; on a host, threads that only run ops, as Python events
/// overlap arbitrarily.
fn has_work(trace: &Trace, plane: usize, line: &Line) -> bool {
    match trace.planes()[plane].platform {
        Platform::Gpu => trace.text(line.name).starts_with("Stream"),
        Platform::Host | Platform::Other => {
            !line.is_empty() && line.events().all(|event| trace.kind(event.kind).op.is_some())
        }
        Platform::Tpu | Platform::OtherDevice => trace.text(line.name).contains("XLA Ops"),
    }
}

/// The device name in the metadata of a plane.
fn device_name(trace: &Trace, plane: usize) -> Option<String> {
    let stats = trace.plane_stats(plane).ok()?;
    let named = |name: &str| stats.iter().find(|stat| stat.name == name);
    match &named("gpu_device_name").or_else(|| named("device_type_string"))?.value {
        StatValue::Text(name) | StatValue::Reference(Ok(name)) => Some(name.clone().into_owned()),
        _ => None,
    }
}
