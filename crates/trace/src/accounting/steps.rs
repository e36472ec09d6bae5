//! Steps: what a device did for each step of a program.
//!
//! On TPU the trace has a line of them. Elsewhere they are those that the program annotated (`StepTraceAnnotation`): work is
//! of the step in which the host launched it, as far as the trace tells when that was. A program that annotates none has a
//! step for each run of the module that keeps the device busy longest.

use foldhash::HashMap;
use rayon::prelude::*;
use serde::Serialize;

use super::account::{Account, Span};
use super::device::{Chosen, Device, DeviceId};
use super::executions::{Assignment, NONE};
use super::filter::Filter;
use super::grouping::Grouping;
use super::interval::Interval;
use super::launches::Launches;
use super::work::Role;
use crate::table::{Innermost, Line, Platform, Text, Trace, number};

/// Where steps come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepsBy {
    /// A line of the trace.
    Line,
    /// The program's own annotations.
    Annotation,
    /// Runs of the module that keeps the device busy longest.
    Module,
}

impl StepsBy {
    /// As tables and files have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Annotation => "annotation",
            Self::Module => "module",
        }
    }
}

/// What a device did for one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Which device.
    pub device: DeviceId,
    /// Its number.
    pub number: i64,
    /// Its name.
    pub name: Text,
    /// Where it comes from.
    pub found_by: StepsBy,
    /// From when to when: by the annotation on the host, on the line of steps, or to the next run of the module. Work that
    /// is launched in it may run later: `account.span` says when that was.
    pub window: Span,
    /// The times of its work on the device.
    pub account: Account,
    /// How many executions have work in it.
    pub executions: u64,
}

/// The steps of a trace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Steps {
    /// By device and time.
    pub steps: Vec<Step>,
    /// How many events of work are in no step, by device.
    pub outside: Vec<(DeviceId, u64)>,
}

/// A step, before it is known what was done in it.
#[derive(Debug, Clone, Copy)]
struct Window {
    number: i64,
    name: Text,
    interval: Interval,
}

/// Every step on every device that has work. Needs a trace read with its ids.
#[must_use]
pub fn steps(trace: &Trace, filter: &Filter) -> Steps {
    let chosen = Chosen::new(trace, filter);
    let devices = Device::all(trace, filter);
    let found: Vec<(Vec<Step>, (DeviceId, u64))> =
        devices.par_iter().map(|device| steps_of(trace, device, &chosen)).collect();
    let (steps, outside): (Vec<Vec<Step>>, Vec<_>) = found.into_iter().unzip();
    Steps { steps: steps.into_iter().flatten().collect(), outside }
}

fn steps_of(trace: &Trace, device: &Device<'_>, chosen: &Chosen) -> (Vec<Step>, (DeviceId, u64)) {
    let assignment = Assignment::of(trace, device.plane);
    let (found_by, windows) = windows(trace, device, &assignment);
    let launches = match found_by {
        StepsBy::Annotation => Launches::of(trace, device, &assignment),
        StepsBy::Line | StepsBy::Module => Launches::default(),
    };
    let stretches: Vec<(i64, i64)> =
        windows.iter().map(|window| (window.interval.start, window.interval.end)).collect();
    let innermost = Innermost::of(&stretches);
    let step_of = |place: usize, line: &Line, event: usize| {
        let launch = launches.of_event(line, event).or_else(|| launches.of_execution(assignment.of[place][event]));
        innermost.at(launch.or_else(|| line.start(event))?)
    };
    let group = |place: usize, line: &Line, event: usize| {
        if chosen.has(line, event) { step_of(place, line, event) } else { None }
    };
    let mut accounts: HashMap<usize, Account> =
        Grouping { device, count: windows.len(), group }.accounts().accounts.into_iter().collect();
    let mut executions: Vec<(usize, u32)> = device
        .work()
        .filter(|&(place, line, event)| assignment.of[place][event] != NONE && chosen.has(line, event))
        .filter_map(|(place, line, event)| Some((step_of(place, line, event)?, assignment.of[place][event])))
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
    let work = device.work().filter(|(_, line, event)| chosen.has(line, *event)).count() as u64;
    let inside: u64 = steps.iter().map(|step| step.account.events).sum();
    (steps, (device.id, work - inside.min(work)))
}

/// The steps of a device, by start.
fn windows(trace: &Trace, device: &Device<'_>, assignment: &Assignment) -> (StepsBy, Vec<Window>) {
    let plane = device.plane;
    let on_line: Vec<Window> = plane
        .lines
        .iter()
        .filter(|line| Role::of(trace, plane, line) == Role::Steps)
        .flat_map(|line| {
            windows_of(trace, line, |event| trace.text(trace.kind(line.kind[event]).name).trim().parse().ok())
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
        .flat_map(|line| windows_of(trace, line, |event| line.ids.step.get(number(event))))
        .collect();
    if !annotated.is_empty() {
        return (StepsBy::Annotation, sorted(annotated));
    }
    (StepsBy::Module, by_module(device, assignment))
}

fn windows_of<'a>(
    trace: &'a Trace,
    line: &'a Line,
    number: impl Fn(usize) -> Option<i64> + 'a,
) -> impl Iterator<Item = Window> + 'a {
    (0..line.len()).filter_map(move |event| {
        let (start, end) = line.stretch(event)?;
        let name = trace.kind(line.kind[event]).name;
        Some(Window { number: number(event)?, name, interval: Interval { start, end } })
    })
}

fn sorted(mut windows: Vec<Window>) -> Vec<Window> {
    windows.sort_by_key(|window| window.interval);
    windows
}

/// From each run of the module that is busy longest to the next; the last goes on to the end of all work.
fn by_module(device: &Device<'_>, assignment: &Assignment) -> Vec<Window> {
    let mut hulls: Vec<Option<Interval>> = vec![None; assignment.keys.len()];
    let mut totals: HashMap<_, i64> = HashMap::default();
    let mut last = i64::MIN;
    for (place, line, event) in device.work() {
        let Some((start, end)) = line.stretch(event) else { continue };
        last = last.max(end);
        let execution = assignment.of[place][event];
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
    // What starts with the end of all work is still of the last.
    let ends = starts.iter().skip(1).copied().chain([last.saturating_add(1)]);
    let intervals = starts.iter().copied().zip(ends).map(|(start, end)| Interval { start, end });
    (0..).zip(intervals).map(|(number, interval)| Window { number, name, interval }).collect()
}
