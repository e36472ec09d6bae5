//! Executions: which events are of one run of one module on one device.
//!
//! By `run_id` where the platform has it. On GPU by the scope that the host launched the kernels in; where a trace does not
//! say what a scope stands in, by runs of consecutive correlation ids in one module. On TPU each event of the line of
//! modules is one, and has the ops that start in it.

use ergometer_units::Picos;
use foldhash::{HashMap, HashSet};
use rayon::prelude::*;
use serde::Serialize;

use super::account::{Account, Span};
use super::device::{Chosen, Device, DeviceId};
use super::filter::Filter;
use super::grouping::{Grouping, share};
use super::work::{self, Role};
use crate::table::{Line, ModuleRuns, Plane, ProgramId, Text, Trace, number};

/// How an execution was told from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FoundBy {
    /// The trace gives each run a number.
    RunId,
    /// The scope on the host that launched the kernels.
    Scope,
    /// Kernels launched one after the other.
    Correlation,
    /// The line of modules has it.
    ModuleLine,
    /// Nothing tells runs apart: all are one.
    Nothing,
}

impl FoundBy {
    /// As tables and files have it.
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
    /// Which device.
    pub device: DeviceId,
    /// The number of the device as its events say it, also where there is only one.
    pub device_ordinal: Option<i64>,
    /// Which session of the trace.
    pub session: usize,
    /// The module.
    pub module: Option<Text>,
    /// Its compilation.
    pub program: Option<ProgramId>,
    /// The number it was found by: run, scope or correlation.
    pub id: Option<i64>,
    /// How it was found.
    pub found_by: FoundBy,
    /// Which run of its module on its device, from zero, by time.
    pub number: u64,
    /// From the first start to the last end of its events.
    pub span: Span,
    /// The times of its events.
    pub account: Account,
}

/// A module on a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    /// Which device.
    pub device: DeviceId,
    /// Its name; `None` for work that is of no module.
    pub module: Option<Text>,
    /// Its compilation.
    pub program: Option<ProgramId>,
    /// How often it ran; `None` of work that is of no module.
    pub executions: Option<u64>,
    /// The times of its events.
    pub account: Account,
    /// The busy time of each run, in order of time.
    pub busy: Vec<Picos>,
    /// The span of each run, in order of time.
    pub spans: Vec<Picos>,
    /// Its self time as a part of all work on the device.
    pub share: Option<f64>,
}

/// What the events of one execution on a plane have in common.
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
    /// What its events have in common: the key of one execution on its plane.
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
    /// By line, the execution of each event; [`NONE`] where it is of none.
    pub(crate) of: Vec<Vec<u32>>,
    /// From when to when each goes, where a line of modules says it.
    spans: Vec<Span>,
    places: HashMap<ExecutionKey, u32>,
}

pub(crate) const NONE: u32 = u32::MAX;

/// A kernel whose scope the trace does not place.
struct Loose {
    key: ExecutionKey,
    correlation: i64,
    line: usize,
    event: usize,
}

impl Assignment {
    /// The execution of an event, as a number from 0; `None` for an event that belongs to no execution.
    #[must_use]
    pub fn execution(&self, line: usize, event: usize) -> Option<usize> {
        self.of.get(line)?.get(event).filter(|execution| **execution != NONE).map(|execution| *execution as usize)
    }

    /// What the events of an execution have in common.
    #[must_use]
    pub fn key(&self, execution: usize) -> Option<ExecutionKey> {
        self.keys.get(execution).copied()
    }

