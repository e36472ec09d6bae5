//! Builds the columns of stats, one for each stat name.
//!
//! Chunks of lines are read in parallel, each into its own columns, with texts as numbers; names and texts stored in
//! tables of the trace are looked up once per chunk. The type of a column depends on all its values in the trace:
//! signed or unsigned integers, floats, bytes, or otherwise text.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::BinaryBuilder;
use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, UInt64Array};
use ergometer_diagnostics::{Hint, Message};
use ergometer_trace::{Damage, RawStat, RawValue, TableText, Trace};
use foldhash::HashMap;
use pyo3::PyErr;
use rayon::prelude::*;

use super::dictionary::Dictionary;
use super::events::Chunk;
use crate::error::{TraceError, exception};

/// The value of a stat.
#[derive(Clone, Copy)]
enum Value<'a> {
    Signed(i64),
    Unsigned(u64),
    Double(f64),
    /// The number of a text in the chunk's column.
    Text(u32),
    Bytes(&'a [u8]),
}

/// The types of the values of a stat, one bit for each type.
#[derive(Debug, Clone, Copy, Default)]
struct Types(u8);

/// The values of one stat in a chunk.
struct ChunkColumn<'a> {
    name: Cow<'a, str>,
    /// The types of all values in the chunk, including events without a row.
    types: Types,
    /// Row numbers and values.
    values: Vec<(usize, Value<'a>)>,
    texts: Vec<Cow<'a, str>>,
    kept: HashMap<TableText, u32>,
    own: HashMap<&'a [u8], u32>,
}

/// The columns of all stats, sorted by name, and the first damage.
pub(super) struct StatColumns {
    pub(super) columns: Vec<(String, ArrayRef)>,
    pub(super) damage: Option<Damage>,
}

/// The stats of all events that have a row.
pub(super) fn columns(trace: &Trace, chunks: &[Chunk], rows: usize) -> StatColumns {
    let parts: Vec<(Vec<ChunkColumn<'_>>, Result<(), Damage>)> =
        chunks.par_iter().map(|chunk| parts(trace, chunk)).collect();
    let damage = parts.iter().find_map(|(_, whole)| whole.err());
    let mut named: HashMap<String, Vec<ChunkColumn<'_>>> = HashMap::default();
    for part in parts.into_iter().flat_map(|(parts, _)| parts) {
        named.entry(part.name.clone().into_owned()).or_default().push(part);
    }
    let mut columns: Vec<(String, ArrayRef)> =
        named.into_par_iter().map(|(name, parts)| (name, column(&parts, rows))).collect();
    columns.sort_by(|one, other| one.0.cmp(&other.0));
    StatColumns { columns, damage }
}

/// The error for stats that cannot be read.
pub(super) fn damaged(damage: &Damage) -> PyErr {
    let message = Message::new(format!("the trace is damaged: {damage}"));
    exception::<TraceError>(&message.with_hint(Hint::text("read it with lenient=True to skip damaged parts")))
}

/// The stats of a chunk, and the damage at which reading stopped, if any.
fn parts<'a>(trace: &'a Trace, chunk: &Chunk) -> (Vec<ChunkColumn<'a>>, Result<(), Damage>) {
    let mut parts: Vec<ChunkColumn<'a>> = Vec::new();
    let mut places: HashMap<TableText, usize> = HashMap::default();
    let mut visit = |number: usize, stat: RawStat<'a>| {
        let place = *places.entry(stat.name).or_insert_with(|| {
            let name = trace.table_text(stat.name).filter(|name| !name.is_empty());
            let name = name.unwrap_or_else(|| Cow::Owned(stat.name.number().to_string()));
            // Two entries of a table can have the same name.
            parts.iter().position(|part| part.name == name).unwrap_or_else(|| {
                parts.push(ChunkColumn::new(name));
                parts.len() - 1
            })
        });
        let part = &mut parts[place];
        part.types.add(stat.value);
        let row = chunk.rows.get(number - chunk.first).copied().flatten();
        if let Some((row, value)) = row.and_then(|row| Some((row, part.value(trace, stat.value)?))) {
            part.values.push((row, value));
        }
    };
    let events = chunk.first..chunk.first + chunk.rows.len();
    let whole = trace.walk_stats(chunk.plane, chunk.line, events, &mut visit);
    (parts, whole)
}

