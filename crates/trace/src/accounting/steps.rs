//! Steps: what a device did for each step of a program.
//!
//! On TPU the trace has a line of them. Elsewhere they are those that the program annotated (`StepTraceAnnotation`): work is
//! of the step in which the host launched it. A program that annotates none has a step for each run of the module that
//! keeps the device busy longest.

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::account::{Account, Span};
use super::executions::{Assignment, NONE};
use super::filter::Filter;
use super::grouping::Grouping;
use super::interval::Interval;
use super::work::{self, Role};
use crate::table::{Line, Plane, Platform, Text, Trace, number};

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

/// What a device did for one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Which plane of the trace.
    pub plane: usize,
    /// Its number.
    pub number: i64,
    /// Its name.
    pub name: Text,
    /// Where it comes from.
    pub found_by: StepsBy,
    /// From when to when: by the annotation on the host, on the line of steps, or to the next run of the module.
    pub span: Span,
    /// The times of its work on the plane.
    pub account: Account,
    /// How many executions have work in it.
    pub executions: u64,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    number: i64,
    name: Text,
    interval: Interval,
}

/// Every step on every plane that has work, by plane and time. Needs a trace read with its ids.
#[must_use]
pub fn steps(trace: &Trace, filter: &Filter) -> Vec<Step> {
    let taken = filter.kinds(trace);
    trace
        .planes()
        .par_iter()
        .enumerate()
        .filter(|(_, plane)| filter.takes_plane(trace, plane))
        .flat_map_iter(|(number, plane)| steps_of(trace, number, plane, (&taken, filter)))
        .collect()
}

fn steps_of(trace: &Trace, number: usize, plane: &Plane, (taken, filter): (&[bool], &Filter)) -> Vec<Step> {
    let is_work = work::kinds_of_work(trace, plane);
    let lines: Vec<(usize, &Line)> =
        plane.lines.iter().enumerate().filter(|(_, line)| Role::of(trace, plane, line) == Role::Work).collect();
    if !lines.iter().any(|(_, line)| line.kind.iter().any(|kind| is_work[kind.index()])) {
        return Vec::new();
    }
    let assignment = Assignment::of(trace, plane);
    let (found_by, windows) = windows(trace, plane, &assignment);
    let launches = match found_by {
        StepsBy::Annotation => Launches::of(trace, plane),
        StepsBy::Line | StepsBy::Module => Launches::default(),
    };
    let first_launches = launches.of_executions(plane, &assignment);
    let step_of = |number: usize, line: &Line, event: usize| {
        let execution = assignment.of[number][event] as usize;
        let launch = launches.of_event(line, event).or_else(|| first_launches.get(execution).copied().flatten());
        window_at(&windows, launch.unwrap_or(line.start_ps[event]))
    };
    let grouping = Grouping {
        lines: lines.clone(),
        count: windows.len(),
        is_work: &is_work,
        group: |number: usize, line: &Line, event: usize| {
            let is_taken = taken[line.kind[event].index()] && line.duration_ps[event] >= filter.min_duration.get();
            if is_taken { step_of(number, line, event) } else { None }
        },
    };
    let accounts = grouping.accounts().accounts;
    let mut executions: Vec<(usize, u32)> = lines
        .iter()
        .flat_map(|&(number, line)| (0..line.len()).map(move |event| (number, line, event)))
        .filter(|&(_, line, event)| is_work[line.kind[event].index()])
        .filter_map(|(number, line, event)| {
            let execution = assignment.of[number][event];
            (execution != NONE).then_some((step_of(number, line, event)?, execution))
        })
        .collect();
    executions.sort_unstable();
    executions.dedup();
    let mut accounts: FxHashMap<usize, Account> = accounts.into_iter().collect();
    windows
        .iter()
        .enumerate()
        .map(|(place, window)| Step {
            plane: number,
            number: window.number,
            name: window.name,
            found_by,
            span: window.interval.into(),
            account: accounts.remove(&place).unwrap_or_default(),
            executions: executions.partition_point(|&(step, _)| step <= place) as u64
                - executions.partition_point(|&(step, _)| step < place) as u64,
        })
        .collect()
}

/// The steps of a plane, by start.
fn windows(trace: &Trace, plane: &Plane, assignment: &Assignment) -> (StepsBy, Vec<Window>) {
    let on_line: Vec<Window> = plane
        .lines
        .iter()
        .filter(|line| Role::of(trace, plane, line) == Role::Steps)
        .flat_map(|line| {
            windows_of(line, |event| trace.text(trace.kind(line.kind[event]).name).trim().parse().ok(), trace)
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
        .flat_map(|line| windows_of(line, |event| line.ids.step.get(number(event)), trace))
        .collect();
    if !annotated.is_empty() {
        return (StepsBy::Annotation, sorted(annotated));
    }
    (StepsBy::Module, by_module(plane, assignment))
}

fn windows_of<'a>(
    line: &'a Line,
    number: impl Fn(usize) -> Option<i64> + 'a,
    trace: &'a Trace,
) -> impl Iterator<Item = Window> + 'a {
    (0..line.len()).filter(|&event| line.why_unplaced(event).is_none()).filter_map(move |event| {
        let start = line.start_ps[event];
        let interval = Interval { start, end: start + line.duration_ps[event] };
        Some(Window { number: number(event)?, name: trace.kind(line.kind[event]).name, interval })
    })
}

