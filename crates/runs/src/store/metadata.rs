//! Derives the Arrow struct of a dataset's metadata: [`MetadataShape`] reads the metadata of every record and makes a
//! field of every key.
//!
//! An Arrow field has one type. A key whose values are all integers is an `int64`, integers and fractions a `double`,
//! booleans a `bool`, strings a `string`. Any other key (lists, maps, mixed types, integers that do not fit an `int64`
//! or are not exact in a `double`) is JSON text in every record. Keys are in the order in which they first appear; the
//! keys after the first 500 are stored together, as JSON text, in one last field. So no value is lost or rounded.
//!
//! A dataset without metadata has only that last field, always null: `datasets` loads a struct without fields but
//! cannot save it as Parquet, and a plain string column would change the column's type from run to run.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::columns::{Column, Fields};

/// The most keys with their own field. Without a limit, a dataset whose keys are ids would have a field for each.
const MOST_KEYS: usize = 500;
/// The largest integer up to which all integers are exact in a double.
const EXACT_IN_DOUBLE: u64 = 1 << f64::MANTISSA_DIGITS;
/// The field of the keys without their own field.
const REST: &str = "other_json";

/// The keys of a dataset's metadata and their types.
///
/// ```
/// use ergometer_runs::store::MetadataShape;
///
/// let mut shape = MetadataShape::default();
/// shape.observe(serde_json::json!({ "level": 3, "choices": ["a", "b"] }).as_object().unwrap());
/// shape.observe(serde_json::json!({ "level": 4.5, "source": "exam" }).as_object().unwrap());
/// assert_eq!(shape.keys().collect::<Vec<_>>(), ["level", "choices", "source"]);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetadataShape {
    keys: Vec<String>,
    kinds: HashMap<String, Kind>,
    rest: Rest,
}

/// Whether any key has no field.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Rest {
    #[default]
    Empty,
    Used,
}

/// The type of the values of a key.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// All values so far are null.
    Null,
    Bool,
    /// Integers that are exact in a double.
    Integer,
    /// Integers of which some are not exact in a double.
    LongInteger,
    Float,
    Text,
    Json,
}

impl Kind {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            Value::String(_) => Self::Text,
            Value::Number(number) => match number.as_i64() {
                Some(integer) if integer.unsigned_abs() <= EXACT_IN_DOUBLE => Self::Integer,
                Some(_) => Self::LongInteger,
                None if number.is_f64() => Self::Float,
                None => Self::Json,
            },
            Value::Array(_) | Value::Object(_) => Self::Json,
        }
    }

    /// The narrowest type that holds the values of both.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (same, again) if same == again => same,
            (Self::Null, kind) | (kind, Self::Null) => kind,
            (Self::Integer, Self::LongInteger) | (Self::LongInteger, Self::Integer) => Self::LongInteger,
            (Self::Integer, Self::Float) | (Self::Float, Self::Integer) => Self::Float,
            _ => Self::Json,
        }
    }
}

impl MetadataShape {
    /// Adds the metadata of one record.
    pub fn observe(&mut self, metadata: &Map<String, Value>) {
        for (key, value) in metadata {
            if let Some(kind) = self.kinds.get_mut(key) {
                *kind = kind.with(Kind::from_value(value));
            } else if self.keys.len() < MOST_KEYS && is_field_name(key) {
                self.keys.push(key.clone());
                self.kinds.insert(key.clone(), Kind::from_value(value));
            } else {
                self.rest = Rest::Used;
            }
        }
    }

    /// The keys with their own field, in the order in which they first appear.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.keys.iter().map(String::as_str)
    }

    /// The first key that has no field, or whose value does not fit the type of its field.
    pub(super) fn misfit<'a>(&self, metadata: &'a Map<String, Value>) -> Option<&'a str> {
        let fits = |(key, value): &(&String, &Value)| match self.kinds.get(*key) {
            Some(kind) => kind.with(Kind::from_value(value)) == *kind,
            None => self.rest == Rest::Used,
        };
        metadata.iter().find(|entry| !fits(entry)).map(|(key, _)| key.as_str())
    }

    /// The struct column, for metadata without a [`misfit`](Self::misfit).
    pub(super) fn column(&self) -> Column<Map<String, Value>> {
        let typed = self.keys.iter().fold(Fields::new(), |fields, key| fields.add(key, self.key_column(key)));
        if self.rest == Rest::Empty && !self.keys.is_empty() {
            return typed.column();
        }
        let kinds = self.kinds.clone();
        typed.printed(&self.rest_name(), move |metadata| other_keys_json(metadata, &kinds)).column()
    }

    fn key_column(&self, name: &str) -> Column<Map<String, Value>> {
        let key = name.to_owned();
        match self.kinds[name] {
            Kind::Bool => Column::boolean(move |metadata: &Map<String, Value>| metadata.get(&key)?.as_bool()),
            Kind::Integer | Kind::LongInteger => {
                Column::integer(move |metadata: &Map<String, Value>| metadata.get(&key)?.as_i64())
            }
            Kind::Float => Column::float(move |metadata: &Map<String, Value>| metadata.get(&key)?.as_f64()),
            Kind::Null | Kind::Text => Column::text(move |metadata: &Map<String, Value>| metadata.get(&key)?.as_str()),
            Kind::Json => Column::printed(move |metadata: &Map<String, Value>| {
                Some(metadata.get(&key)?).filter(|value| !value.is_null()).map(Value::to_string)
            }),
        }
    }

    /// The name of the last field, made different from every key.
    fn rest_name(&self) -> String {
        let mut name = Cow::Borrowed(REST);
        while self.kinds.contains_key(name.as_ref()) {
            name.to_mut().push('_');
        }
        name.into_owned()
    }
}