impl Types {
    const SIGNED: u8 = 1;
    const UNSIGNED: u8 = 1 << 1;
    /// A negative number.
    const NEGATIVE: u8 = 1 << 2;
    /// A number above the largest signed integer.
    const LARGE: u8 = 1 << 3;
    const DOUBLE: u8 = 1 << 4;
    const TEXT: u8 = 1 << 5;
    const BYTES: u8 = 1 << 6;

    fn add(&mut self, value: RawValue<'_>) {
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

    /// The type that holds all values; `None` if only text does.
    fn common(self) -> Option<CommonType> {
        let has = |kind: u8| self.0 & kind != 0;
        match self.0 & (Self::SIGNED | Self::UNSIGNED | Self::DOUBLE | Self::TEXT | Self::BYTES) {
            Self::SIGNED => Some(CommonType::Signed),
            Self::UNSIGNED => Some(CommonType::Unsigned),
            Self::DOUBLE => Some(CommonType::Double),
            Self::BYTES => Some(CommonType::Bytes),
            both if both == Self::SIGNED | Self::UNSIGNED && !has(Self::LARGE) => Some(CommonType::Signed),
            both if both == Self::SIGNED | Self::UNSIGNED && !has(Self::NEGATIVE) => Some(CommonType::Unsigned),
            _ => None,
        }
    }
}

/// A column type other than text.
enum CommonType {
    Signed,
    Unsigned,
    Double,
    Bytes,
}

impl<'a> ChunkColumn<'a> {
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

    /// `None` for an absent value, and for a reference to a missing text.
    fn value(&mut self, trace: &'a Trace, value: RawValue<'a>) -> Option<Value<'a>> {
        Some(match value {
            RawValue::Double(value) => Value::Double(value),
            RawValue::Unsigned(value) => Value::Unsigned(value),
            RawValue::Signed(value) => Value::Signed(value),
            RawValue::Bytes(value) => Value::Bytes(value),
            RawValue::Text(text) => {
                let texts = &mut self.texts;
                Value::Text(*self.own.entry(text).or_insert_with(|| push_text(texts, String::from_utf8_lossy(text))))
            }
            RawValue::Reference(kept) => {
                if let Some(&number) = self.kept.get(&kept) {
                    return Some(Value::Text(number));
                }
                let number = push_text(&mut self.texts, trace.table_text(kept)?);
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

/// Adds a text and returns its number.
fn push_text<'a>(texts: &mut Vec<Cow<'a, str>>, text: Cow<'a, str>) -> u32 {
    texts.push(text);
    u32::try_from(texts.len() - 1).unwrap_or(u32::MAX)
}

/// Joins the values of all chunks to a column. If an event has the stat twice, the last value counts.
fn column(parts: &[ChunkColumn<'_>], rows: usize) -> ArrayRef {
    let types = Types(parts.iter().fold(0, |types, part| types | part.types.0));
    match types.common() {
        Some(CommonType::Signed) => Arc::new(Int64Array::from(spread(parts, rows, signed))),
        Some(CommonType::Unsigned) => Arc::new(UInt64Array::from(spread(parts, rows, unsigned))),
        Some(CommonType::Double) => Arc::new(Float64Array::from(spread(parts, rows, double))),
        Some(CommonType::Bytes) => {
            let mut builder = BinaryBuilder::new();
            for value in spread(parts, rows, bytes) {
                builder.append_option(value);
            }
            Arc::new(builder.finish())
        }
        None => texts(parts, rows),
    }
}

fn texts(parts: &[ChunkColumn<'_>], rows: usize) -> ArrayRef {
    let mut dictionary = Dictionary::default();
    let mut keys: Vec<Option<i32>> = vec![None; rows];
    for part in parts {
        let text_keys: Vec<i32> = part.texts.iter().map(|text| dictionary.key(text)).collect();
        for &(row, value) in &part.values {
            let key = match value {
                Value::Text(number) => text_keys.get(number as usize).copied(),
                other => Some(dictionary.key(&part.text(other))),
            };
            if let Some(slot) = keys.get_mut(row) {
                *slot = key;
            }
        }
    }
    dictionary.column(Int32Array::from(keys))
}

fn spread<'a, T: Clone>(parts: &[ChunkColumn<'a>], rows: usize, convert: fn(Value<'a>) -> Option<T>) -> Vec<Option<T>> {
    let mut spread: Vec<Option<T>> = vec![None; rows];
    for &(row, value) in parts.iter().flat_map(|part| &part.values) {
        if let Some(slot) = spread.get_mut(row) {
            *slot = convert(value);
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