fn sorted(mut windows: Vec<Window>) -> Vec<Window> {
    windows.sort_by_key(|window| window.interval);
    windows
}

/// From each run of the module that is busy longest to the next.
fn by_module(plane: &Plane, assignment: &Assignment) -> Vec<Window> {
    let mut hulls: Vec<Option<Interval>> = vec![None; assignment.keys.len()];
    let mut totals: FxHashMap<_, i64> = FxHashMap::default();
    let mut last = i64::MIN;
    for (line, of) in plane.lines.iter().zip(&assignment.of) {
        for (event, &execution) in of.iter().enumerate().filter(|&(_, &execution)| execution != NONE) {
            if line.why_unplaced(event).is_some() {
                continue;
            }
            let start = line.start_ps[event];
            let interval = Interval { start, end: start + line.duration_ps[event] };
            last = last.max(interval.end);
            let hull = hulls[execution as usize].get_or_insert(interval);
            *hull = Interval { start: hull.start.min(interval.start), end: hull.end.max(interval.end) };
            let key = assignment.keys[execution as usize];
            let total = totals.entry((key.module, key.program)).or_insert(0_i64);
            *total = total.saturating_add(interval.length());
        }
    }
    let Some((&longest, _)) = totals.iter().max_by_key(|&(key, total)| (*total, std::cmp::Reverse(*key))) else {
        return Vec::new();
    };
    let Some(name) = longest.0 else { return Vec::new() };
    let mut starts: Vec<i64> = assignment
        .keys
        .iter()
        .zip(&hulls)
        .filter(|(key, _)| (key.module, key.program) == longest)
        .filter_map(|(_, hull)| hull.map(|hull| hull.start))
        .collect();
    starts.sort_unstable();
    let ends = starts.iter().skip(1).copied().chain([last]);
    let intervals = starts.iter().copied().zip(ends).map(|(start, end)| Interval { start, end });
    (0..).zip(intervals).map(|(number, interval)| Window { number, name, interval }).collect()
}

/// The window that is open at a time: of several the one that started last.
fn window_at(windows: &[Window], time: i64) -> Option<usize> {
    let after = windows.partition_point(|window| window.interval.start <= time);
    // Steps follow each other; only a few may be open at once.
    (0..after).rev().take(64).find(|&place| time < windows[place].interval.end || is_last_at(windows, place, time))
}

/// A last step holds what starts with its end: it has no next.
fn is_last_at(windows: &[Window], place: usize, time: i64) -> bool {
    place + 1 == windows.len() && windows[place].interval.end == time
}

/// When the host launched what a device did, by session and correlation id.
#[derive(Debug, Default)]
struct Launches {
    times: FxHashMap<(u32, i64), i64>,
}

impl Launches {
    fn of(trace: &Trace, plane: &Plane) -> Self {
        let mut times: FxHashMap<(u32, i64), i64> = FxHashMap::default();
        if plane.platform == Platform::Host {
            return Self { times };
        }
        let hosts = trace.planes().iter().filter(|host| host.platform == Platform::Host && host.host == plane.host);
        for line in hosts.flat_map(|host| &host.lines) {
            for (event, correlation) in line.ids.correlation.iter() {
                let event = event as usize;
                if line.why_unplaced(event).is_none() {
                    let session = line.segment(event).map_or(0, |segment| segment.session);
                    let time = times.entry((session, correlation)).or_insert(i64::MAX);
                    *time = (*time).min(line.start_ps[event]);
                }
            }
        }
        Self { times }
    }

    fn of_event(&self, line: &Line, event: usize) -> Option<i64> {
        if self.times.is_empty() {
            return None;
        }
        let session = line.segment(event).map_or(0, |segment| segment.session);
        self.times.get(&(session, line.ids.correlation.get(number(event))?)).copied()
    }

    /// The first launch of each execution.
    fn of_executions(&self, plane: &Plane, assignment: &Assignment) -> Vec<Option<i64>> {
        let mut first: Vec<Option<i64>> = vec![None; assignment.keys.len()];
        // Without launches an execution is of the step in which it starts, with all it has.
        for (line, of) in plane.lines.iter().zip(&assignment.of) {
            for (event, &execution) in of.iter().enumerate().filter(|&(_, &execution)| execution != NONE) {
                let time = self.of_event(line, event).or_else(|| self.times.is_empty().then_some(line.start_ps[event]));
                if let Some(time) = time {
                    let first = first[execution as usize].get_or_insert(time);
                    *first = (*first).min(time);
                }
            }
        }
        first
    }
}

/// The work of no step, where there are steps.
#[must_use]
pub fn outside_steps(steps: &[Step], plane: usize, work: u64) -> u64 {
    work.saturating_sub(steps.iter().filter(|step| step.plane == plane).map(|step| step.account.events).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_of_the_step_that_started_last() {
        let mut strings = crate::table::Strings::default();
        let name = strings.intern("train");
        let window = |start, end| Window { number: start, name, interval: Interval { start, end } };
        let windows = [window(0, 10), window(10, 20), window(12, 14), window(30, 40)];
        let at = |time| window_at(&windows, time);
        assert_eq!([at(-1), at(0), at(10), at(13), at(15), at(25)], [None, Some(0), Some(1), Some(2), Some(1), None]);
        assert_eq!([at(40), at(41)], [Some(3), None]);
    }

    #[test]
    fn what_is_in_no_step_is_told() {
        assert_eq!(outside_steps(&[], 0, 5), 5);
    }
}
