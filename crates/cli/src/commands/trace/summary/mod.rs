//! `ergo trace summary`: every plane and line of a trace, how busy each was, with what, and what to know of it.

mod picture;
mod report;
mod table;

use std::collections::{HashMap, HashSet};
use std::process::ExitCode;

use ergometer_trace::accounting::{By, DeviceId, Filter, Module, PlaneSummary, Row, modules, rows, summary};
use ergometer_trace::{Line, Platform, Session, StatValue, Text, Trace};
use ergometer_units::Timestamp;

use super::listing::{print_json, width};
use super::open::{Needs, Opened, device_label, is_filtered, open, plane_label};
use super::rows::compare;
use crate::arguments::{Format, SummaryArguments};
use crate::exit::{Exit, Failure};
use crate::figures::thousands;
use crate::screen::{Screen, print};

/// How many modules and kernels of each device, when nobody says.
const ROWS: usize = 5;
/// The widest picture of a device.
const WIDEST: usize = 60;

/// Everything that is shown of a trace.
struct Summary<'a> {
    opened: &'a Opened,
    planes: Vec<PlaneSummary>,
    /// Of all planes, by plane and busy time.
    modules: Vec<Module>,
    /// Of each device, whichever modules are listed.
    runs: HashMap<DeviceId, Runs>,
    /// The kernels of GPUs and the ops of other devices, the longest first.
    kernels: Vec<Row>,
    notes: Vec<String>,
    /// How many modules and kernels of each device, where the user says.
    top: Option<usize>,
}

/// What ran on a device.
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
            "the filter chooses which modules and kernels are listed and which of their events count; all other figures \
             are of all work",
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
            [] => String::from("nothing ran on a device in this trace: it has no op and no kernel"),
            some => format!("--device leaves out every device that did something; there are {}", some.join(", ")),
        });
    }
    Ok(Exit::Done.into())
}

/// What the work is made of: kernels on a GPU; elsewhere ops, as events have the names of whatever ran them.
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

/// What explains the figures.
pub(super) fn notes(trace: &Trace, planes: &[PlaneSummary]) -> Vec<String> {
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
    for plane in planes.iter().filter(|plane| !plane.work.is_empty()) {
        let lines = plane.lines.iter().zip(&trace.planes()[plane.plane].lines);
        for (line, of_trace) in lines.filter(|(line, _)| line.partial_overlaps > 0) {
            if !has_work(trace, plane.plane, of_trace) {
                continue;
            }
            let events = match line.partial_overlaps {
                1 => String::from("1 event begins inside another and ends outside it"),
                count => format!("{} events begin inside another and end outside it", thousands(count as f64)),
            };
            let label = plane_label(trace, plane.plane);
            notes.push(format!("{label}, line {}: {events}; both count the overlap as self", trace.text(line.name)));
        }
    }
    notes
}

/// Whether two sessions are the same: no two begin and end in the same nanosecond. Their hosts may be named by their files.
fn is_twice(sessions: &[Session]) -> bool {
    let mut seen = HashSet::new();
    sessions.iter().any(|session| {
        let times = session.started.zip(session.stopped);
        times.is_some_and(|times| !seen.insert(times))
    })
}

/// How many groups of sessions there are of which each began after all before it had stopped.
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

/// Whether a line has the work of its device: streams and lines of ops; of a host the threads that only run ops, as what
/// Python does around them overlaps as it likes.
fn has_work(trace: &Trace, plane: usize, line: &Line) -> bool {
    match trace.planes()[plane].platform {
        Platform::Gpu => trace.text(line.name).starts_with("Stream"),
        Platform::Host | Platform::Other => {
            !line.is_empty() && line.events().all(|event| trace.kind(event.kind).op.is_some())
        }
        Platform::Tpu | Platform::OtherDevice => trace.text(line.name).contains("XLA Ops"),
    }
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
