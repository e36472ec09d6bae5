//! Seconds by the name of an event: the union of the events that share it, or of what they hold that a filter finds.

use std::collections::BTreeMap;

use regex::Regex;
use rustc_hash::FxHashMap;

use super::selection::{Selection, unified_name};
use crate::accounting::{Assignment, Interval, NONE, Order, Role, Union, kinds_of_work};
use crate::table::{EventId, Kind, Line, ProgramId, StatValue, Text, Trace};

/// What the key `name(P-S)` is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    name: Text,
    program: Number,
    scope: Number,
}

impl Key {
    fn text(self, trace: &Trace) -> String {
        format!("{}({}-{})", trace.text(self.name), self.program, self.scope)
    }
}

/// A number of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Number {
    None,
    Program(ProgramId),
    Other(i128),
}

impl std::fmt::Display for Number {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => formatter.write_str("None"),
            Self::Program(id) => id.fmt(formatter),
            Self::Other(number) => number.fmt(formatter),
        }
    }
}

/// The keys of a plane, and the intervals that count for each.
struct Gathering<'a> {
    trace: &'a Trace,
    selection: &'a Selection<'a>,
    keys: Vec<Key>,
    places: FxHashMap<Key, usize>,
    intervals: Vec<Vec<Interval>>,
}

/// An event that may hold others.
struct Open {
    end: i64,
    place: usize,
    module: Option<Text>,
}

/// Seconds by key.
pub(super) fn seconds(trace: &Trace, selection: &Selection, filter: Option<&Regex>) -> BTreeMap<String, f64> {
    let mut gathering =
        Gathering { trace, selection, keys: Vec::new(), places: FxHashMap::default(), intervals: Vec::new() };
    match filter {
        None => gathering.whole(),
        Some(filter) => {
            let mut found = Found::of(trace, filter);
            gathering.nested(&mut found);
            gathering.in_modules(&mut found);
        }
    }
    let unions = gathering.intervals.into_iter().map(|intervals| Union::of(intervals).length() as f64 / 1e12);
    gathering.keys.iter().map(|key| key.text(trace)).zip(unions).collect()
}

/// In which events a filter finds something.
struct Found<'a> {
    filter: &'a Regex,
    /// Of every kind, whether it does in the name of its module, op or kernel.
    kinds: Vec<bool>,
    /// Of keys that were asked about, whether it does in `name(P-S)`.
    keys: FxHashMap<Key, bool>,
}

impl<'a> Found<'a> {
    fn of(trace: &Trace, filter: &'a Regex) -> Self {
        let finds = |kind: &Kind| {
            let names = [kind.module, kind.op, Some(kind.name)];
            names.iter().flatten().any(|&name| filter.is_match(trace.text(name)))
        };
        Self { filter, kinds: trace.kinds().iter().map(finds).collect(), keys: FxHashMap::default() }
    }
}

impl<'a> Gathering<'a> {
    /// Without a filter: the events themselves.
    fn whole(&mut self) {
        for (number, line) in self.selection.plane.lines.iter().enumerate() {
            for event in (0..line.len()).filter(|&event| self.selection.takes(number, line, event)) {
                if let Some(place) = self.place(number, line, event) {
                    self.intervals[place].push(interval(line, event));
                }
            }
        }
    }

    /// The place of an event's key, where its name passes the prefix.
    fn place(&mut self, number: usize, line: &Line, event: usize) -> Option<usize> {
        self.selection.begins[line.kind[event].index()].then(|| {
            let key = self.key(number, line, event);
            let next = self.keys.len();
            let place = *self.places.entry(key).or_insert(next);
            if place == next {
                self.keys.push(key);
                self.intervals.push(Vec::new());
            }
            place
        })
    }

