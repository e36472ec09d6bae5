//! What a trace says of events as columns: one for each name.
//!
//! Pieces of lines are read in parallel, each into columns of its own in which a text is a number; names and texts that
//! the trace keeps in tables are looked up once a piece. A column has the type that its values have in all of the trace:
//! whole numbers, with or without a sign, floating numbers, bytes, or else text.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::BinaryBuilder;
use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, UInt64Array};
use ergometer_trace::{Damage, RawStat, RawValue, TableText, Trace};
use foldhash::HashMap;
use pyo3::PyErr;
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

/// What kinds of values a name has, a bit each.
#[derive(Debug, Clone, Copy, Default)]
struct Types(u8);

/// What a piece has of one name.
struct Part<'a> {
    name: Cow<'a, str>,
    /// Of all events of the piece, asked for or not.
    types: Types,
    /// Rows and their values.
    values: Vec<(usize, Value<'a>)>,
    texts: Vec<Cow<'a, str>>,
    kept: HashMap<TableText, u32>,
    own: HashMap<&'a [u8], u32>,
}

/// The column of each name, in the order of names, and the first damage.
pub(super) struct Found {
    pub(super) columns: Vec<(String, ArrayRef)>,
    pub(super) damage: Option<Damage>,
}

/// What all events say, of those that have a row.
pub(super) fn columns(trace: &Trace, pieces: &[Piece], rows: usize) -> Found {
    let parts: Vec<(Vec<Part<'_>>, Result<(), Damage>)> = pieces.par_iter().map(|piece| parts(trace, piece)).collect();
    let damage = parts.iter().find_map(|(_, whole)| whole.err());
    let mut named: HashMap<String, Vec<Part<'_>>> = HashMap::default();
    for part in parts.into_iter().flat_map(|(parts, _)| parts) {
        named.entry(part.name.clone().into_owned()).or_default().push(part);
    }
    let mut columns: Vec<(String, ArrayRef)> =
        named.into_par_iter().map(|(name, parts)| (name, column(&parts, rows))).collect();
    columns.sort_by(|one, other| one.0.cmp(&other.0));
    Found { columns, damage }
}

/// That stats cannot be read.
pub(super) fn damaged(damage: &Damage) -> PyErr {
    TraceError::new_err(format!(
        "the trace is damaged: {damage}. hint: read_trace(…, lenient=True) reads what is whole"
    ))
}

/// What a piece has of each name, and whether it is whole.
fn parts<'a>(trace: &'a Trace, piece: &Piece) -> (Vec<Part<'a>>, Result<(), Damage>) {
    let mut parts: Vec<Part<'a>> = Vec::new();
    let mut places: HashMap<TableText, usize> = HashMap::default();
    let mut visit = |number: usize, stat: RawStat<'a>| {
        let place = *places.entry(stat.name).or_insert_with(|| {
            let name = trace.table_text(stat.name).filter(|name| !name.is_empty());
            let name = name.unwrap_or_else(|| Cow::Owned(stat.name.number().to_string()));
            // Two entries of a table can be of one name.
            parts.iter().position(|part| part.name == name).unwrap_or_else(|| {
                parts.push(Part::new(name));
                parts.len() - 1
            })
        });
        let part = &mut parts[place];
        part.types.see(stat.value);
        let row = piece.rows.get(number - piece.first).copied().flatten();
        if let Some((row, value)) = row.and_then(|row| Some((row, part.value(trace, stat.value)?))) {
            part.values.push((row, value));
        }
    };
    let events = piece.first..piece.first + piece.rows.len();
    let whole = trace.walk_stats(piece.plane, piece.line, events, &mut visit);
    (parts, whole)
}

impl Types {
    const SIGNED: u8 = 1;
    const UNSIGNED: u8 = 1 << 1;
    /// A number below zero.
    const NEGATIVE: u8 = 1 << 2;
    /// A number above what one with a sign can be.
    const LARGE: u8 = 1 << 3;
    const DOUBLE: u8 = 1 << 4;
    const TEXT: u8 = 1 << 5;
    const BYTES: u8 = 1 << 6;

    fn see(&mut self, value: RawValue<'_>) {
        self.0 |= match value {
            RawValue::Signed(number) if number < 0 => Self::SIGNED | Self::NEGATIVE,
            RawValue::Signed(_) => Self::SIGNED,
            RawValue::Unsigned(number) if i64::try_from(number).is_err() => Self::UNSIGNED | Self::LARGE,
            RawValue::Unsigned(_) => Self::UNSIGNED,
            RawValue::Double(_) => Self::DOUBLE,
            RawValue::Text(_) | RawValue::Reference(_) => Self::TEXT,
            RawValue::Bytes(_) => Self::BYTES,
            RawValue::Absent => 0,
        };
    }

    /// The type that all values fit into; `None` where only text does.
    fn common(self) -> Option<Common> {
        let has = |kind: u8| self.0 & kind != 0;
        match self.0 & (Self::SIGNED | Self::UNSIGNED | Self::DOUBLE | Self::TEXT | Self::BYTES) {
            Self::SIGNED => Some(Common::Signed),
            Self::UNSIGNED => Some(Common::Unsigned),
            Self::DOUBLE => Some(Common::Double),
            Self::BYTES => Some(Common::Bytes),
            both if both == Self::SIGNED | Self::UNSIGNED && !has(Self::LARGE) => Some(Common::Signed),
            both if both == Self::SIGNED | Self::UNSIGNED && !has(Self::NEGATIVE) => Some(Common::Unsigned),
            _ => None,
        }
    }
}

/// A type of a column that is not text.
enum Common {
    Signed,
    Unsigned,
    Double,
    Bytes,
}

impl<'a> Part<'a> {
    fn new(name: Cow<'a, str>) -> Self {
        Self {
            name,
            types: Types::default(),
            values: Vec::new(),
            texts: Vec::new(),
            kept: HashMap::default(),
            own: HashMap::default(),
        }
    }

    /// `None` of nothing, and of a text that is not there.
    fn value(&mut self, trace: &'a Trace, value: RawValue<'a>) -> Option<Value<'a>> {
        Some(match value {
            RawValue::Double(value) => Value::Double(value),
            RawValue::Unsigned(value) => Value::Unsigned(value),
            RawValue::Signed(value) => Value::Signed(value),
            RawValue::Bytes(value) => Value::Bytes(value),
            RawValue::Text(text) => {
                let texts = &mut self.texts;
                Value::Text(*self.own.entry(text).or_insert_with(|| keep(texts, String::from_utf8_lossy(text))))
            }
            RawValue::Reference(kept) => {
                if let Some(&number) = self.kept.get(&kept) {
                    return Some(Value::Text(number));
                }
                let number = keep(&mut self.texts, trace.table_text(kept)?);
                self.kept.insert(kept, number);
                Value::Text(number)
            }
            RawValue::Absent => return None,
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
    let types = Types(parts.iter().fold(0, |types, part| types | part.types.0));
    match types.common() {
        Some(Common::Signed) => Arc::new(Int64Array::from(spread(parts, rows, signed))),
        Some(Common::Unsigned) => Arc::new(UInt64Array::from(spread(parts, rows, unsigned))),
        Some(Common::Double) => Arc::new(Float64Array::from(spread(parts, rows, double))),
        Some(Common::Bytes) => {
            let mut builder = BinaryBuilder::new();
            for value in spread(parts, rows, bytes) {
                builder.append_option(value);
            }
            Arc::new(builder.finish())
        }
        None => texts(parts, rows),
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
