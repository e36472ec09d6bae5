//! Selects the events of a plane that a profiler counts: long enough, and before the cap in file order.

use ergometer_trace::accounting::{Assignment, ExecutionKey, Interval};
use ergometer_trace::{Event, Kind, Line, Plane, Text, Trace};
use ergometer_units::Picos;
use foldhash::HashSet;

use crate::{ProfilerOptions, ProfilerWarning, ProfilingError};

/// The events of a plane that a profiler counts.
#[derive(Debug)]
pub(crate) struct Selection<'a> {
    pub(crate) plane_number: usize,
    pub(crate) plane: &'a Plane,
    /// For every kind of the trace, whether its name starts with the prefix.
    pub(crate) has_prefix: Vec<bool>,
    name: &'a str,
    min_duration: Picos,
    /// For every line, how many of its first events are before the cap.
    ends: Vec<usize>,
    kept: usize,
    left_out: usize,
    short: usize,
    short_ps: i64,
}

/// An event of a plane, with its position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlacedEvent<'a> {
    pub(crate) line_number: usize,
    pub(crate) line: &'a Line,
    /// Its number on the line.
    pub(crate) number: usize,
    pub(crate) event: Event,
    pub(crate) interval: Interval,
}

/// An execution on a plane.
pub(crate) type PlaneExecution = (usize, ExecutionKey);

/// The module that an event itself names.
pub(crate) fn own_module(kind: &Kind) -> Option<Text> {
    kind.module.filter(|_| !kind.is_module_by_time)
}

/// The name of an event: its module, or the name of its kind if it names no module.
pub(crate) fn module_or_name(kind: &Kind) -> Text {
    own_module(kind).unwrap_or(kind.name)
}

impl<'a> Selection<'a> {
    pub(crate) fn new(
        trace: &'a Trace,
        plane_number: usize,
        options: &ProfilerOptions,
    ) -> Result<Self, ProfilingError> {
        let last = trace.planes().len().saturating_sub(1);
        let plane =
            trace.planes().get(plane_number).ok_or(ProfilingError::PlaneOutOfRange { plane: plane_number, last })?;
        let has_prefix = |kind: &Kind| trace.text(module_or_name(kind)).starts_with(&options.prefix_filter);
        let mut selection = Self {
            plane_number,
            plane,
            has_prefix: trace.kinds().iter().map(has_prefix).collect(),
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
            for (number, event) in line.events().enumerate() {
                if !selection.is_long(&event) {
                    selection.count_short(&event);
                } else if selection.kept < cap {
                    selection.kept += 1;
                } else {
                    end = end.min(number);
                    selection.left_out += 1;
                }
            }
            selection.ends.push(end);
        }
        Ok(selection)
    }

    /// Whether an event has a place in time and is long enough.
    fn is_long(&self, event: &Event) -> bool {
        event.duration >= self.min_duration && event.start.is_some()
    }

    fn count_short(&mut self, event: &Event) {
        if self.has_prefix[event.kind.index()] && event.start.is_some() {
            self.short += 1;
            self.short_ps = self.short_ps.saturating_add(event.duration.get());
        }
    }

    /// The selected events of a line, in file order.
    pub(crate) fn events(&self, line_number: usize) -> impl Iterator<Item = PlacedEvent<'a>> {
        let count = self.plane.lines[line_number].len();
        (0..count).filter_map(move |number| self.event(line_number, number))
    }

    /// An event of a line, if it is selected.
    pub(crate) fn event(&self, line_number: usize, number: usize) -> Option<PlacedEvent<'a>> {
        let line = &self.plane.lines[line_number];
        let event = line.event(number).filter(|event| number < self.ends[line_number] && self.is_long(event))?;
        let start = event.start?.get();
        let interval = Interval { start, end: start + event.duration.get() };
        Some(PlacedEvent { line_number, line, number, event, interval })
    }

    pub(crate) fn warnings(&self, options: &ProfilerOptions) -> Vec<ProfilerWarning> {
        let plane = || self.name.to_owned();
        let cut = ProfilerWarning::Cut { plane: plane(), kept: self.kept, left_out: self.left_out };
        let short = ProfilerWarning::Short { plane: plane(), events: self.short, total: Picos::new(self.short_ps) };
        let warnings = [(self.left_out > 0, cut), (options.verbose && self.short > 0, short)];
        warnings.into_iter().filter_map(|(applies, warning)| applies.then_some(warning)).collect()
    }

    /// The executions with events beyond the cap.
    pub(crate) fn cut_executions(&self, trace: &Trace) -> HashSet<PlaneExecution> {
        let mut cut = HashSet::default();
        if self.left_out == 0 {
            return cut;
        }
        let assignment = Assignment::new(trace, self.plane);
        for (line_number, line) in self.plane.lines.iter().enumerate() {
            for number in self.ends[line_number]..line.len() {
                let Some(execution) = assignment.execution(line_number, number) else { continue };
                if line.event(number).is_some_and(|event| self.is_long(&event)) {
                    cut.extend(assignment.key(execution).map(|key| (self.plane_number, key)));
                }
            }
        }
        cut
    }
}
