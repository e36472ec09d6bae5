//! What a trace says of events as columns: one for each name.
//!
//! Pieces of lines are read in parallel, each into columns of its own in which a text is a number; names and texts that
//! the trace keeps in tables are looked up once a piece. A column has the type that all its values have: whole numbers,
//! with or without a sign, floating numbers, bytes, or else text.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::BinaryBuilder;
use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, UInt64Array};
use ergometer_trace::{Damage, KeptStat, KeptText, KeptValue, Trace};
use foldhash::HashMap;
use pyo3::PyResult;
use rayon::prelude::*;

use super::dictionary::Dictionary;
use super::events::Piece;
use crate::error::TraceError;

/// A value.
#[derive(Clone, Copy)]
enum Value<'a> {
    Signed(i64),
    Unsigned(u64),
    Double(f64),
    /// A text of the piece's column, by its number.
    Text(u32),
    Bytes(&'a [u8]),
}

/// What a piece has of one name.
struct Part<'a> {
    name: Cow<'a, str>,
    /// Rows and their values.
    values: Vec<(usize, Value<'a>)>,
    texts: Vec<Cow<'a, str>>,
    kept: HashMap<KeptText, u32>,
    own: HashMap<&'a [u8], u32>,
}

/// The column of each name, in the order of names.
pub(super) fn columns(trace: &Trace, pieces: &[Piece], is_lenient: bool) -> PyResult<Vec<(String, ArrayRef)>> {
    let mut rows = 0;
    let starts: Vec<usize> = pieces.iter().map(|piece| (rows, rows += piece.events.len()).0).collect();
    let parts: Vec<(Vec<Part<'_>>, Result<(), Damage>)> =
        pieces.par_iter().zip(starts).map(|(piece, start)| parts(trace, piece, start)).collect();
    let damage = parts.iter().find_map(|(_, whole)| whole.err());
    if let Some(damage) = damage.filter(|_| !is_lenient) {
        return Err(TraceError::new_err(format!(
            "the trace is damaged: {damage}. hint: lenient=True reads what is whole"
        )));
    }
    let mut named: HashMap<String, Vec<Part<'_>>> = HashMap::default();
    for part in parts.into_iter().flat_map(|(parts, _)| parts) {
        named.entry(part.name.clone().into_owned()).or_default().push(part);
    }
    let mut columns: Vec<(String, ArrayRef)> =
        named.into_par_iter().map(|(name, parts)| (name, column(&parts, rows))).collect();
    columns.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(columns)
}

/// What a piece has of each name, and whether it is whole.
fn parts<'a>(trace: &'a Trace, piece: &Piece, start: usize) -> (Vec<Part<'a>>, Result<(), Damage>) {
    let mut parts: Vec<Part<'a>> = Vec::new();
    let mut places: HashMap<KeptText, usize> = HashMap::default();
    let mut whole = Ok(());
    let mut first = 0;
    // Consecutive numbers are read at one go.
    while let Some(&event) = piece.events.get(first) {
        let run =
            piece.events[first..].iter().zip(event..).take_while(|&(number, expected)| *number == expected).count();
        let mut visit = |number: usize, stat: KeptStat<'a>| {
            let place = *places.entry(stat.name).or_insert_with(|| {
                let name = trace.kept_text(stat.name).filter(|name| !name.is_empty());
                let name = name.unwrap_or_else(|| Cow::Owned(stat.name.number().to_string()));
                // Two entries of a table can be of one name.
                parts.iter().position(|part| part.name == name).unwrap_or_else(|| {
                    parts.push(Part::new(name));
                    parts.len() - 1
                })
            });
            let row = start + first + (number - event);
            if let Some(value) = parts[place].value(trace, stat.value) {
                parts[place].values.push((row, value));
            }
        };
        let walked = trace.walk_stats(piece.plane, piece.line, event..event + run, &mut visit);
        whole = whole.and(walked);
        first += run;
    }
    (parts, whole)
}

impl<'a> Part<'a> {
    fn new(name: Cow<'a, str>) -> Self {
        Self { name, values: Vec::new(), texts: Vec::new(), kept: HashMap::default(), own: HashMap::default() }
    }

