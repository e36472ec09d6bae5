//! Converts values of Arrow arrays to JSON.
//!
//! NaN and infinities become null. Decimals are exact text; dates and times are ISO 8601 text, in UTC if they have a
//! time zone. Bytes are text if they are UTF-8; other bytes, such as pictures and sounds, become their length and
//! SHA-256.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float16Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::{DataType, TimeUnit};
use ergometer_diagnostics::{Hint, Message};
use serde_json::{Map, Value, json};

use super::row::Row;
use crate::fingerprint::sha256;

/// A row of a batch.
pub(super) fn row_of(batch: &RecordBatch, index: usize) -> Result<Row, Message> {
    let schema = batch.schema();
    let cell = |(field, array): (&arrow_schema::FieldRef, &ArrayRef)| {
        let value = value_of(array, index).map_err(|what| format!("column `{}`: {what}", field.name()))?;
        Ok((field.name().clone(), value))
    };
    schema.fields().iter().zip(batch.columns()).map(cell).collect()
}

/// The value at an index of an array.
fn value_of(array: &dyn Array, index: usize) -> Result<Value, Message> {
    if array.is_null(index) {
        return Ok(Value::Null);
    }
    Ok(match array.data_type() {
        DataType::Null => Value::Null,
        DataType::Boolean => array.as_boolean().value(index).into(),
        DataType::Int8 => array.as_primitive::<Int8Type>().value(index).into(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(index).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(index).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(index).into(),
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(index).into(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(index).into(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(index).into(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(index).into(),
        DataType::Float16 => short(array.as_primitive::<Float16Type>().value(index).to_f32()),
        DataType::Float32 => short(array.as_primitive::<Float32Type>().value(index)),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(index).into(),
        DataType::Utf8 => array.as_string::<i32>().value(index).into(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(index).into(),
        DataType::Utf8View => array.as_string_view().value(index).into(),
        DataType::Binary => bytes(array.as_binary::<i32>().value(index)),
        DataType::LargeBinary => bytes(array.as_binary::<i64>().value(index)),
        DataType::BinaryView => bytes(array.as_binary_view().value(index)),
        DataType::FixedSizeBinary(_) => bytes(array.as_fixed_size_binary().value(index)),
        DataType::Decimal32(..) => array.as_primitive::<Decimal32Type>().value_as_string(index).into(),
        DataType::Decimal64(..) => array.as_primitive::<Decimal64Type>().value_as_string(index).into(),
        DataType::Decimal128(..) => array.as_primitive::<Decimal128Type>().value_as_string(index).into(),
        DataType::Decimal256(..) => array.as_primitive::<Decimal256Type>().value_as_string(index).into(),
        DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) | DataType::Timestamp(..) => {
            time(array, index).map_or(Value::Null, Value::String)
        }
        DataType::List(_) => list(&array.as_list::<i32>().value(index))?,
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(index))?,
        DataType::FixedSizeList(..) => list(&array.as_fixed_size_list().value(index))?,
        DataType::ListView(_) => list(&array.as_list_view::<i32>().value(index))?,
        DataType::LargeListView(_) => list(&array.as_list_view::<i64>().value(index))?,
        DataType::Struct(_) => object(array.as_struct(), index)?,
        DataType::Map(..) => map(&array.as_map().value(index))?,
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let place = value_of(dictionary.keys(), index)?.as_u64().and_then(|place| usize::try_from(place).ok());
            let place = place.filter(|&place| place < dictionary.values().len());
            value_of(dictionary.values(), place.ok_or("an index beyond its dictionary")?)?
        }
        other => {
            let hint = Hint::text("save the dataset without this column");
            return Err(Message::new(format!("values of the type {other} cannot be read")).with_hint(hint));
        }
    })
}

/// The shortest number that is the same `f32`: 0.1, and not 0.10000000149011612.
fn short(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

fn bytes(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({ "bytes": bytes.len(), "sha256": sha256(bytes) }),
    }
}

fn list(values: &ArrayRef) -> Result<Value, Message> {
    (0..values.len()).map(|index| value_of(values, index)).collect::<Result<Vec<Value>, Message>>().map(Value::Array)
}

fn object(array: &StructArray, index: usize) -> Result<Value, Message> {
    let fields = array.fields().iter().zip(array.columns());
    let object: Result<Map<String, Value>, Message> =
        fields.map(|(field, column)| Ok((field.name().clone(), value_of(column, index)?))).collect();
    object.map(Value::Object)
}

/// A map is an object, its keys as text.
fn map(entries: &StructArray) -> Result<Value, Message> {
    let (keys, values) = (entries.column(0), entries.column(1));
    let entry = |index| Ok((super::row::text(value_of(keys, index)?), value_of(values, index)?));
    let object: Result<Map<String, Value>, Message> = (0..entries.len()).map(entry).collect();
    object.map(Value::Object)
}

/// Dates and times as text; `None` if they are outside the calendar.
fn time(array: &dyn Array, index: usize) -> Option<String> {
    const STAMP: &str = "%Y-%m-%dT%H:%M:%S%.f";
    let of_day = match array.data_type() {
        DataType::Date32 => {
            return array.as_primitive::<Date32Type>().value_as_date(index).map(|date| date.to_string());
        }
        DataType::Date64 => {
            return array.as_primitive::<Date64Type>().value_as_date(index).map(|date| date.to_string());
        }
        DataType::Time32(TimeUnit::Second) => array.as_primitive::<Time32SecondType>().value_as_time(index),
        DataType::Time32(_) => array.as_primitive::<Time32MillisecondType>().value_as_time(index),
        DataType::Time64(TimeUnit::Microsecond) => array.as_primitive::<Time64MicrosecondType>().value_as_time(index),
        DataType::Time64(_) => array.as_primitive::<Time64NanosecondType>().value_as_time(index),
        _ => None,
    };
    if let Some(time) = of_day {
        return Some(time.to_string());
    }
    let DataType::Timestamp(unit, zone) = array.data_type() else { return None };
    let stamp = match unit {
        TimeUnit::Second => array.as_primitive::<TimestampSecondType>().value_as_datetime(index),
        TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().value_as_datetime(index),
        TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().value_as_datetime(index),
        TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().value_as_datetime(index),
    };
    stamp.map(|stamp| format!("{}{}", stamp.format(STAMP), if zone.is_some() { "Z" } else { "" }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int8Type;
    use arrow_array::{
        BinaryArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array, Float64Array, Int32Array,
        LargeStringArray, ListArray, StringViewArray, Time64MicrosecondArray, TimestampMillisecondArray, UInt64Array,
    };
    use arrow_schema::Field;

    use super::*;

    fn values(array: &dyn Array) -> Vec<Value> {
        (0..array.len()).map(|index| value_of(array, index).unwrap()).collect()
    }

    #[test]
    fn numbers_stay_numbers_and_nan_is_null() {
        assert_eq!(values(&UInt64Array::from(vec![Some(u64::MAX), None])), [json!(u64::MAX), Value::Null]);
        assert_eq!(values(&Float32Array::from(vec![0.1, f32::INFINITY])), [json!(0.1), Value::Null]);
        assert_eq!(values(&Float64Array::from(vec![f64::NAN, 1.5])), [Value::Null, json!(1.5)]);
        let decimals = Decimal128Array::from(vec![1250, -5]).with_precision_and_scale(10, 2).unwrap();
        assert_eq!(values(&decimals), [json!("12.50"), json!("-0.05")]);
    }

    #[test]
    fn text_and_bytes() {
        assert_eq!(values(&LargeStringArray::from(vec!["é"])), [json!("é")]);
        assert_eq!(
            values(&StringViewArray::from(vec!["a text longer than twelve bytes"]))[0].as_str().unwrap().len(),
            31
        );
        let dictionary: DictionaryArray<Int8Type> = vec![Some("a"), None, Some("b"), Some("a")].into_iter().collect();
        assert_eq!(values(&dictionary), [json!("a"), Value::Null, json!("b"), json!("a")]);
        let found = values(&BinaryArray::from(vec![&b"text"[..], b"\xff\x00"]));
        assert_eq!((found[0].as_str(), found[1]["bytes"].as_u64()), (Some("text"), Some(2)));
    }

    #[test]
    fn times_are_iso() {
        assert_eq!(values(&Date32Array::from(vec![19_000])), [json!("2022-01-08")]);
        assert_eq!(values(&Time64MicrosecondArray::from(vec![3_600_500_000])), [json!("01:00:00.500")]);
        let stamps = TimestampMillisecondArray::from(vec![1_600_000_000_123, i64::MAX]);
        assert_eq!(values(&stamps), [json!("2020-09-13T12:26:40.123"), Value::Null]);
        assert_eq!(values(&stamps.with_timezone("Europe/Rome"))[0], json!("2020-09-13T12:26:40.123Z"));
    }

    #[test]
    fn nested_values_stay_nested() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1), None]), None]);
        assert_eq!(values(&list), [json!([1, null]), Value::Null]);
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![7, 8]));
        let nested = StructArray::from(vec![
            (Arc::new(Field::new("n", DataType::Int32, true)), numbers),
            (Arc::new(Field::new("l", list.data_type().clone(), true)), Arc::new(list) as ArrayRef),
        ]);
        assert_eq!(values(&nested), [json!({"n": 7, "l": [1, null]}), json!({"n": 8, "l": null})]);
    }
}
