//! Seconds by the name of an event: the union of the events that share it, or of what they hold that a filter finds.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashSet};
use regex::Regex;

use super::selection::{Selection, said_module, unified_name};
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
    places: HashMap<Key, usize>,
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
        Gathering { trace, selection, keys: Vec::new(), places: HashMap::default(), intervals: Vec::new() };
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
    keys: HashMap<Key, bool>,
}

impl<'a> Found<'a> {
    fn of(trace: &Trace, filter: &'a Regex) -> Self {
        let finds = |kind: &Kind| {
            let names = [said_module(kind), kind.op, Some(kind.name)];
            names.iter().flatten().any(|&name| filter.is_match(trace.text(name)))
        };
        Self { filter, kinds: trace.kinds().iter().map(finds).collect(), keys: HashMap::default() }
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
            // A key stands on the stack once: what it holds is held by the outermost.
            let (mut stack, mut standing): (Vec<Open>, HashSet<usize>) = Default::default();
            for event in Order::of(line).all().filter(|&event| selection.takes(number, line, event)) {
                let Interval { start, end } = interval(line, event);
                while let Some(open) = stack.pop_if(|open| open.end < end) {
                    standing.remove(&open.place);
                }
                let module = trace.kind(line.kind[event]).module;
                let place = self.place(number, line, event);
                if self.is_found(found, number, line, event) {
                    let is_child = |open: &&Open| module.is_none() || open.module.is_none() || open.module == module;
                    let own = place.filter(|_| !holds_only);
                    for place in stack.iter().filter(is_child).map(|open| open.place).chain(own) {
                        let intervals = &mut self.intervals[place];
                        if intervals.last().is_none_or(|last| start < last.start || last.end < end) {
                            intervals.push(Interval { start, end });
                        }
                    }
                }
                stack.extend(place.filter(|&place| standing.insert(place)).map(|place| Open { end, place, module }));
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
        // Executions of such a plane are the events of the line, in the order of the file.
        let mut place = |event| {
            if selection.takes(number, modules, event) { self.place(number, modules, event) } else { None }
        };
        let places: Vec<Option<usize>> = (0..modules.len()).map(&mut place).collect();
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

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::super::{Profiler, ProfilerOptions};
    use crate::handmade::{Event, Line, Plane};

    /// An event of any name, in microseconds.
    fn event() -> impl Strategy<Value = Event> {
        let name = prop::sample::select(vec!["gemm", "copy", "jit_c"]);
        let module = prop::sample::select(vec![None, Some("jit_a"), Some("jit_b")]);
        (name, module, 0_i64..30, 1_i64..15, prop::option::of(0_i64..2)).prop_map(
            |(name, module, start, length, scope)| Event {
                module,
                scope,
                ..Event::new(name, start * 1000, length * 1000)
            },
        )
    }

    fn key(event: &Event) -> String {
        let scope = event.scope.map_or("None".to_owned(), |scope| scope.to_string());
        format!("{}(None-{scope})", event.module.unwrap_or(event.name))
    }

    fn end(event: &Event) -> i64 {
        event.start_ns + event.duration_ns
    }

    /// The parent of an event by its definition, of all others on the line.
    fn parent(line: &[Event], child: usize) -> Option<usize> {
        let of_child = (line[child].start_ns, end(&line[child]));
        let holds = |&other: &usize| {
            let of_other = (line[other].start_ns, end(&line[other]));
            let is_earlier = of_other != of_child || other < child;
            other != child && of_other.0 <= of_child.0 && of_other.1 >= of_child.1 && is_earlier
        };
        (0..line.len()).filter(holds).max_by_key(|&other| (line[other].start_ns, -end(&line[other]), other))
    }

    /// The microseconds of each key in which something that counts for it went on.
    fn by_definition(lines: &[Vec<Event>], is_filtered: bool) -> BTreeMap<String, f64> {
        let mut ticks: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
        for line in lines {
            for (number, event) in line.iter().enumerate() {
                let is_key = |event: &Event| event.module.unwrap_or(event.name).starts_with("jit_");
                if is_key(event) {
                    ticks.entry(key(event)).or_default();
                }
                let counts = !is_filtered || event.name == "gemm";
                let mut holder = Some(number);
                while let Some(place) = holder.filter(|_| counts) {
                    let held_by = &line[place];
                    let is_same = event.module.is_none() || held_by.module.is_none() || event.module == held_by.module;
                    if is_key(held_by) && (place == number || (is_filtered && is_same)) {
                        let covered = (event.start_ns..end(event)).step_by(1000);
                        ticks.entry(key(held_by)).or_default().extend(covered);
                    }
                    holder = parent(line, place);
                }
            }
        }
        ticks.into_iter().map(|(key, ticks)| (key, ticks.len() as f64 / 1e6)).collect()
    }

    proptest! {
        #[test]
        fn times_are_those_of_the_definition(
            lines in prop::collection::vec(prop::collection::vec(event(), 0..12), 1..4),
            is_filtered in any::<bool>(),
        ) {
            let of_trace = lines.iter().zip(1..).map(|(events, id)| Line::new(id, events.clone())).collect();
            let profile = Plane::trace(&[Plane { name: "/device:GPU:0", lines: of_trace }]);
            let event_filter_regex = is_filtered.then(|| "gemm".to_owned());
            let profiler = Profiler::new(ProfilerOptions { event_filter_regex, ..ProfilerOptions::default() }).unwrap();
            let found = profiler.get_events_from_plane(&profile, 0).unwrap().found;
            prop_assert_eq!(found, by_definition(&lines, is_filtered));
        }
    }
}
