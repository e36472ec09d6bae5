//! Every event as a row, with everything the trace says of it in columns of its own.
//!
//! Lines are cut into pieces that are read in parallel; what each found of a stat is put together at the end. A stat has
//! the type that all its values have: whole numbers, with or without a sign, floating numbers, bytes, or else text.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, StringDictionaryBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, UInt64Array};
use ergometer_trace::accounting::{DeviceId, Filter};
use ergometer_trace::{EventId, Kind, StatValue, Text, Trace};
use foldhash::HashMap;
use pyo3::PyResult;
use rayon::prelude::*;

use crate::error::TraceError;
use crate::table::{Columns, Table};

/// So many events are read by one task.
const PIECE: usize = 4096;

/// Some events of a line that were asked for.
struct Piece {
    plane: usize,
    line: usize,
    events: Vec<usize>,
}

/// The value of a stat.
enum Value {
    Signed(i64),
    Unsigned(u64),
    Double(f64),
    Text(Box<str>),
    Bytes(Box<[u8]>),
}

/// The values of one stat, each with its row.
type Values = Vec<(usize, Value)>;

/// What was found of one stat, by its name.
type Found = HashMap<String, Values>;

/// The events that pass the filter, in the order of the files.
pub(super) fn events(trace: &Trace, filter: &Filter, stats: bool) -> PyResult<Table> {
    let pieces = pieces(trace, filter);
    let rows = || {
        pieces.iter().flat_map(|piece| {
            let line = &trace.planes()[piece.plane].lines[piece.line];
            piece.events.iter().filter_map(move |&event| line.event(event))
        })
    };
    let kind = |of: fn(&Kind) -> Option<Text>| {
        texts(rows().map(|event| of(trace.kind(event.kind)).map(|text| trace.text(text))))
    };
    let lines = || pieces.iter().flat_map(|piece| piece.events.iter().map(move |_| piece));
    let plane = |piece: &Piece| &trace.planes()[piece.plane];
    let mut columns = Columns::default()
        .array("plane", texts(lines().map(|piece| Some(trace.text(plane(piece).name)))))
        .array("host", texts(lines().map(|piece| plane(piece).host.map(|host| trace.text(host)))))
        .array("line", texts(lines().map(|piece| Some(trace.text(plane(piece).lines[piece.line].name)))))
        .integer("line_id", lines().map(|piece| plane(piece).lines[piece.line].id))
        .array("name", kind(|kind| Some(kind.name)))
        .integer("start_ps", rows().map(|event| event.start.map(ergometer_units::Picos::get)))
        .integer("duration_ps", rows().map(|event| event.duration.get()))
        .array("module", kind(|kind| kind.module))
        .program("program_id", rows().map(|event| trace.kind(event.kind).program))
        .array("op", kind(|kind| kind.op));
    if stats {
        let count = pieces.iter().map(|piece| piece.events.len()).sum();
        for (name, values) in found(trace, &pieces)? {
            columns = columns.array(format!("stat_{name}"), column(values, count));
        }
    }
    columns.finish()
}

fn pieces(trace: &Trace, filter: &Filter) -> Vec<Piece> {
    let is_taken: Vec<bool> = trace.kinds().iter().map(|kind| filter.takes_kind(trace, kind)).collect();
    let mut pieces = Vec::new();
    for (plane, found) in trace.planes().iter().enumerate() {
        let takes = |ordinal| filter.takes_device(trace, DeviceId { plane, ordinal });
        for (line, found) in found.lines.iter().enumerate() {
            let is_asked = |&number: &usize| {
                found.event(number).is_some_and(|event| {
                    event.duration >= filter.min_duration
                        && is_taken[event.kind.index()]
                        && (takes(None) || trace.kind(event.kind).device_ordinal.is_some_and(|number| takes(Some(number))))
                })
            };
            let events: Vec<usize> = (0..found.len()).filter(is_asked).collect();
            pieces.extend(events.chunks(PIECE).map(|events| Piece { plane, line, events: events.to_vec() }));
        }
    }
    pieces
}

