//! Finds executions: the events of one run of one module on one device.
//!
//! The events of an execution share a `run_id` on CPU. On GPU they share the scope in which the host launched the
//! kernels, or, if the trace does not have the parent of a scope, consecutive correlation ids within one module. On TPU
//! each event of the line of modules is an execution, with the ops that start in it.

use ergometer_units::Picos;
use foldhash::{HashMap, HashSet};
use rayon::prelude::*;
use serde::Serialize;

use super::account::{Account, Span};
use super::device::{Device, DeviceId, EventSelection};
use super::filter::Filter;
use super::grouping::{Grouping, share};
use super::work::{self, Role};
use crate::table::{Line, ModuleRuns, Plane, ProgramId, Text, Trace, number};

/// How an execution was distinguished from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FoundBy {
    /// By the number of the run.
    RunId,
    /// By the scope on the host that launched the kernels.
    Scope,
    /// By consecutive launches of kernels.
    Correlation,
    /// By the line of modules.
    ModuleLine,
    /// Not at all: runs cannot be distinguished and count as one.
    Nothing,
}

impl FoundBy {
    /// Its name in tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RunId => "run_id",
            Self::Scope => "scope",
            Self::Correlation => "correlation",
            Self::ModuleLine => "module_line",
            Self::Nothing => "nothing",
        }
    }
}

/// One run of one module on one device.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// The device.
    pub device: DeviceId,
    /// The device number that its events have, even if there is only one device.
    pub device_ordinal: Option<i64>,
    /// The index of the session.
    pub session: usize,
    /// The module.
    pub module: Option<Text>,
    /// Its compilation.
    pub program: Option<ProgramId>,
    /// The number it was found by: run, scope or correlation id.
    pub id: Option<i64>,
    /// How it was found.
    pub found_by: FoundBy,
    /// The number of the run among those of its module on its device, from zero, by time.
    pub number: u64,
    /// From the first start to the last end of its events.
    pub span: Span,
    /// The times of its events.
    pub account: Account,
}

/// A module on a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    /// The device.
    pub device: DeviceId,
    /// Its name; `None` for work outside modules.
    pub module: Option<Text>,
    /// Its compilation.
    pub program: Option<ProgramId>,
    /// The number of its runs; `None` for work outside modules.
    pub executions: Option<u64>,
    /// The times of its events.
    pub account: Account,
    /// The busy time of each run, in order of time.
    pub busy: Vec<Picos>,
    /// The span of each run, in order of time.
    pub spans: Vec<Picos>,
    /// Its self time as a share of all work on the device.
    pub share: Option<f64>,
}

/// The key of one execution on a plane: the values that all its events share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExecutionKey {
    pub(crate) session: u32,
    pub(crate) module: Option<Text>,
    pub(crate) program: Option<ProgramId>,
    pub(crate) device_ordinal: Option<i64>,
    pub(crate) found_by: FoundBy,
    pub(crate) id: Option<i64>,
}

impl Execution {
    /// The key of this execution on its plane.
    #[must_use]
    pub fn key(&self) -> ExecutionKey {
        ExecutionKey {
            session: number(self.session),
            module: self.module,
            program: self.program,
            device_ordinal: self.device_ordinal,
            found_by: self.found_by,
            id: self.id,
        }
    }
}

/// The executions of a plane and the events of each.
#[derive(Debug, Default)]
pub struct Assignment {
    pub(crate) keys: Vec<ExecutionKey>,
    /// The execution of each event, by line; [`NONE`] for an event that belongs to no execution.
    pub(crate) executions: Vec<Vec<u32>>,
    /// The span of each execution, if there is a line of modules.
    spans: Vec<Span>,
    places: HashMap<ExecutionKey, u32>,
}

pub(crate) const NONE: u32 = u32::MAX;

/// A kernel whose scope has no known parent.
struct UnscopedKernel {
    key: ExecutionKey,
    correlation: i64,
    line: usize,
    event: usize,
}

impl Assignment {
    /// The execution of an event, as a number from 0; `None` for an event that belongs to no execution.
    #[must_use]
    pub fn execution(&self, line: usize, event: usize) -> Option<usize> {
        self.executions
            .get(line)?
            .get(event)
            .filter(|execution| **execution != NONE)
            .map(|execution| *execution as usize)
    }

    /// The key of an execution.
    #[must_use]
    pub fn key(&self, execution: usize) -> Option<ExecutionKey> {
        self.keys.get(execution).copied()
    }

