//! Computes the work of a device for each step of a program.
//!
//! On TPU the trace has a line of steps. Elsewhere the program annotates steps (`StepTraceAnnotation`), and work
//! belongs to the step in which the host launched it, if the launch time is known. Without annotations, each run of the
//! module with the most busy time is a step.

use foldhash::HashMap;
use rayon::prelude::*;
use serde::Serialize;

use super::account::{Account, Span};
use super::device::{Device, DeviceId, EventSelection};
use super::executions::{Assignment, NONE};
use super::filter::Filter;
use super::grouping::Grouping;
use super::interval::Interval;
use super::launches::Launches;
use super::work::Role;
use crate::table::{Innermost, Line, Platform, Text, Trace, number};

/// The source of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepsBy {
    /// A line of the trace.
    Line,
    /// Annotations of the program.
    Annotation,
    /// Runs of the module with the most busy time.
    Module,
}

impl StepsBy {
    /// Its name in tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Annotation => "annotation",
            Self::Module => "module",
        }
    }
}

/// The work of a device for one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The device.
    pub device: DeviceId,
    /// Its number.
    pub number: i64,
    /// Its name.
    pub name: Text,
    /// The source of the step.
    pub found_by: StepsBy,
    /// Start and end of the step: of the annotation on the host, of the event on the line of steps, or until the next
    /// run of the module. Work launched in it may run later; `account.span` has the time of the work.
    pub window: Span,
    /// The times of its work on the device.
    pub account: Account,
    /// The number of executions with work in it.
    pub executions: u64,
}

/// The steps of a trace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Steps {
    /// The steps, by device and time.
    pub steps: Vec<Step>,
    /// The number of events of work outside steps, by device.
    pub outside: Vec<(DeviceId, u64)>,
}

/// The time of a step.
#[derive(Debug, Clone, Copy)]
struct Window {
    number: i64,
    name: Text,
    interval: Interval,
}

/// All steps on all devices with work. The trace must be read with ids.
#[must_use]
pub fn steps(trace: &Trace, filter: &Filter) -> Steps {
    let selection = EventSelection::new(trace, filter);
    let devices = Device::all(trace, filter);
    let found: Vec<(Vec<Step>, (DeviceId, u64))> =
        devices.par_iter().map(|device| device_steps(trace, device, &selection)).collect();
    let (steps, outside): (Vec<Vec<Step>>, Vec<_>) = found.into_iter().unzip();
    Steps { steps: steps.into_iter().flatten().collect(), outside }
}

fn device_steps(trace: &Trace, device: &Device<'_>, selection: &EventSelection) -> (Vec<Step>, (DeviceId, u64)) {
    let assignment = Assignment::new(trace, device.plane);
    let (found_by, windows) = windows(trace, device, &assignment);
    let launches = match found_by {
        StepsBy::Annotation => Launches::new(trace, device, &assignment),
        StepsBy::Line | StepsBy::Module => Launches::default(),
    };
    let intervals: Vec<(i64, i64)> =
        windows.iter().map(|window| (window.interval.start, window.interval.end)).collect();
    let innermost = Innermost::new(&intervals);
    let step_of = |place: usize, line: &Line, event: usize| {
        let launch = launches
            .event_launch(line, event)
            .or_else(|| launches.execution_launch(assignment.executions[place][event]));
        innermost.at(launch.or_else(|| line.start(event))?)
    };
    let group = |place: usize, line: &Line, event: usize| {
        if selection.has(line, event) { step_of(place, line, event) } else { None }
    };
    let mut accounts: HashMap<usize, Account> =
        Grouping { device, count: windows.len(), group }.accounts().accounts.into_iter().collect();
    let mut executions: Vec<(usize, u32)> = device
        .work()
        .filter(|&(place, line, event)| assignment.executions[place][event] != NONE && selection.has(line, event))
        .filter_map(|(place, line, event)| Some((step_of(place, line, event)?, assignment.executions[place][event])))
        .collect();
    executions.sort_unstable();
    executions.dedup();
    let mut counts = vec![0; windows.len()];
    for (step, _) in executions {
        counts[step] += 1;
    }
    let step = |(place, window): (usize, &Window)| Step {
        device: device.id,
        number: window.number,
        name: window.name,
        found_by,
        window: window.interval.into(),
        account: accounts.remove(&place).unwrap_or_default(),
        executions: counts[place],
    };
    let steps: Vec<Step> = windows.iter().enumerate().map(step).collect();
    let work = device.work().filter(|(_, line, event)| selection.has(line, *event)).count() as u64;
    let inside: u64 = steps.iter().map(|step| step.account.events).sum();
    (steps, (device.id, work - inside.min(work)))
}

