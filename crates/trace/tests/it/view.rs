//! The whole content of a trace as plain nested values, for comparison.

use ergometer_trace::{EventId, Notice, ProgramId, RawValue, Stat, StatValue, Text, Trace, UnplacedReason};
use ergometer_units::{Picos, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TraceView {
    pub(crate) zero_ns: Option<i64>,
    pub(crate) sessions: Vec<Session>,
    pub(crate) planes: Vec<Plane>,
    pub(crate) notices: Vec<Notice>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) host: Option<String>,
    pub(crate) started_ns: Option<i64>,
    pub(crate) stopped_ns: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plane {
    pub(crate) name: String,
    pub(crate) host: Option<String>,
    pub(crate) lines: Vec<Line>,
    pub(crate) stats: Vec<NamedValue>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) display_name: Option<String>,
    pub(crate) events: Vec<Event>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    pub(crate) start_ps: Option<i64>,
    pub(crate) why_unplaced: Option<UnplacedReason>,
    pub(crate) duration_ps: i64,
    pub(crate) stats: Vec<NamedValue>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) name: String,
    pub(crate) display_name: Option<String>,
    pub(crate) module: Option<String>,
    pub(crate) program: Option<i128>,
    pub(crate) op: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) category: Option<String>,
    pub(crate) device_ordinal: Option<i64>,
    pub(crate) stats: Vec<NamedValue>,
}

/// A stat: its name and its value.
pub(crate) type NamedValue = (String, Value);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// The bits of a floating-point number.
    Double(u64),
    Unsigned(u64),
    Signed(i64),
    Text(String),
    Bytes(Vec<u8>),
    Reference(Result<String, i64>),
    Absent,
}

/// The view of a trace, whose stats must be undamaged.
pub(crate) fn from_trace(trace: &Trace) -> TraceView {
    let text = |text: Text| trace.text(text).to_owned();
    let kind = |id| {
        let kind = trace.kind(id);
        Kind {
            name: text(kind.name),
            display_name: kind.display_name.map(text),
            module: kind.module.map(text),
            program: kind.program.map(ProgramId::get),
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
            assert_walk_agrees(trace, plane_number, line_number);
            let events = line.events().enumerate().map(|(number, event)| Event {
                kind: kind(event.kind),
                start_ps: event.start.map(Picos::get),
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
        started_ns: session.started.map(Timestamp::nanos_since_epoch),
        stopped_ns: session.stopped.map(Timestamp::nanos_since_epoch),
    });
    TraceView {
        zero_ns: trace.zero().map(Timestamp::nanos_since_epoch),
        sessions: sessions.collect(),
        planes,
        notices: trace.notices().to_vec(),
    }
}

/// Checks that walking the stats of a line gives the same as reading them one by one, from any start.
fn assert_walk_agrees(trace: &Trace, plane: usize, line: usize) {
    let count = trace.planes()[plane].lines[line].len();
    for from in [0, count / 3, count.saturating_sub(1)] {
        let mut walked: Vec<Vec<NamedValue>> = vec![Vec::new(); count];
        let whole = trace.walk_stats(plane, line, from..count, &mut |event, stat| {
            let name = trace.table_text(stat.name).filter(|name| !name.is_empty());
            let name = name.map_or_else(|| stat.name.number().to_string(), std::borrow::Cow::into_owned);
            let value = match stat.value {
                RawValue::Double(number) => Value::Double(f64::to_bits(number)),
                RawValue::Unsigned(number) => Value::Unsigned(number),
                RawValue::Signed(number) => Value::Signed(number),
                RawValue::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
                RawValue::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
                RawValue::Reference(text) => {
                    Value::Reference(trace.table_text(text).map(std::borrow::Cow::into_owned).ok_or(text.number()))
                }
                RawValue::Absent => Value::Absent,
            };
            walked[event].push((name, value));
        });
        assert_eq!(whole, Ok(()));
        for (event, walked) in walked.into_iter().enumerate().skip(from) {
            assert_eq!(walked, named(trace.event_stats(EventId { plane, line, event }).unwrap()), "{event}");
        }
    }
}

fn named(stats: Vec<Stat<'_>>) -> Vec<NamedValue> {
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
