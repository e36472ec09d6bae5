//! Computes the seconds of each event name: the union of the events that share the name, or of the events inside them
//! that match a filter.

use std::collections::BTreeMap;

use ergometer_trace::accounting::{Assignment, Interval, Order, Role, Union, kinds_of_work};
use ergometer_trace::{EventId, Kind, Line, ProgramId, StatValue, Text, Trace};
use foldhash::{HashMap, HashSet};
use regex::Regex;

use crate::selection::{PlacedEvent, Selection, module_or_name, own_module};

/// The parts of the key `name(P-S)`.
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

/// A number in a key.
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
struct KeyIntervals<'a> {
    trace: &'a Trace,
    selection: &'a Selection<'a>,
    keys: Vec<Key>,
    numbers: HashMap<Key, usize>,
    intervals: Vec<Vec<Interval>>,
}

/// An event on the stack that may contain later events.
struct OpenEvent {
    end: i64,
    key: usize,
    module: Option<Text>,
}

/// Seconds by key.
pub(crate) fn seconds(trace: &Trace, selection: &Selection, filter: Option<&Regex>) -> BTreeMap<String, f64> {
    let mut keys =
        KeyIntervals { trace, selection, keys: Vec::new(), numbers: HashMap::default(), intervals: Vec::new() };
    match filter {
        None => keys.add_events(),
        Some(filter) => {
            let mut matches = Matches::new(trace, filter);
            keys.add_nested(&mut matches);
            keys.add_module_ops(&mut matches);
        }
    }
    let unions = keys.intervals.into_iter().map(|intervals| Union::from_intervals(intervals).length() as f64 / 1e12);
    keys.keys.iter().map(|key| key.text(trace)).zip(unions).collect()
}

/// The events that a filter matches.
struct Matches<'a> {
    filter: &'a Regex,
    /// For every kind, whether the filter matches the name of its module, op or kernel.
    kinds: Vec<bool>,
    /// For keys looked up so far, whether the filter matches `name(P-S)`.
    keys: HashMap<Key, bool>,
}

impl<'a> Matches<'a> {
    fn new(trace: &Trace, filter: &'a Regex) -> Self {
        let is_match = |kind: &Kind| {
            let names = [own_module(kind), kind.op, Some(kind.name)];
            names.iter().flatten().any(|&name| filter.is_match(trace.text(name)))
        };
        Self { filter, kinds: trace.kinds().iter().map(is_match).collect(), keys: HashMap::default() }
    }
}

impl<'a> KeyIntervals<'a> {
    /// Without a filter: the events themselves.
    fn add_events(&mut self) {
        for line_number in 0..self.selection.plane.lines.len() {
            for event in self.selection.events(line_number) {
                if let Some(key) = self.key_number(&event) {
                    self.intervals[key].push(event.interval);
                }
            }
        }
    }

    /// The number of the key of an event, if its name starts with the prefix.
    fn key_number(&mut self, event: &PlacedEvent) -> Option<usize> {
        self.selection.has_prefix[event.event.kind.index()].then(|| {
            let key = self.key(event);
            let next = self.keys.len();
            let number = *self.numbers.entry(key).or_insert(next);
            if number == next {
                self.keys.push(key);
                self.intervals.push(Vec::new());
            }
            number
        })
    }

    fn key(&self, event: &PlacedEvent) -> Key {
        let kind = self.trace.kind(event.event.kind);
        let id = EventId { plane: self.selection.plane_number, line: event.line_number, event: event.number };
        let other = |name, value: Option<i64>| {
            value.map_or(Number::None, |value| Number::Other(self.with_sign(id, name, value)))
        };
        Key {
            name: module_or_name(kind),
            program: kind.program.map_or_else(|| other("run_id", event.line.run_id(event.number)), Number::Program),
            scope: other("scope_range_id", event.line.scope_range_id(event.number)),
        }
    }

    /// The table keeps the bits of a number; the file says whether the highest bit is a sign.
    fn with_sign(&self, event: EventId, name: &str, value: i64) -> i128 {
        let is_unsigned = || {
            let stats = self.trace.event_stats(event).unwrap_or_default();
            stats.iter().any(|stat| stat.name == name && matches!(stat.value, StatValue::Unsigned(_)))
        };
        if value < 0 && is_unsigned() { value.cast_unsigned().into() } else { value.into() }
    }

    fn is_match(&self, matches: &mut Matches, event: &PlacedEvent) -> bool {
        matches.kinds[event.event.kind.index()] || {
            let key = self.key(event);
            *matches.keys.entry(key).or_insert_with(|| matches.filter.is_match(&key.text(self.trace)))
        }
    }

