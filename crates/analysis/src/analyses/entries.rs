//! Converts values to JSON. Unknown and non-finite values are null.

use ergometer_statistics::{Homogeneity, Interval, TestedBy};
use serde_json::{Map, Value, json};

use ergometer_statistics::Estimate;

/// A number; null if unknown or not finite.
pub(super) fn number(value: Option<f64>) -> Value {
    value.and_then(serde_json::Number::from_f64).map_or(Value::Null, Value::Number)
}

/// `{value, low, high}`; null if the value is unknown.
pub(super) fn estimate(found: Option<Estimate>) -> Value {
    found.filter(|found| found.value.is_finite()).map_or(Value::Null, |found| {
        let (low, high) = found.ends().unzip();
        json!({"value": found.value, "low": number(low), "high": number(high)})
    })
}

/// An estimate with an optional interval.
pub(super) fn with(value: f64, interval: Option<Interval>) -> Estimate {
    Estimate::with_ends(value, interval.map(|interval| (interval.low, interval.high)))
}

/// The result of a homogeneity test.
pub(super) fn test(found: Option<&Homogeneity>) -> Value {
    found.map_or(Value::Null, |found| {
        let (by, draws) = match found.by {
            TestedBy::Permutation { draws } => ("permutation", Some(draws)),
            TestedBy::ChiSquare => ("chi_square", None),
        };
        json!({"chi_square": found.chi_square, "freedom": found.freedom, "p_value": found.p_value, "by": by, "draws": draws})
    })
}

/// The map of an object made with `json!`.
pub(super) fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_values_are_null() {
        assert_eq!(number(Some(f64::NAN)), Value::Null);
        assert_eq!(estimate(Some(Estimate::exact(f64::INFINITY))), Value::Null);
        let half = Estimate::with_ends(2.0, Some((f64::NAN, 3.0)));
        assert_eq!(estimate(Some(half)), json!({"value": 2.0, "low": null, "high": 3.0}));
    }
}