/// Every stat by its name, in the order of names.
fn found(trace: &Trace, pieces: &[Piece]) -> PyResult<Vec<(String, Values)>> {
    let mut first = 0;
    let starts: Vec<usize> = pieces.iter().map(|piece| (first, first += piece.events.len()).0).collect();
    let of_pieces: Result<Vec<Found>, _> =
        pieces.par_iter().zip(starts).map(|(piece, start)| found_in(trace, piece, start)).collect();
    let mut all: HashMap<String, Values> = HashMap::default();
    for piece in of_pieces.map_err(|damage| TraceError::new_err(damage.to_string()))? {
        for (name, values) in piece {
            match all.get_mut(&name) {
                Some(known) => known.extend(values),
                None => drop(all.insert(name, values)),
            }
        }
    }
    let mut all: Vec<(String, Values)> = all.into_iter().collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(all)
}

fn found_in(trace: &Trace, piece: &Piece, start: usize) -> Result<Found, ergometer_trace::Damage> {
    let mut found = Found::default();
    for (row, &event) in (start..).zip(&piece.events) {
        for stat in trace.event_stats(EventId { plane: piece.plane, line: piece.line, event })? {
            let value = match stat.value {
                StatValue::Double(value) => Value::Double(value),
                StatValue::Unsigned(value) => Value::Unsigned(value),
                StatValue::Signed(value) => Value::Signed(value),
                StatValue::Text(value) | StatValue::Reference(Ok(value)) => Value::Text(value.into()),
                StatValue::Bytes(value) => Value::Bytes(value.into()),
                StatValue::Reference(Err(_)) | StatValue::Absent => continue,
            };
            match found.get_mut(stat.name.as_ref()) {
                Some(values) => values.push((row, value)),
                None => drop(found.insert(stat.name.into_owned(), vec![(row, value)])),
            }
        }
    }
    Ok(found)
}

/// The values as a column of so many rows. Of two of one event the last counts.
fn column(values: Values, rows: usize) -> ArrayRef {
    let all = |is: fn(&Value) -> bool| values.iter().all(|(_, value)| is(value));
    let signed = |value: &Value| match value {
        Value::Signed(value) => Some(*value),
        Value::Unsigned(value) => i64::try_from(*value).ok(),
        _ => None,
    };
    let unsigned = |value: &Value| match value {
        Value::Signed(value) => u64::try_from(*value).ok(),
        Value::Unsigned(value) => Some(*value),
        _ => None,
    };
    if values.iter().all(|(_, value)| signed(value).is_some()) {
        Arc::new(Int64Array::from(spread(values, rows, |value| signed(&value))))
    } else if values.iter().all(|(_, value)| unsigned(value).is_some()) {
        Arc::new(UInt64Array::from(spread(values, rows, |value| unsigned(&value))))
    } else if all(|value| matches!(value, Value::Double(_))) {
        let double = |value| if let Value::Double(value) = value { Some(value) } else { None };
        Arc::new(Float64Array::from(spread(values, rows, double)))
    } else if all(|value| matches!(value, Value::Bytes(_))) {
        let mut builder = BinaryBuilder::new();
        for value in spread(values, rows, Some) {
            builder.append_option(if let Some(Value::Bytes(value)) = value { Some(value) } else { None });
        }
        Arc::new(builder.finish())
    } else {
        texts(spread(values, rows, |value| Some(text(value))).iter().map(Option::as_deref))
    }
}

fn text(value: Value) -> Box<str> {
    match value {
        Value::Signed(value) => value.to_string().into(),
        Value::Unsigned(value) => value.to_string().into(),
        Value::Double(value) => value.to_string().into(),
        Value::Text(value) => value,
        Value::Bytes(value) => String::from_utf8_lossy(&value).into(),
    }
}

fn spread<T>(values: Values, rows: usize, of: impl Fn(Value) -> Option<T>) -> Vec<Option<T>> {
    let mut spread: Vec<Option<T>> = (0..rows).map(|_| None).collect();
    for (row, value) in values {
        if let Some(place) = spread.get_mut(row) {
            *place = of(value);
        }
    }
    spread
}

/// Texts, of which each is kept once.
fn texts<'a>(values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    let mut builder = StringDictionaryBuilder::<Int32Type>::new();
    values.for_each(|value| builder.append_option(value));
    Arc::new(builder.finish())
}
