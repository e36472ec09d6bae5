//! Traces made by hand, for tests: planes with a few events in, the bytes of an `XSpace` and the trace of them out.

use crate::{ReadOptions, Source, Trace, read};

/// An event and the stats that say what it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Event {
    pub(crate) name: &'static str,
    pub(crate) start_ns: i64,
    pub(crate) duration_ns: i64,
    pub(crate) module: Option<&'static str>,
    pub(crate) op: Option<&'static str>,
    pub(crate) program: Option<i64>,
    pub(crate) run: Option<i64>,
    pub(crate) scope: Option<i64>,
    pub(crate) correlation: Option<i64>,
    pub(crate) ordinal: Option<i64>,
}

impl Event {
    pub(crate) fn new(name: &'static str, start_ns: i64, duration_ns: i64) -> Self {
        Self { name, start_ns, duration_ns, ..Self::default() }
    }
}

/// A line; its events count from its own start.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) id: i64,
    pub(crate) name: &'static str,
    pub(crate) timestamp_ns: i64,
    pub(crate) events: Vec<Event>,
}

impl Line {
    pub(crate) fn new(id: i64, events: Vec<Event>) -> Self {
        Self { id, name: "a line", timestamp_ns: 0, events }
    }
}

/// A plane.
#[derive(Debug, Clone)]
pub(crate) struct Plane {
    pub(crate) name: &'static str,
    pub(crate) lines: Vec<Line>,
}

impl Plane {
    pub(crate) fn trace(planes: &[Self]) -> Trace {
        trace(&planes.iter().flat_map(|plane| message(1, &plane.bytes())).collect::<Vec<_>>())
    }

    fn bytes(&self) -> Vec<u8> {
        let mut names: Vec<&str> = self.lines.iter().flat_map(|line| &line.events).map(|event| event.name).collect();
        names.dedup();
        let mut plane = message(2, self.name.as_bytes());
        for line in &self.lines {
            let mut bytes =
                [number(1, line.id), message(2, line.name.as_bytes()), number(3, line.timestamp_ns)].concat();
            for event in &line.events {
                let kind = (0..).zip(&names).find(|(_, name)| **name == event.name).unwrap().0;
                bytes.extend(message(4, &event.bytes(kind)));
            }
            plane.extend(message(3, &bytes));
        }
        for (field, entries) in [(4, &names[..]), (5, &STATS[..])] {
            for (id, name) in (0..).zip(entries) {
                let value = [number(1, id), message(2, name.as_bytes())].concat();
                plane.extend(message(field, &[number(1, id), message(2, &value)].concat()));
            }
        }
        plane
    }
}

const STATS: [&str; 7] =
    ["hlo_module", "hlo_op", "program_id", "run_id", "scope_range_id", "correlation_id", "device_ordinal"];

impl Event {
    fn bytes(&self, kind: i64) -> Vec<u8> {
        let mut bytes = [number(1, kind), number(2, self.start_ns * 1000), number(3, self.duration_ns * 1000)].concat();
        for (stat, text) in (0..).zip([self.module, self.op]) {
            if let Some(text) = text {
                bytes.extend(message(4, &[number(1, stat), message(5, text.as_bytes())].concat()));
            }
        }
        let numbers = [self.program, self.run, self.scope, self.correlation, self.ordinal];
        for (stat, value) in (2..).zip(numbers) {
            if let Some(value) = value {
                bytes.extend(message(4, &[number(1, stat), number(4, value)].concat()));
            }
        }
        bytes
    }
}

/// The trace of a file's bytes.
pub(crate) fn trace(bytes: &[u8]) -> Trace {
    read(vec![Source::from_bytes("by hand", bytes.to_vec())], &ReadOptions::default()).unwrap()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        bytes.push(if value > 0 { low | 0x80 } else { low & 0x7f });
        if value == 0 {
            return bytes;
        }
    }
}

fn number(field: u64, value: i64) -> Vec<u8> {
    [varint(field << 3), varint(value.cast_unsigned())].concat()
}

fn message(field: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}