/// Whether a key can be a field name: Python's Arrow truncates field names at a null character, so two keys could
/// collide.
fn is_field_name(key: &str) -> bool {
    !key.contains('\0')
}

fn other_keys_json(metadata: &Map<String, Value>, kinds: &HashMap<String, Kind>) -> Option<String> {
    let rest: Map<_, _> = metadata.iter().filter(|(key, _)| !kinds.contains_key(*key)).map(owned).collect();
    (!rest.is_empty()).then(|| Value::Object(rest).to_string())
}

fn owned((key, value): (&String, &Value)) -> (String, Value) {
    (key.clone(), value.clone())
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int64Type};
    use arrow_schema::DataType;
    use serde_json::json;

    use super::*;

    fn maps(values: &[Value]) -> Vec<Map<String, Value>> {
        values.iter().map(|value| value.as_object().unwrap().clone()).collect()
    }

    fn shape_of(maps: &[Map<String, Value>]) -> MetadataShape {
        let mut shape = MetadataShape::default();
        for map in maps {
            shape.observe(map);
        }
        shape
    }

    fn types(shape: &MetadataShape) -> Vec<(String, DataType)> {
        let schema = shape.column().schema();
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
    }

    #[test]
    fn a_key_has_the_narrowest_type_that_holds_all_its_values() {
        let maps = maps(&[
            json!({ "b": true, "i": 1, "f": 1, "t": "é", "n": null, "mixed": 1, "list": [1], "long": 1, "huge": 1 }),
            json!({ "i": -2, "f": 0.5, "mixed": "one", "long": i64::MAX, "huge": u64::MAX, "wide": 0.5 }),
            json!({ "wide": i64::MAX, "late": "x" }),
        ]);
        let shape = shape_of(&maps);
        let expected = [
            ("b", DataType::Boolean),
            ("i", DataType::Int64),
            ("f", DataType::Float64),
            ("t", DataType::Utf8),
            ("n", DataType::Utf8),
            ("mixed", DataType::Utf8),
            ("list", DataType::Utf8),
            ("long", DataType::Int64),
            ("huge", DataType::Utf8),
            ("wide", DataType::Utf8),
            ("late", DataType::Utf8),
        ];
        assert_eq!(types(&shape), expected.map(|(name, data_type)| (name.to_owned(), data_type)));
        assert!(maps.iter().all(|map| shape.misfit(map).is_none()));

        let batch = shape.column().batch(&maps);
        let texts = |name: &str| batch[name].as_string::<i32>().iter().collect::<Vec<_>>();
        assert_eq!(batch["f"].as_primitive::<Float64Type>().values()[..2], [1.0, 0.5]);
        assert_eq!(batch["long"].as_primitive::<Int64Type>().value(1), i64::MAX);
        assert_eq!(texts("mixed"), [Some("1"), Some("\"one\""), None], "JSON text in every record");
        assert_eq!(texts("list"), [Some("[1]"), None, None]);
        assert_eq!(texts("huge"), [Some("1"), Some("18446744073709551615"), None]);
        assert_eq!(texts("wide"), [None, Some("0.5"), Some("9223372036854775807")]);
        assert_eq!(batch["n"].null_count(), 3);
    }

    #[test]
    fn a_dataset_without_metadata_still_has_a_structure() {
        let shape = MetadataShape::default();
        assert_eq!(types(&shape), [("other_json".to_owned(), DataType::Utf8)]);
        assert_eq!(shape.column().batch(&[Map::new()])["other_json"].null_count(), 1);
    }

    #[test]
    fn keys_past_the_limit_and_invalid_names_share_the_last_field() {
        let mut wide: Map<_, _> = (0..600).map(|key| (format!("key {key}"), json!(key))).collect();
        wide.insert("other_json".to_owned(), json!("mine"));
        let odd = maps(&[json!({ "a\0b": 1, "": 2 })]).remove(0);
        let shape = shape_of(&[odd.clone(), wide.clone()]);
        assert_eq!(shape.keys().len(), 500);
        let batch = shape.column().batch(&[odd, wide]);
        let rest = batch["other_json"].as_string::<i32>();
        assert_eq!(rest.value(0), "{\"a\\u0000b\":1}");
        let rest: Map<String, Value> = serde_json::from_str(rest.value(1)).unwrap();
        assert_eq!((rest.len(), &rest["key 599"]), (102, &json!(599)));

        let taken = maps(&[json!({ "other_json": 1, "\0": 2 })]);
        assert_eq!(types(&shape_of(&taken))[1].0, "other_json_");
    }

    #[test]
    fn an_unobserved_key_or_type_is_a_misfit() {
        let shape = shape_of(&maps(&[json!({ "level": 1 })]));
        for (map, expected) in
            [(json!({ "level": null }), None), (json!({ "level": "1" }), Some("level")), (json!({ "x": 1 }), Some("x"))]
        {
            assert_eq!(shape.misfit(map.as_object().unwrap()), expected);
        }
    }
}
