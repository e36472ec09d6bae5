//! Which events of a plane a profiler looks at: those long enough, up to a cap, in the order of the file.

use ergometer_units::Picos;
use foldhash::HashSet;

use super::{ProfilerOptions, ProfilerWarning, ProfilingError};
use crate::accounting::{Assignment, Execution, FoundBy, NONE};
use crate::table::{Kind, Line, Plane, ProgramId, Text, Trace};

/// The events of a plane that are looked at.
#[derive(Debug)]
pub(super) struct Selection<'a> {
    pub(super) number: usize,
    pub(super) plane: &'a Plane,
    /// Of every kind whether its name passes the prefix.
    pub(super) begins: Vec<bool>,
    name: &'a str,
    min_duration: Picos,
    /// Of every line, how many of its first events the cap leaves.
    ends: Vec<usize>,
    kept: usize,
    left_out: usize,
    short: usize,
    short_ps: i64,
}

/// An execution a part of which the cap cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CutExecution {
    plane: usize,
    session: usize,
    device_ordinal: Option<i64>,
    module: Option<Text>,
    program: Option<ProgramId>,
    found_by: FoundBy,
    id: Option<i64>,
}

impl From<&Execution> for CutExecution {
    fn from(execution: &Execution) -> Self {
        Self {
            plane: execution.device.plane,
            session: execution.session,
            device_ordinal: execution.device_ordinal,
            module: execution.module,
            program: execution.program,
            found_by: execution.found_by,
            id: execution.id,
        }
    }
}

/// The module that an event names itself.
pub(super) fn said_module(kind: &Kind) -> Option<Text> {
    kind.module.filter(|_| !kind.is_module_by_time)
}

/// What an event is called: its module, or its own name where it has none.
pub(super) fn unified_name(kind: &Kind) -> Text {
    said_module(kind).unwrap_or(kind.name)
}

impl<'a> Selection<'a> {
    pub(super) fn of(trace: &'a Trace, number: usize, options: &ProfilerOptions) -> Result<Self, ProfilingError> {
        let last = trace.planes().len().saturating_sub(1);
        let plane = trace.planes().get(number).ok_or(ProfilingError::PlaneOutOfRange { plane: number, last })?;
        let begins = |kind: &Kind| trace.text(unified_name(kind)).starts_with(&options.prefix_filter);
        let mut selection = Self {
            number,
            plane,
            begins: trace.kinds().iter().map(begins).collect(),
            name: trace.text(plane.name),
            min_duration: options.min_duration(),
            ends: Vec::with_capacity(plane.lines.len()),
            kept: 0,
            left_out: 0,
            short: 0,
            short_ps: 0,
        };
        let cap = options.max_events_per_profile.unwrap_or(usize::MAX);
        for line in &plane.lines {
            let mut end = line.len();
            for event in 0..line.len() {
                if !selection.is_long(line, event) {
                    selection.pass_over(line, event);
                } else if selection.kept < cap {
                    selection.kept += 1;
                } else {
                    end = end.min(event);
                    selection.left_out += 1;
                }
            }
            selection.ends.push(end);
        }
        Ok(selection)
    }

    /// Whether an event has a place in time and is long enough.
    fn is_long(&self, line: &Line, event: usize) -> bool {
        line.duration_ps[event] >= self.min_duration.get() && line.why_unplaced(event).is_none()
    }

    fn pass_over(&mut self, line: &Line, event: usize) {
        if self.begins[line.kind[event].index()] && line.why_unplaced(event).is_none() {
            self.short += 1;
            self.short_ps = self.short_ps.saturating_add(line.duration_ps[event]);
        }
    }

    /// Whether an event is looked at.
    pub(super) fn takes(&self, line_number: usize, line: &Line, event: usize) -> bool {
        event < self.ends[line_number] && self.is_long(line, event)
    }

    pub(super) fn warnings(&self, options: &ProfilerOptions) -> Vec<ProfilerWarning> {
        let plane = || self.name.to_owned();
        let cut = ProfilerWarning::Cut { plane: plane(), kept: self.kept, left_out: self.left_out };
        let short = ProfilerWarning::Short { plane: plane(), events: self.short, total: Picos::new(self.short_ps) };
        let told = [(self.left_out > 0, cut), (options.verbose && self.short > 0, short)];
        told.into_iter().filter_map(|(is_told, warning)| is_told.then_some(warning)).collect()
    }

    /// The executions of which the cap cuts a part.
    pub(super) fn cut_executions(&self, trace: &Trace) -> HashSet<CutExecution> {
        let mut cut = HashSet::default();
        if self.left_out == 0 {
            return cut;
        }
        let assignment = Assignment::of(trace, self.plane);
        for (line_number, line) in self.plane.lines.iter().enumerate() {
            for event in self.ends[line_number]..line.len() {
                let place = assignment.of[line_number][event];
                if place == NONE || !self.is_long(line, event) {
                    continue;
                }
                let key = assignment.keys[place as usize];
                cut.insert(CutExecution {
                    plane: self.number,
                    session: key.session as usize,
                    device_ordinal: key.device_ordinal,
                    module: key.module,
                    program: key.program,
                    found_by: key.found_by,
                    id: key.id,
                });
            }
        }
        cut
    }
}