    /// Assigns the events of a plane to executions.
    #[must_use]
    pub fn of(trace: &Trace, plane: &Plane) -> Self {
        let mut assignment =
            Self { of: plane.lines.iter().map(|line| vec![NONE; line.len()]).collect(), ..Self::default() };
        let is_work = work::kinds_of_work(trace, plane);
        let runs = ModuleRuns::of(trace.strings(), plane);
        if !runs.runs.is_empty() {
            assignment.by_module_runs(trace, plane, &runs);
            return assignment;
        }
        let mut loose = Vec::new();
        for (number, line) in plane.lines.iter().enumerate() {
            if Role::of(trace, plane, line) != Role::Work {
                continue;
            }
            for event in 0..line.len() {
                if !is_work[line.kind[event].index()] {
                    continue;
                }
                match key(trace, line, event) {
                    Some(Ok(key)) => assignment.of[number][event] = assignment.intern(key),
                    Some(Err((key, correlation))) => loose.push(Loose { key, correlation, line: number, event }),
                    None => {}
                }
            }
        }
        assignment.by_correlation(loose);
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

    fn by_correlation(&mut self, mut loose: Vec<Loose>) {
        loose.sort_by_key(|kernel| (kernel.key.session, kernel.correlation));
        let mut last: Option<(ExecutionKey, i64)> = None;
        for kernel in loose {
            let mut key = kernel.key;
            key.id = match last {
                Some((run, last)) if ExecutionKey { id: None, ..run } == key && follows(kernel.correlation, last) => {
                    run.id
                }
                _ => Some(kernel.correlation),
            };
            last = Some((key, kernel.correlation));
            self.of[kernel.line][kernel.event] = self.intern(key);
        }
    }

    /// Each event of a line of modules is one, also where a run's number comes again.
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
            let (start, end) = run.stretch;
            self.spans.push(Span { start: Picos::new(start), end: Picos::new(end) });
        }
        for (line, of) in plane.lines.iter().zip(&mut self.of) {
            if Role::of(trace, plane, line) != Role::Work {
                continue;
            }
            for (event, of) in of.iter_mut().enumerate() {
                if let Some(run) = line.start(event).and_then(|start| runs.at(start)) {
                    *of = number(run);
                }
            }
        }
    }
}

/// Whether a correlation id is that of the same launch or of the next.
fn follows(correlation: i64, last: i64) -> bool {
    correlation.checked_sub(last).is_some_and(|distance| distance <= 1)
}

/// The execution of an event; `Err` with its correlation id where that has to decide; `None` where it is of no module.
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
        // Scopes are numbered as they open: one whose entry is missing stands where the one before it does.
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

/// Every execution, by device and time. Needs a trace read with its ids.
#[must_use]
pub fn executions(trace: &Trace, filter: &Filter) -> Vec<Execution> {
    let chosen = Chosen::new(trace, filter);
    Device::all(trace, filter)
        .par_iter()
        .flat_map_iter(|device| executions_of(device, &Assignment::of(trace, device.plane), &chosen))
        .collect()
}

/// The executions of a device, by time.
fn executions_of(device: &Device<'_>, assignment: &Assignment, chosen: &Chosen) -> Vec<Execution> {
    let group = |number: usize, line: &Line, event: usize| {
        let execution = assignment.of[number][event];
        (execution != NONE && chosen.has(line, event)).then_some(execution as usize)
    };
    let mut accounts = Grouping { device, count: assignment.keys.len(), group }.accounts().accounts;
    // A run on a line of modules is one though nothing ran in it.
    if !assignment.spans.is_empty() && chosen.is_all() {
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

/// Every module, by device, longest busy first. Needs a trace read with its ids.
#[must_use]
pub fn modules(trace: &Trace, filter: &Filter) -> Vec<Module> {
    let chosen = Chosen::new(trace, filter);
    let devices = Device::all(trace, filter);
    let mut modules: Vec<Module> =
        devices.par_iter().flat_map_iter(|device| modules_of(trace, device, &chosen)).collect();
    modules.sort_by(|left, right| (left.device, right.account.busy).cmp(&(right.device, left.account.busy)));
    modules
}

fn modules_of(trace: &Trace, device: &Device<'_>, chosen: &Chosen) -> Vec<Module> {
    let assignment = Assignment::of(trace, device.plane);
    // The first is for work that is of no module.
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
    for run in executions_of(device, &assignment, chosen) {
        if let Some(&place) = places.get(&(run.module, run.program)) {
            runs[place].push(run);
        }
    }
    let group = |number: usize, line: &Line, event: usize| {
        let execution = assignment.of[number][event] as usize;
        chosen.has(line, event).then(|| module_of.get(execution).copied().unwrap_or(0))
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
