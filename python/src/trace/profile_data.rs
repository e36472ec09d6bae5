//! Serializes a `jax.profiler.ProfileData`, which has no method for that, as an `XSpace`: its planes, lines, events and
//! stats.
//!
//! `ProfileData` has times in nanoseconds as floats. Times from the start of the session are exact to a picosecond for
//! 104 days (2^53 ps), times since the epoch to 256 ns.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyString};

use crate::table::check_signals;

/// Field numbers of the protobuf messages.
mod field {
    pub(super) const SPACE_PLANES: u64 = 1;
    pub(super) const PLANE_NAME: u64 = 2;
    pub(super) const PLANE_LINES: u64 = 3;
    pub(super) const PLANE_EVENT_METADATA: u64 = 4;
    pub(super) const PLANE_STAT_METADATA: u64 = 5;
    pub(super) const PLANE_STATS: u64 = 6;
    pub(super) const LINE_ID: u64 = 1;
    pub(super) const LINE_NAME: u64 = 2;
    pub(super) const LINE_TIMESTAMP: u64 = 3;
    pub(super) const LINE_EVENTS: u64 = 4;
    pub(super) const EVENT_METADATA: u64 = 1;
    pub(super) const EVENT_OFFSET: u64 = 2;
    pub(super) const EVENT_DURATION: u64 = 3;
    pub(super) const EVENT_STATS: u64 = 4;
    pub(super) const STAT_METADATA: u64 = 1;
    pub(super) const STAT_DOUBLE: u64 = 2;
    pub(super) const STAT_UNSIGNED: u64 = 3;
    pub(super) const STAT_SIGNED: u64 = 4;
    pub(super) const STAT_TEXT: u64 = 5;
    pub(super) const STAT_BYTES: u64 = 6;
    pub(super) const KEY: u64 = 1;
    pub(super) const VALUE: u64 = 2;
    pub(super) const METADATA_ID: u64 = 1;
    pub(super) const METADATA_NAME: u64 = 2;
}

/// The bytes of an `XSpace`.
pub(super) fn serialize(profile: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut space = Message::default();
    for plane in profile.getattr("planes")?.try_iter()? {
        space.message(field::SPACE_PLANES, &serialize_plane(&plane?)?);
    }
    Ok(space.0)
}

fn serialize_plane(plane: &Bound<'_, PyAny>) -> PyResult<Message> {
    let (mut out, mut events, mut stats) = (Message::default(), Names::default(), Names::default());
    out.text(field::PLANE_NAME, &text(&plane.getattr("name")?)?);
    for (number, line) in (1..).zip(plane.getattr("lines")?.try_iter()?) {
        out.message(field::PLANE_LINES, &serialize_line(&line?, number, &mut events, &mut stats)?);
    }
    for stat in plane.getattr("stats")?.try_iter()? {
        if let Some(stat) = serialize_stat(&stat?, &mut stats)? {
            out.message(field::PLANE_STATS, &stat);
        }
    }
    for (names, number) in [(&events, field::PLANE_EVENT_METADATA), (&stats, field::PLANE_STAT_METADATA)] {
        for (id, name) in (1..).zip(&names.ordered) {
            let (mut entry, mut metadata) = (Message::default(), Message::default());
            metadata.number(field::METADATA_ID, id);
            metadata.text(field::METADATA_NAME, name);
            entry.number(field::KEY, id);
            entry.message(field::VALUE, &metadata);
            out.message(number, &entry);
        }
    }
    Ok(out)
}

/// A line with a made-up id: `ProfileData` has no ids, and lines with the same id would be merged. Event offsets count
/// from the first event, because picoseconds since the epoch do not fit into 64 bits.
fn serialize_line(line: &Bound<'_, PyAny>, number: u64, events: &mut Names, stats: &mut Names) -> PyResult<Message> {
    let mut out = Message::default();
    out.number(field::LINE_ID, number);
    out.text(field::LINE_NAME, &text(&line.getattr("name")?)?);
    let mut line_events: Vec<(f64, Message)> = Vec::new();
    for (number, event) in line.getattr("events")?.try_iter()?.enumerate() {
        check_signals(line.py(), number)?;
        let event = event?;
        let mut message = Message::default();
        message.number(field::EVENT_METADATA, events.id(&text(&event.getattr("name")?)?));
        message.signed(field::EVENT_DURATION, picos(event.getattr("duration_ns")?.extract()?));
        for stat in event.getattr("stats")?.try_iter()? {
            if let Some(stat) = serialize_stat(&stat?, stats)? {
                message.message(field::EVENT_STATS, &stat);
            }
        }
        line_events.push((event.getattr("start_ns")?.extract()?, message));
    }
    let first = line_events.iter().map(|(start, _)| start.floor()).fold(f64::INFINITY, f64::min);
    let first = if first.is_finite() { first } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
    out.signed(field::LINE_TIMESTAMP, first as i64);
    for (start, mut message) in line_events {
        message.signed(field::EVENT_OFFSET, picos(start - first));
        out.message(field::LINE_EVENTS, &message);
    }
    Ok(out)
}

/// A stat; `None` if it has no value.
fn serialize_stat(stat: &Bound<'_, PyAny>, names: &mut Names) -> PyResult<Option<Message>> {
    let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = stat.extract()?;
    let mut out = Message::default();
    out.number(field::STAT_METADATA, names.id(&text(&name)?));
    if let Ok(value) = value.cast::<PyInt>() {
        match value.extract::<i64>() {
            Ok(value) => out.signed(field::STAT_SIGNED, value),
            Err(_) => out.number(field::STAT_UNSIGNED, value.extract()?),
        }
    } else if let Ok(value) = value.cast::<PyFloat>() {
        out.fixed(field::STAT_DOUBLE, value.value());
    } else if let Ok(value) = value.cast::<PyBytes>() {
        out.bytes(field::STAT_BYTES, value.as_bytes());
    } else if value.is_instance_of::<PyString>() {
        out.text(field::STAT_TEXT, &text(&value)?);
    } else {
        return Ok(None);
    }
    Ok(Some(out))
}

/// Converts nanoseconds to whole picoseconds.
fn picos(nanoseconds: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
    let picos = (nanoseconds * 1000.0).round() as i64;
    picos
}

/// A text; invalid characters are replaced.
fn text(name: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(name.str()?.to_string_lossy().into_owned())
}

/// Distinct names with ids from 1.
#[derive(Default)]
struct Names {
    ordered: Vec<String>,
    ids: foldhash::HashMap<String, u64>,
}

impl Names {
    fn id(&mut self, name: &str) -> u64 {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        self.ordered.push(name.to_owned());
        let id = self.ordered.len() as u64;
        self.ids.insert(name.to_owned(), id);
        id
    }
}

/// An encoded protobuf message.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        loop {
            let low = (value & 0x7f) as u8;
            value >>= 7;
            if value == 0 {
                return self.0.push(low);
            }
            self.0.push(low | 0x80);
        }
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn signed(&mut self, field: u64, value: i64) {
        self.number(field, value.cast_unsigned());
    }

    fn fixed(&mut self, field: u64, value: f64) {
        self.varint(field << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn text(&mut self, field: u64, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }
}