    fn key(&self, number: usize, line: &Line, event: usize) -> Key {
        let kind = self.trace.kind(line.kind[event]);
        let id = EventId { plane: self.selection.number, line: number, event };
        let other = |name, value: Option<i64>| {
            value.map_or(Number::None, |value| Number::Other(self.with_its_sign(id, name, value)))
        };
        // A trace has no more events than these numbers.
        let place = u32::try_from(event).unwrap_or(u32::MAX);
        Key {
            name: unified_name(kind),
            program: kind.program.map_or_else(|| other("run_id", line.ids.run.get(place)), Number::Program),
            scope: other("scope_range_id", line.ids.scope.get(place)),
        }
    }

    /// The table keeps the bits of a number; the file says whether the highest is a sign.
    fn with_its_sign(&self, event: EventId, name: &str, value: i64) -> i128 {
        let is_unsigned = || {
            let stats = self.trace.event_stats(event).unwrap_or_default();
            stats.iter().any(|stat| stat.name == name && matches!(stat.value, StatValue::Unsigned(_)))
        };
        if value < 0 && is_unsigned() { value.cast_unsigned().into() } else { value.into() }
    }

    fn is_found(&self, found: &mut Found, number: usize, line: &Line, event: usize) -> bool {
        found.kinds[line.kind[event].index()] || {
            let key = self.key(number, line, event);
            *found.keys.entry(key).or_insert_with(|| found.filter.is_match(&key.text(self.trace)))
        }
    }

    /// With a filter: what it finds of the events and of those nested in them. In order of (start, longest first) those
    /// that hold an event are on a stack, whose ends fall from bottom to top.
    fn nested(&mut self, found: &mut Found) {
        let (trace, selection) = (self.trace, self.selection);
        for (number, line) in selection.plane.lines.iter().enumerate() {
            let holds_only = Role::of(trace, selection.plane, line) == Role::Modules;
            let mut stack: Vec<Open> = Vec::new();
            for event in Order::of(line).iter().filter(|&event| selection.takes(number, line, event)) {
                let Interval { start, end } = interval(line, event);
                while stack.pop_if(|open| open.end < end).is_some() {}
                let module = trace.kind(line.kind[event]).module;
                let place = self.place(number, line, event);
                if self.is_found(found, number, line, event) {
                    let is_child = |open: &&Open| module.is_none() || open.module.is_none() || open.module == module;
                    let own = place.filter(|_| !holds_only);
                    for place in stack.iter().filter(is_child).map(|open| open.place).chain(own) {
                        self.intervals[place].push(Interval { start, end });
                    }
                }
                stack.extend(place.map(|place| Open { end, place, module }));
            }
        }
    }

    /// With a filter, where a line has modules and others their ops: what it finds of the ops that start in each.
    fn in_modules(&mut self, found: &mut Found) {
        let (trace, selection) = (self.trace, self.selection);
        let is_modules = |line: &&'a Line| Role::of(trace, selection.plane, line) == Role::Modules;
        let lines = &selection.plane.lines;
        let Some((number, modules)) = lines.iter().enumerate().find(|(_, line)| is_modules(line)) else { return };
        let assignment = Assignment::of(trace, selection.plane);
        // Executions of such a plane are the events of the line that have a place in time, in the order of the file.
        let placed = (0..modules.len()).filter(|&event| modules.why_unplaced(event).is_none());
        let places: Vec<Option<usize>> = placed
            .map(
                |event| {
                    if selection.takes(number, modules, event) { self.place(number, modules, event) } else { None }
                },
            )
            .collect();
        let is_work = kinds_of_work(trace, selection.plane);
        for (number, line) in lines.iter().enumerate() {
            for event in (0..line.len()).filter(|&event| is_work[line.kind[event].index()]) {
                let execution = assignment.of[number][event];
                if execution == NONE
                    || !selection.takes(number, line, event)
                    || !self.is_found(found, number, line, event)
                {
                    continue;
                }
                if let Some(place) = places.get(execution as usize).copied().flatten() {
                    self.intervals[place].push(interval(line, event));
                }
            }
        }
    }
}

fn interval(line: &Line, event: usize) -> Interval {
    let start = line.start_ps[event];
    Interval { start, end: start + line.duration_ps[event] }
}