    /// `None` of nothing, and of a text that is not there.
    fn value(&mut self, trace: &'a Trace, value: KeptValue<'a>) -> Option<Value<'a>> {
        Some(match value {
            KeptValue::Double(value) => Value::Double(value),
            KeptValue::Unsigned(value) => Value::Unsigned(value),
            KeptValue::Signed(value) => Value::Signed(value),
            KeptValue::Bytes(value) => Value::Bytes(value),
            KeptValue::Text(text) => {
                let texts = &mut self.texts;
                Value::Text(*self.own.entry(text).or_insert_with(|| keep(texts, String::from_utf8_lossy(text))))
            }
            KeptValue::Reference(kept) => {
                if let Some(&number) = self.kept.get(&kept) {
                    return Some(Value::Text(number));
                }
                let number = keep(&mut self.texts, trace.kept_text(kept)?);
                self.kept.insert(kept, number);
                Value::Text(number)
            }
            KeptValue::Absent => return None,
        })
    }

    fn text(&self, value: Value<'a>) -> Cow<'_, str> {
        match value {
            Value::Signed(value) => value.to_string().into(),
            Value::Unsigned(value) => value.to_string().into(),
            Value::Double(value) => value.to_string().into(),
            Value::Text(number) => self.texts.get(number as usize).map_or("", AsRef::as_ref).into(),
            Value::Bytes(value) => String::from_utf8_lossy(value),
        }
    }
}

/// The number of one more text.
fn keep<'a>(texts: &mut Vec<Cow<'a, str>>, text: Cow<'a, str>) -> u32 {
    texts.push(text);
    u32::try_from(texts.len() - 1).unwrap_or(u32::MAX)
}

/// The values of all pieces as a column of so many rows. Of two of one event the last counts.
fn column(parts: &[Part<'_>], rows: usize) -> ArrayRef {
    let all = |is: fn(Value<'_>) -> bool| parts.iter().flat_map(|part| &part.values).all(|&(_, value)| is(value));
    if all(|value| signed(value).is_some()) {
        Arc::new(Int64Array::from(spread(parts, rows, signed)))
    } else if all(|value| unsigned(value).is_some()) {
        Arc::new(UInt64Array::from(spread(parts, rows, unsigned)))
    } else if all(|value| double(value).is_some()) {
        Arc::new(Float64Array::from(spread(parts, rows, double)))
    } else if all(|value| bytes(value).is_some()) {
        let mut builder = BinaryBuilder::new();
        for value in spread(parts, rows, bytes) {
            builder.append_option(value);
        }
        Arc::new(builder.finish())
    } else {
        texts(parts, rows)
    }
}

fn texts(parts: &[Part<'_>], rows: usize) -> ArrayRef {
    let mut dictionary = Dictionary::default();
    let mut keys: Vec<Option<i32>> = vec![None; rows];
    for part in parts {
        let known: Vec<i32> = part.texts.iter().map(|text| dictionary.key(text)).collect();
        for &(row, value) in &part.values {
            let key = match value {
                Value::Text(number) => known.get(number as usize).copied(),
                other => Some(dictionary.key(&part.text(other))),
            };
            if let Some(place) = keys.get_mut(row) {
                *place = key;
            }
        }
    }
    dictionary.column(Int32Array::from(keys))
}

fn spread<'a, T: Clone>(parts: &[Part<'a>], rows: usize, of: fn(Value<'a>) -> Option<T>) -> Vec<Option<T>> {
    let mut spread: Vec<Option<T>> = vec![None; rows];
    for &(row, value) in parts.iter().flat_map(|part| &part.values) {
        if let Some(place) = spread.get_mut(row) {
            *place = of(value);
        }
    }
    spread
}

fn signed(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Signed(value) => Some(value),
        Value::Unsigned(value) => i64::try_from(value).ok(),
        _ => None,
    }
}

fn unsigned(value: Value<'_>) -> Option<u64> {
    match value {
        Value::Signed(value) => u64::try_from(value).ok(),
        Value::Unsigned(value) => Some(value),
        _ => None,
    }
}

fn double(value: Value<'_>) -> Option<f64> {
    if let Value::Double(value) = value { Some(value) } else { None }
}

fn bytes(value: Value<'_>) -> Option<&[u8]> {
    if let Value::Bytes(value) = value { Some(value) } else { None }
}
