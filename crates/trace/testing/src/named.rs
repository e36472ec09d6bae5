//! Traces by names and times: numbers of names and stats are assigned when a plane is encoded.

use crate::xspace::{self, EventMetadata, Space, Stat, Style, Timing, Value};

/// An event and the stats that identify it.
#[derive(Debug, Clone, Default)]
pub struct Event {
    /// The name; on GPU the kernel.
    pub name: &'static str,
    /// The start in nanoseconds, from the start of its line.
    pub start_ns: i64,
    /// The duration in nanoseconds.
    pub duration_ns: i64,
    /// `hlo_module`.
    pub module: Option<&'static str>,
    /// `hlo_op`.
    pub op: Option<&'static str>,
    /// `program_id`.
    pub program: Option<i64>,
    /// `run_id`.
    pub run: Option<i64>,
    /// `scope_range_id`.
    pub scope: Option<i64>,
    /// `correlation_id`.
    pub correlation: Option<i64>,
    /// `device_ordinal`.
    pub ordinal: Option<i64>,
}

impl Event {
    /// An event without stats.
    #[must_use]
    pub fn new(name: &'static str, start_ns: i64, duration_ns: i64) -> Self {
        Self { name, start_ns, duration_ns, ..Self::default() }
    }
}

/// A line of a plane.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its number.
    pub id: i64,
    /// Its name.
    pub name: &'static str,
    /// The time that the starts of its events count from.
    pub timestamp_ns: i64,
    /// Its events.
    pub events: Vec<Event>,
}

impl Line {
    /// A line whose name does not matter, at time zero.
    #[must_use]
    pub fn new(id: i64, events: Vec<Event>) -> Self {
        Self { id, name: "a line", timestamp_ns: 0, events }
    }
}

/// A device or a host.
#[derive(Debug, Clone)]
pub struct Plane {
    /// Its name, such as `/device:GPU:0`.
    pub name: &'static str,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// The bytes of a file with these planes.
#[must_use]
pub fn encode(planes: &[Plane]) -> Vec<u8> {
    Space { planes: planes.iter().map(xspace::Plane::from).collect(), ..Space::default() }.encode(Style::Plain)
}

const STATS: [&str; 7] =
    ["hlo_module", "hlo_op", "program_id", "run_id", "scope_range_id", "correlation_id", "device_ordinal"];

impl From<&Plane> for xspace::Plane {
    fn from(plane: &Plane) -> Self {
        let mut names: Vec<&str> = plane.lines.iter().flat_map(|line| &line.events).map(|event| event.name).collect();
        names.sort_unstable();
        names.dedup();
        let line = |line: &Line| xspace::Line {
            id: line.id,
            name: line.name.into(),
            timestamp_ns: line.timestamp_ns,
            events: line.events.iter().map(|event| event.numbered(&names)).collect(),
            ..xspace::Line::default()
        };
        Self {
            name: plane.name.into(),
            lines: plane.lines.iter().map(line).collect(),
            event_metadata: (0..)
                .zip(&names)
                .map(|(id, name)| (id, EventMetadata { name: (*name).into(), ..EventMetadata::default() }))
                .collect(),
            stat_metadata: (0..).zip(STATS).map(|(id, name)| (id, name.into())).collect(),
            ..Self::default()
        }
    }
}

impl Event {
    fn numbered(&self, names: &[&str]) -> xspace::Event {
        let texts = [self.module, self.op].map(|text| text.map(|text| Value::Text(text.into())));
        let numbers = [self.program, self.run, self.scope, self.correlation, self.ordinal];
        let values = texts.into_iter().chain(numbers.map(|number| number.map(Value::Signed)));
        xspace::Event {
            metadata_id: (0..).zip(names).find(|(_, name)| **name == self.name).map_or(-1, |(id, _)| id),
            timing: Timing::Offset(self.start_ns * 1000),
            duration_ps: self.duration_ns * 1000,
            stats: (0..).zip(values).filter_map(|(id, value)| Some(Stat { id, value: Some(value?) })).collect(),
        }
    }
}