    /// With a filter: the matching events, and the matching events nested in others. In order of (start, longest first)
    /// the events that contain the current one are on a stack, with the earliest end on top.
    fn add_nested(&mut self, matches: &mut Matches) {
        let (trace, selection) = (self.trace, self.selection);
        for (line_number, line) in selection.plane.lines.iter().enumerate() {
            let is_modules_line = Role::from_line(trace, selection.plane, line) == Role::Modules;
            // A key is on the stack once: the outermost event of the key contains all that the inner ones do.
            let (mut stack, mut keys_on_stack): (Vec<OpenEvent>, HashSet<usize>) = Default::default();
            for event in Order::by_start(line).all().filter_map(|event| selection.event(line_number, event)) {
                let Interval { start, end } = event.interval;
                while let Some(open) = stack.pop_if(|open| open.end < end) {
                    keys_on_stack.remove(&open.key);
                }
                let module = trace.kind(event.event.kind).module;
                let key = self.key_number(&event);
                if self.is_match(matches, &event) {
                    let is_child =
                        |open: &&OpenEvent| module.is_none() || open.module.is_none() || open.module == module;
                    let own = key.filter(|_| !is_modules_line);
                    for key in stack.iter().filter(is_child).map(|open| open.key).chain(own) {
                        let intervals = &mut self.intervals[key];
                        if intervals.last().is_none_or(|last| start < last.start || last.end < end) {
                            intervals.push(Interval { start, end });
                        }
                    }
                }
                stack.extend(key.filter(|&key| keys_on_stack.insert(key)).map(|key| OpenEvent { end, key, module }));
            }
        }
    }

    /// With a filter, on a plane with a line of modules: the matching ops that start in each module.
    fn add_module_ops(&mut self, matches: &mut Matches) {
        let (trace, selection) = (self.trace, self.selection);
        let is_modules = |line: &&'a Line| Role::from_line(trace, selection.plane, line) == Role::Modules;
        let lines = &selection.plane.lines;
        let Some((modules_line, modules)) = lines.iter().enumerate().find(|(_, line)| is_modules(line)) else {
            return;
        };
        let assignment = Assignment::new(trace, selection.plane);
        // The executions of such a plane are the events of that line, in file order.
        let mut key = |number| self.key_number(&selection.event(modules_line, number)?);
        let keys: Vec<Option<usize>> = (0..modules.len()).map(&mut key).collect();
        let is_work = kinds_of_work(trace, selection.plane);
        for line_number in 0..lines.len() {
            for event in selection.events(line_number).filter(|event| is_work[event.event.kind.index()]) {
                let Some(execution) = assignment.execution(line_number, event.number) else { continue };
                if !self.is_match(matches, &event) {
                    continue;
                }
                if let Some(key) = keys.get(execution).copied().flatten() {
                    self.intervals[key].push(event.interval);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use crate::test_trace::synthetic;
    use crate::{Profiler, ProfilerOptions};
    use ergometer_trace_testing::{Event, Line, Plane};

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

    /// The parent of an event by definition: compares it with every other event of the line.
    fn parent(line: &[Event], child: usize) -> Option<usize> {
        let inner = (line[child].start_ns, end(&line[child]));
        let holds = |&other: &usize| {
            let outer = (line[other].start_ns, end(&line[other]));
            let is_earlier = outer != inner || other < child;
            other != child && outer.0 <= inner.0 && outer.1 >= inner.1 && is_earlier
        };
        (0..line.len()).filter(holds).max_by_key(|&other| (line[other].start_ns, -end(&line[other]), other))
    }

    /// For each key, the microseconds covered by events that count for it.
    fn by_definition(lines: &[Vec<Event>], is_filtered: bool) -> BTreeMap<String, f64> {
        let mut ticks: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
        for line in lines {
            for (number, event) in line.iter().enumerate() {
                let is_key = |event: &Event| event.module.unwrap_or(event.name).starts_with("jit_");
                if is_key(event) {
                    ticks.entry(key(event)).or_default();
                }
                let counts = !is_filtered || event.name == "gemm";
                let mut ancestor = Some(number);
                while let Some(place) = ancestor.filter(|_| counts) {
                    let outer = &line[place];
                    let is_same = event.module.is_none() || outer.module.is_none() || event.module == outer.module;
                    if is_key(outer) && (place == number || (is_filtered && is_same)) {
                        let covered = (event.start_ns..end(event)).step_by(1000);
                        ticks.entry(key(outer)).or_default().extend(covered);
                    }
                    ancestor = parent(line, place);
                }
            }
        }
        ticks.into_iter().map(|(key, ticks)| (key, ticks.len() as f64 / 1e6)).collect()
    }

    proptest! {
        #[test]
        fn times_match_the_definition(
            lines in prop::collection::vec(prop::collection::vec(event(), 0..12), 1..4),
            is_filtered in any::<bool>(),
        ) {
            let trace_lines = lines.iter().zip(1..).map(|(events, id)| Line::new(id, events.clone())).collect();
            let profile = synthetic(&[Plane { name: "/device:GPU:0", lines: trace_lines }]);
            let event_filter_regex = is_filtered.then(|| "gemm".to_owned());
            let profiler = Profiler::new(ProfilerOptions { event_filter_regex, ..ProfilerOptions::default() }).unwrap();
            let found = profiler.get_events_from_plane(&profile, 0).unwrap().value;
            prop_assert_eq!(found, by_definition(&lines, is_filtered));
        }
    }
}