    /// Assigns the events of a plane to executions.
    #[must_use]
    pub fn new(trace: &Trace, plane: &Plane) -> Self {
        let mut assignment =
            Self { executions: plane.lines.iter().map(|line| vec![NONE; line.len()]).collect(), ..Self::default() };
        let is_work = work::kinds_of_work(trace, plane);
        let runs = ModuleRuns::new(trace.strings(), plane);
        if !runs.runs.is_empty() {
            assignment.by_module_runs(trace, plane, &runs);
            return assignment;
        }
        let mut unscoped = Vec::new();
        for (number, line) in plane.lines.iter().enumerate() {
            if Role::from_line(trace, plane, line) != Role::Work {
                continue;
            }
            for event in 0..line.len() {
                if !is_work[line.kind[event].index()] {
                    continue;
                }
                match key(trace, line, event) {
                    Some(Ok(key)) => assignment.executions[number][event] = assignment.intern(key),
                    Some(Err((key, correlation))) => {
                        unscoped.push(UnscopedKernel { key, correlation, line: number, event });
                    }
                    None => {}
                }
            }
        }
        assignment.by_correlation(unscoped);
        assignment
    }

    fn intern(&mut self, key: ExecutionKey) -> u32 {
        let next = number(self.keys.len());
        let place = *self.places.entry(key).or_insert(next);
        if place == next {
            self.keys.push(key);
        }
        place
    }

    fn by_correlation(&mut self, mut unscoped: Vec<UnscopedKernel>) {
        unscoped.sort_by_key(|kernel| (kernel.key.session, kernel.correlation));
        let mut last: Option<(ExecutionKey, i64)> = None;
        for kernel in unscoped {
            let mut key = kernel.key;
            key.id = match last {
                Some((run, last)) if ExecutionKey { id: None, ..run } == key && follows(kernel.correlation, last) => {
                    run.id
                }
                _ => Some(kernel.correlation),
            };
            last = Some((key, kernel.correlation));
            self.executions[kernel.line][kernel.event] = self.intern(key);
        }
    }

    /// Each event of a line of modules is an execution, even if the number of a run occurs again.
    fn by_module_runs(&mut self, trace: &Trace, plane: &Plane, runs: &ModuleRuns) {
        for run in &runs.runs {
            let line = &plane.lines[run.line];
            let kind = trace.kind(line.kind[run.event]);
            self.keys.push(ExecutionKey {
                session: line.segment(run.event).map_or(0, |segment| segment.session),
                module: kind.module,
                program: kind.program,
                device_ordinal: kind.device_ordinal,
                found_by: FoundBy::ModuleLine,
                id: line.ids.run.get(number(run.event)),
            });
            let (start, end) = run.interval;
            self.spans.push(Span { start: Picos::new(start), end: Picos::new(end) });
        }
        for (line, executions) in plane.lines.iter().zip(&mut self.executions) {
            if Role::from_line(trace, plane, line) != Role::Work {
                continue;
            }
            for (event, execution) in executions.iter_mut().enumerate() {
                if let Some(run) = line.start(event).and_then(|start| runs.at(start)) {
                    *execution = number(run);
                }
            }
        }
    }
}

/// Whether a correlation id belongs to the same launch or the next one.
fn follows(correlation: i64, last: i64) -> bool {
    correlation.checked_sub(last).is_some_and(|distance| distance <= 1)
}

/// The execution of an event; `Err` with its correlation id if that decides; `None` for an event outside modules.
fn key(trace: &Trace, line: &Line, event: usize) -> Option<Result<ExecutionKey, (ExecutionKey, i64)>> {
    let kind = trace.kind(line.kind[event]);
    let module = Some(kind.module?);
    let session = line.segment(event).map_or(0, |segment| segment.session);
    let (program, device_ordinal) = (kind.program, kind.device_ordinal);
    let key = |found_by, id| ExecutionKey { session, module, program, device_ordinal, found_by, id };
    let event = number(event);
    if let Some(run) = line.ids.run.get(event) {
        return Some(Ok(key(FoundBy::RunId, Some(run))));
    }
    if let Some(scope) = line.ids.scope.get(event) {
        let parents = trace.sessions().get(session as usize).map(|session| &session.scope_parents);
        // Scopes are numbered as they open, so a scope without an entry has the parent of the scope before it.
        let parent = parents.and_then(|parents| parents.get(&scope).or_else(|| parents.get(&scope.wrapping_sub(1))));
        if let Some(&parent) = parent {
            return Some(Ok(key(FoundBy::Scope, Some(parent))));
        }
    }
    match line.ids.correlation.get(event) {
        Some(correlation) => Some(Err((key(FoundBy::Correlation, None), correlation))),
        None => Some(Ok(key(FoundBy::Nothing, None))),
    }
}

