//! Finds when the host launched the work of its devices.
//!
//! On GPU a kernel and the call that launched it share a correlation id. On CPU nothing connects an op to its call, but
//! the runs of a module begin in the order of the calls of its function. If a device has as many runs as calls, the
//! first run belongs to the first call, and so on.

use foldhash::HashMap;

use super::device::Device;
use super::executions::{Assignment, NONE};
use crate::table::{Line, Platform, Text, Trace, number};

/// The known launch times.
#[derive(Debug, Default)]
pub(super) struct Launches {
    /// By session and correlation id.
    by_correlation: HashMap<(u32, i64), i64>,
    /// By execution.
    by_execution: Vec<Option<i64>>,
}

impl Launches {
    pub(super) fn new(trace: &Trace, device: &Device<'_>, assignment: &Assignment) -> Self {
        let mut launches = Self::default();
        if device.plane.platform == Platform::Host {
            launches.by_execution = by_order(trace, device, assignment);
            return launches;
        }
        let hosts =
            trace.planes().iter().filter(|host| host.platform == Platform::Host && host.host == device.plane.host);
        for line in hosts.flat_map(|host| &host.lines) {
            for (event, correlation) in line.ids.correlation.iter() {
                let event = event as usize;
                if let Some(start) = line.start(event) {
                    let session = line.segment(event).map_or(0, |segment| segment.session);
                    let time = launches.by_correlation.entry((session, correlation)).or_insert(i64::MAX);
                    *time = (*time).min(start);
                }
            }
        }
        launches.by_execution = first_launches(device, assignment, &launches);
        launches
    }

    /// When an event was launched, by its correlation id.
    pub(super) fn event_launch(&self, line: &Line, event: usize) -> Option<i64> {
        if self.by_correlation.is_empty() {
            return None;
        }
        let session = line.segment(event).map_or(0, |segment| segment.session);
        self.by_correlation.get(&(session, line.ids.correlation.get(number(event))?)).copied()
    }

    /// When an execution was launched; `None` for [`NONE`].
    pub(super) fn execution_launch(&self, execution: u32) -> Option<i64> {
        self.by_execution.get(execution as usize).copied().flatten()
    }
}

/// The first launch of each execution, for its events without a launch of their own.
fn first_launches(device: &Device<'_>, assignment: &Assignment, launches: &Launches) -> Vec<Option<i64>> {
    let mut first: Vec<Option<i64>> = vec![None; assignment.keys.len()];
    for (place, line, event) in device.work().filter(|&(place, _, event)| assignment.executions[place][event] != NONE) {
        if let Some(time) = launches.event_launch(line, event) {
            let first = first[assignment.executions[place][event] as usize].get_or_insert(time);
            *first = (*first).min(time);
        }
    }
    first
}

/// The launch of each execution on the host itself: the nth run of a module belongs to the nth call of its function. If
/// there are more or fewer calls than runs, an execution counts as launched when it starts.
fn by_order(trace: &Trace, device: &Device<'_>, assignment: &Assignment) -> Vec<Option<i64>> {
    let mut starts: Vec<Option<i64>> = vec![None; assignment.keys.len()];
    for (place, line, event) in device.work().filter(|&(place, _, event)| assignment.executions[place][event] != NONE) {
        if let Some(time) = line.start(event) {
            let start = starts[assignment.executions[place][event] as usize].get_or_insert(time);
            *start = (*start).min(time);
        }
    }
    let mut runs: HashMap<(u32, Text), Vec<(i64, usize)>> = HashMap::default();
    for (place, (key, start)) in assignment.keys.iter().zip(&starts).enumerate() {
        if let (Some(module), Some(start)) = (key.module, start) {
            runs.entry((key.session, module)).or_default().push((*start, place));
        }
    }
    let calls = calls(trace, device);
    let mut launches = starts;
    for ((session, module), mut runs) in runs {
        let Some(calls) = calls.get(&(session, trace.text(module))) else { continue };
        runs.sort_unstable();
        let follows = |((start, _), call): (&(i64, usize), &i64)| call <= start;
        if calls.len() == runs.len() && runs.iter().zip(calls).all(follows) {
            for (&(_, place), &call) in runs.iter().zip(calls) {
                launches[place] = Some(call);
            }
        }
    }
    launches
}

/// The calls of jitted functions on host threads, by session and module name. Two nested events may report the same
/// call.
fn calls<'a>(trace: &'a Trace, device: &Device<'_>) -> HashMap<(u32, &'a str), Vec<i64>> {
    let modules: HashMap<String, &str> = trace
        .kinds()
        .iter()
        .filter_map(|kind| kind.module)
        .map(|module| (trace.text(module).to_owned(), trace.text(module)))
        .collect();
    let called: Vec<Option<&str>> =
        trace.kinds().iter().map(|kind| modules.get(&module_of_call(trace.text(kind.name))?).copied()).collect();
    let mut calls: HashMap<(u32, &str), Vec<(i64, i64)>> = HashMap::default();
    for line in &device.plane.lines {
        for event in 0..line.len() {
            if let (Some(module), Some(interval)) = (called[line.kind[event].index()], line.interval(event)) {
                let session = line.segment(event).map_or(0, |segment| segment.session);
                calls.entry((session, module)).or_default().push(interval);
            }
        }
    }
    let outermost = |mut intervals: Vec<(i64, i64)>| {
        intervals.sort_by_key(|&(start, end)| (start, std::cmp::Reverse(end)));
        let mut last = i64::MIN;
        intervals.retain(|&(_, end)| {
            end > last && {
                last = last.max(end);
                true
            }
        });
        intervals.into_iter().map(|(start, _)| start).collect()
    };
    calls.into_iter().map(|(key, intervals)| (key, outermost(intervals))).collect()
}

/// The module of a call: `PjitFunction(step)` calls `jit_step`. Characters other than letters and digits become `_`,
/// which is removed at the end.
fn module_of_call(name: &str) -> Option<String> {
    let function = name.strip_prefix("PjitFunction(")?.strip_suffix(')')?;
    let plain: String =
        function.chars().map(|character| if character.is_ascii_alphanumeric() { character } else { '_' }).collect();
    Some(format!("jit_{}", plain.trim_end_matches('_')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_a_module() {
        assert_eq!(module_of_call("PjitFunction(<lambda>)").as_deref(), Some("jit__lambda"));
        assert_eq!(module_of_call("PjitFunction(train_step)").as_deref(), Some("jit_train_step"));
        assert_eq!(module_of_call("train_step"), None);
    }
}