/// The steps of a device, by start.
fn windows(trace: &Trace, device: &Device<'_>, assignment: &Assignment) -> (StepsBy, Vec<Window>) {
    let plane = device.plane;
    let on_line: Vec<Window> = plane
        .lines
        .iter()
        .filter(|line| Role::from_line(trace, plane, line) == Role::Steps)
        .flat_map(|line| {
            line_windows(trace, line, |event| trace.text(trace.kind(line.kind[event]).name).trim().parse().ok())
        })
        .collect();
    if !on_line.is_empty() {
        return (StepsBy::Line, sorted(on_line));
    }
    let annotated: Vec<Window> = trace
        .planes()
        .iter()
        .filter(|host| host.platform == Platform::Host && host.host == plane.host)
        .flat_map(|host| &host.lines)
        .filter(|line| !line.ids.step.is_empty())
        .flat_map(|line| line_windows(trace, line, |event| line.ids.step.get(number(event))))
        .collect();
    if !annotated.is_empty() {
        return (StepsBy::Annotation, sorted(annotated));
    }
    (StepsBy::Module, by_module(device, assignment))
}

fn line_windows<'a>(
    trace: &'a Trace,
    line: &'a Line,
    number: impl Fn(usize) -> Option<i64> + 'a,
) -> impl Iterator<Item = Window> + 'a {
    (0..line.len()).filter_map(move |event| {
        let (start, end) = line.interval(event)?;
        let name = trace.kind(line.kind[event]).name;
        Some(Window { number: number(event)?, name, interval: Interval { start, end } })
    })
}

fn sorted(mut windows: Vec<Window>) -> Vec<Window> {
    windows.sort_by_key(|window| window.interval);
    windows
}

/// The steps from each run of the module with the most busy time to the next; the last ends with all work.
fn by_module(device: &Device<'_>, assignment: &Assignment) -> Vec<Window> {
    let mut hulls: Vec<Option<Interval>> = vec![None; assignment.keys.len()];
    let mut totals: HashMap<_, i64> = HashMap::default();
    let mut last = i64::MIN;
    for (place, line, event) in device.work() {
        let Some((start, end)) = line.interval(event) else { continue };
        last = last.max(end);
        let execution = assignment.executions[place][event];
        if execution == NONE {
            continue;
        }
        let hull = hulls[execution as usize].get_or_insert(Interval { start, end });
        *hull = Interval { start: hull.start.min(start), end: hull.end.max(end) };
        let key = assignment.keys[execution as usize];
        let total = totals.entry((key.module, key.program)).or_insert(0_i64);
        *total = total.saturating_add(end - start);
    }
    let longest = totals.iter().max_by_key(|&(key, total)| (*total, std::cmp::Reverse(*key)));
    let Some((&(Some(name), program), _)) = longest else { return Vec::new() };
    let is_longest = |key: &super::executions::ExecutionKey| (key.module, key.program) == (Some(name), program);
    let of_longest = assignment.keys.iter().zip(&hulls).filter(|(key, _)| is_longest(key));
    let mut starts: Vec<i64> = of_longest.filter_map(|(_, hull)| hull.map(|hull| hull.start)).collect();
    starts.sort_unstable();
    // Work that starts at the end of all work still belongs to the last step.
    let ends = starts.iter().skip(1).copied().chain([last.saturating_add(1)]);
    let intervals = starts.iter().copied().zip(ends).map(|(start, end)| Interval { start, end });
    (0..).zip(intervals).map(|(number, interval)| Window { number, name, interval }).collect()
}