/// All executions, by device and time. The trace must be read with ids.
#[must_use]
pub fn executions(trace: &Trace, filter: &Filter) -> Vec<Execution> {
    let selection = EventSelection::new(trace, filter);
    Device::all(trace, filter)
        .par_iter()
        .flat_map_iter(|device| device_executions(device, &Assignment::new(trace, device.plane), &selection))
        .collect()
}

/// The executions of a device, by time.
fn device_executions(device: &Device<'_>, assignment: &Assignment, selection: &EventSelection) -> Vec<Execution> {
    let group = |number: usize, line: &Line, event: usize| {
        let execution = assignment.executions[number][event];
        (execution != NONE && selection.has(line, event)).then_some(execution as usize)
    };
    let mut accounts = Grouping { device, count: assignment.keys.len(), group }.accounts().accounts;
    // A run on a line of modules is an execution even if nothing ran in it.
    if !assignment.spans.is_empty() && selection.is_all() {
        let mut filled: HashMap<usize, Account> = accounts.into_iter().collect();
        accounts = (0..assignment.keys.len()).map(|place| (place, filled.remove(&place).unwrap_or_default())).collect();
    }
    let execution = |(place, account): (usize, Account)| {
        let key = assignment.keys[place];
        let span = assignment.spans.get(place).copied();
        Some(Execution {
            device: device.id,
            device_ordinal: key.device_ordinal,
            session: key.session as usize,
            module: key.module,
            program: key.program,
            id: key.id,
            found_by: key.found_by,
            number: 0,
            span: span.or(account.span)?,
            account,
        })
    };
    let mut executions: Vec<Execution> = accounts.into_iter().filter_map(execution).collect();
    executions.sort_by_key(|execution| (execution.span.start, execution.span.end));
    let mut numbers = HashMap::default();
    for execution in &mut executions {
        let next = numbers.entry((execution.module, execution.program)).or_insert(0);
        execution.number = *next;
        *next += 1;
    }
    executions
}

/// All modules, by device, the longest busy time first. The trace must be read with ids.
#[must_use]
pub fn modules(trace: &Trace, filter: &Filter) -> Vec<Module> {
    let selection = EventSelection::new(trace, filter);
    let devices = Device::all(trace, filter);
    let mut modules: Vec<Module> =
        devices.par_iter().flat_map_iter(|device| device_modules(trace, device, &selection)).collect();
    modules.sort_by(|left, right| (left.device, right.account.busy).cmp(&(right.device, left.account.busy)));
    modules
}

fn device_modules(trace: &Trace, device: &Device<'_>, selection: &EventSelection) -> Vec<Module> {
    let assignment = Assignment::new(trace, device.plane);
    // The first label is for work outside modules.
    let mut labels: Vec<(Option<Text>, Option<ProgramId>)> = vec![(None, None)];
    let mut places: HashMap<(Option<Text>, Option<ProgramId>), usize> = HashMap::default();
    let module_of: Vec<usize> = assignment
        .keys
        .iter()
        .map(|key| {
            *places.entry((key.module, key.program)).or_insert_with(|| {
                labels.push((key.module, key.program));
                labels.len() - 1
            })
        })
        .collect();
    let mut runs: Vec<Vec<Execution>> = vec![Vec::new(); labels.len()];
    for run in device_executions(device, &assignment, selection) {
        if let Some(&place) = places.get(&(run.module, run.program)) {
            runs[place].push(run);
        }
    }
    let group = |number: usize, line: &Line, event: usize| {
        let execution = assignment.executions[number][event] as usize;
        selection.has(line, event).then(|| module_of.get(execution).copied().unwrap_or(0))
    };
    let mut accounts = Grouping { device, count: labels.len(), group }.accounts();
    let filled: HashSet<usize> = accounts.accounts.iter().map(|(place, _)| *place).collect();
    let empty = (1..labels.len()).filter(|place| !runs[*place].is_empty() && !filled.contains(place));
    accounts.accounts.extend(empty.map(|place| (place, Account::default())));
    let module = |(place, account): (usize, Account)| {
        let (module, program) = labels[place];
        Module {
            device: device.id,
            module,
            program,
            executions: (place > 0).then_some(runs[place].len() as u64),
            busy: runs[place].iter().map(|run| run.account.busy).collect(),
            spans: runs[place].iter().map(|run| run.span.length()).collect(),
            share: share(account.self_time, accounts.all_self),
            account,
        }
    };
    accounts.accounts.into_iter().map(module).collect()
}
