//! Figures as they are written: entries of JSON, and cells of tables. What is not known, or not finite, is null and `-`.

use ergometer_charts::Cell;
use ergometer_statistics::{Homogeneity, Interval, TestedBy};
use ergometer_units::shown;
use serde_json::{Map, Value, json};

use crate::saved::Estimate;

/// How much of a text from outside is shown.
const SHOWN_CHARACTERS: usize = 60;

/// A number; null where it is not known or not finite.
pub(super) fn number(value: Option<f64>) -> Value {
    value.and_then(serde_json::Number::from_f64).map_or(Value::Null, Value::Number)
}

/// `{value, low, high}`; null where the value is not known.
pub(super) fn estimate(found: Option<Estimate>) -> Value {
    found.filter(|found| found.value.is_finite()).map_or(Value::Null, |found| {
        let (low, high) = found.interval.unzip();
        json!({"value": found.value, "low": number(low), "high": number(high)})
    })
}

/// A figure with an interval that was computed here.
pub(super) fn with(value: f64, interval: Option<Interval>) -> Estimate {
    Estimate { value, interval: interval.map(|interval| (interval.low, interval.high)) }
}

/// What a test of whether groups differ found.
pub(super) fn test(found: Option<&Homogeneity>) -> Value {
    found.map_or(Value::Null, |found| {
        let (by, draws) = match found.by {
            TestedBy::Permutation { draws } => ("permutation", Some(draws)),
            TestedBy::ChiSquare => ("chi_square", None),
        };
        json!({"chi_square": found.chi_square, "freedom": found.freedom, "p_value": found.p_value, "by": by, "draws": draws})
    })
}

/// A map of an object that was written with `json!`.
pub(super) fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// A figure with its interval, in the unit that fits: `4.151 ms (4.080 to 4.220 ms)`.
pub(super) fn estimate_cell(found: Option<Estimate>, show: impl Fn(f64) -> String) -> Cell {
    let Some(Estimate { value, interval }) = found else { return Cell::Absent };
    match interval.filter(|(low, high)| low.is_finite() && high.is_finite()) {
        Some((low, high)) if value.is_finite() => {
            Cell::Estimate { value, low, high, shown: format!("{} ({} to {})", show(value), show(low), show(high)) }
        }
        _ => Cell::number(Some(value), show),
    }
}

/// A number of a unit.
pub(super) fn quantity_cell(value: Option<f64>, unit: &str) -> Cell {
    Cell::number(value, |value| shown::quantity(value, unit))
}

/// A count.
pub(super) fn count_cell(count: u64) -> Cell {
    Cell::number(Some(count as f64), shown::thousands)
}

/// A share from 0 to 1, with its interval.
pub(super) fn share_cell(share: Option<Estimate>) -> Cell {
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    match share {
        Some(Estimate { value, interval: Some((low, high)) }) => Cell::Estimate {
            value,
            low,
            high,
            shown: format!("{} % ({} to {})", percent(value), percent(low), percent(high)),
        },
        Some(Estimate { value, interval: None }) => Cell::number(Some(value), shown::percent),
        None => Cell::Absent,
    }
}

/// A p value as people read it.
pub(super) fn p_value(p: f64) -> String {
    if p < 0.001 { String::from("p < 0.001") } else { format!("p = {p:.3}") }
}

/// A text from outside (a subject, a device) in a table: on one line, without control characters, and not too long.
pub(super) fn outside(text: &str) -> String {
    if text.trim().is_empty() {
        return String::from("(none)");
    }
    let plain = |character: char| if is_plain(character) { character } else { '\u{fffd}' };
    let mut shown: String = text.chars().take(SHOWN_CHARACTERS).map(plain).collect();
    if text.chars().nth(SHOWN_CHARACTERS).is_some() {
        shown.push('…');
    }
    shown
}

/// Neither a control character nor one that turns the direction of what follows (Unicode's bidirectional marks).
fn is_plain(character: char) -> bool {
    let turns = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !character.is_control() && !turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_null() {
        assert_eq!(number(Some(f64::NAN)), Value::Null);
        assert_eq!(estimate(Some(Estimate { value: f64::INFINITY, interval: None })), Value::Null);
        let half = Estimate { value: 2.0, interval: Some((f64::NAN, 3.0)) };
        assert_eq!(estimate(Some(half)), json!({"value": 2.0, "low": null, "high": 3.0}));
        assert_eq!(estimate_cell(Some(half), shown::digits).shown(), "2.000");
        assert_eq!(
            share_cell(Some(with(0.5, Some(Interval { low: 0.4, high: 0.61 })))).shown(),
            "50.0 % (40.0 to 61.0)"
        );
    }

    #[test]
    fn texts_from_outside_stay_on_their_line() {
        assert_eq!(outside("a\u{1b}[2Jb\n\u{202e}c"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}c");
        assert_eq!((outside(" "), outside(&"é".repeat(61)).chars().count()), ("(none)".into(), 61));
    }
}
