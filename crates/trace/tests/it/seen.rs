//! All that can be seen of a trace, in plain nested values that compare.

use ergometer_trace::{EventId, Notice, Stat, StatValue, Text, Trace, Why};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub zero_ns: Option<i64>,
    pub sessions: Vec<Session>,
    pub planes: Vec<Plane>,
    pub notices: Vec<Notice>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub host: Option<String>,
    pub started_ns: Option<i64>,
    pub stopped_ns: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plane {
    pub name: String,
    pub host: Option<String>,
    pub lines: Vec<Line>,
    pub stats: Vec<Named>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub id: i64,
    pub name: String,
    pub display_name: Option<String>,
    pub events: Vec<Event>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub kind: Kind,
    pub start_ps: Option<i64>,
    pub why_unplaced: Option<Why>,
    pub duration_ps: i64,
    pub stats: Vec<Named>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    pub name: String,
    pub display_name: Option<String>,
    pub module: Option<String>,
    pub program: Option<i128>,
    pub op: Option<String>,
    pub path: Option<String>,
    pub category: Option<String>,
    pub device_ordinal: Option<i64>,
    pub stats: Vec<Named>,
}

/// A stat: its name and its value.
pub type Named = (String, Value);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// The bits of a floating number.
    Double(u64),
    Unsigned(u64),
    Signed(i64),
    Text(String),
    Bytes(Vec<u8>),
    Reference(Result<String, i64>),
    Absent,
}

/// What a trace shows. Its stats must be whole.
pub fn of(trace: &Trace) -> Seen {
    let text = |text: Text| trace.text(text).to_owned();
    let kind = |id| {
        let kind = trace.kind(id);
        Kind {
            name: text(kind.name),
            display_name: kind.display_name.map(text),
            module: kind.module.map(text),
            program: kind.program.map(|program| program.get()),
            op: kind.op.map(text),
            path: kind.path.map(text),
            category: kind.category.map(text),
            device_ordinal: kind.device_ordinal,
            stats: named(trace.kind_stats(id).unwrap()),
        }
    };
    let mut planes = Vec::new();
    for (plane_number, plane) in trace.planes().iter().enumerate() {
        let mut lines = Vec::new();
        for (line_number, line) in plane.lines.iter().enumerate() {
            let events = line.events().enumerate().map(|(number, event)| Event {
                kind: kind(event.kind),
                start_ps: event.start.map(|start| start.get()),
                why_unplaced: line.why_unplaced(number),
                duration_ps: event.duration.get(),
                stats: named(
                    trace.event_stats(EventId { plane: plane_number, line: line_number, event: number }).unwrap(),
                ),
            });
            let (name, display_name) = (text(line.name), line.display_name.map(text));
            lines.push(Line { id: line.id, name, display_name, events: events.collect() });
        }
        let stats = named(trace.plane_stats(plane_number).unwrap());
        planes.push(Plane { name: text(plane.name), host: plane.host.map(text), lines, stats });
    }
    let sessions = trace.sessions().iter().map(|session| Session {
        host: session.host.map(text),
        started_ns: session.started.map(|time| time.nanos_since_epoch()),
        stopped_ns: session.stopped.map(|time| time.nanos_since_epoch()),
    });
    Seen {
        zero_ns: trace.zero().map(|time| time.nanos_since_epoch()),
        sessions: sessions.collect(),
        planes,
        notices: trace.notices().to_vec(),
    }
}

fn named(stats: Vec<Stat<'_>>) -> Vec<Named> {
    let value = |value| match value {
        StatValue::Double(number) => Value::Double(f64::to_bits(number)),
        StatValue::Unsigned(number) => Value::Unsigned(number),
        StatValue::Signed(number) => Value::Signed(number),
        StatValue::Text(text) => Value::Text(text.into_owned()),
        StatValue::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
        StatValue::Reference(text) => Value::Reference(text.map(std::borrow::Cow::into_owned)),
        StatValue::Absent => Value::Absent,
    };
    stats.into_iter().map(|stat| (stat.name.into_owned(), value(stat.value))).collect()
}
