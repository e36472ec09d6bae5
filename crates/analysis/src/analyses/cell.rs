//! Formats values with intervals and units as table cells. An unknown value is `-`.

use ergometer_charts::Cell;
use ergometer_statistics::{Coefficient, Interval};
use ergometer_units::format;

use ergometer_statistics::Estimate;

/// Texts from datasets and devices are cut to this many characters.
const SHOWN_CHARACTERS: usize = 60;

/// A unit with SI prefixes: 0.002 `J` is formatted as `2.000 mJ`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) of: &'static str,
}

impl Unit {
    pub(super) const SECONDS: Self = Self { of: "s" };
    pub(super) const JOULES: Self = Self { of: "J" };
    pub(super) const WATTS: Self = Self { of: "W" };

    pub(super) fn show(self, value: f64) -> String {
        format::quantity(value, self.of)
    }
}

/// A cell with a number, or an absent cell.
pub(super) fn number(value: Option<f64>, unit: Unit) -> Cell {
    Cell::number(value, |value| unit.show(value))
}

/// A cell with a percentage.
pub(super) fn share(value: Option<f64>) -> Cell {
    Cell::number(value, format::percent)
}

/// A cell with a fitted coefficient and its interval.
pub(super) fn coefficient(coefficient: &Coefficient, unit: Unit) -> Cell {
    estimate(Some(coefficient.value), coefficient.interval, unit)
}

/// A cell with a number and its interval, if it has one. An interval wider than the number is formatted by its ends,
/// because `0.1 ± 20` is misleading.
pub(super) fn estimate(value: Option<f64>, interval: Option<Interval>, unit: Unit) -> Cell {
    let (Some(value), Some(interval)) = (value.filter(|value| value.is_finite()), interval) else {
        return number(value, unit);
    };
    let half = interval.width() / 2.0;
    let shown = if half > value.abs() {
        format!("{} to {}", unit.show(interval.low), unit.show(interval.high))
    } else {
        format::estimate(value, half, unit.of)
    };
    Cell::Estimate { value, low: interval.low, high: interval.high, shown }
}

/// A cell with an estimate and its interval: `4.151 ms (4.080 ms to 4.220 ms)`.
pub(super) fn estimate_cell(found: Option<Estimate>, show: impl Fn(f64) -> String) -> Cell {
    let Some(found) = found else { return Cell::Absent };
    let (value, interval) = (found.value, found.ends());
    match interval.filter(|(low, high)| low.is_finite() && high.is_finite()) {
        Some((low, high)) if value.is_finite() => {
            Cell::Estimate { value, low, high, shown: format!("{} ({} to {})", show(value), show(low), show(high)) }
        }
        _ => Cell::number(Some(value), show),
    }
}

/// A cell with a number in a unit.
pub(super) fn quantity_cell(value: Option<f64>, unit: &str) -> Cell {
    Cell::number(value, |value| format::quantity(value, unit))
}

/// A cell with a count.
pub(super) fn count_cell(count: u64) -> Cell {
    Cell::number(Some(count as f64), format::thousands)
}

/// A cell with a share from 0 to 1, as a percentage with its interval.
pub(super) fn share_cell(share: Option<Estimate>) -> Cell {
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    match share {
        Some(Estimate { value, low: Some(low), high: Some(high) }) => Cell::Estimate {
            value,
            low,
            high,
            shown: format!("{} % ({} to {})", percent(value), percent(low), percent(high)),
        },
        Some(Estimate { value, .. }) => Cell::number(Some(value), format::percent),
        None => Cell::Absent,
    }
}

/// Formats a p-value.
pub(super) fn p_value(p: f64) -> String {
    if p < 0.001 { String::from("p < 0.001") } else { format!("p = {p:.3}") }
}

/// Makes a text from a dataset or device safe for a table: one line, no control characters, limited length.
pub(super) fn outside(text: &str) -> String {
    if text.trim().is_empty() {
        return String::from("(none)");
    }
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        None => one_line(text),
        Some((end, _)) => one_line(&text[..end]) + "…",
    }
}

/// A text on one line, without control characters and not cut: a sentence of this program, read from a file.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|character| if is_plain(character) { character } else { '\u{fffd}' }).collect()
}

/// Whether a character is neither a control character nor a Unicode bidirectional mark.
fn is_plain(character: char) -> bool {
    let turns = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !character.is_control() && !turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_margin_wider_than_the_number_is_shown_by_its_ends() {
        let of = |value, low, high| estimate(Some(value), Some(Interval { low, high }), Unit::JOULES).shown();
        assert_eq!(of(0.0265, 0.0255, 0.0275), "26.5 ± 1.0 mJ");
        assert_eq!(of(0.001, -0.02, 0.022), "-20.00 mJ to 22.00 mJ");
        assert_eq!(estimate(Some(0.001), None, Unit::JOULES).shown(), "1.000 mJ");
        assert_eq!(estimate(None, None, Unit::JOULES), Cell::Absent);
    }

    #[test]
    fn a_share_and_its_interval() {
        let half = Estimate::with_ends(2.0, Some((f64::NAN, 3.0)));
        assert_eq!(estimate_cell(Some(half), format::digits).shown(), "2.000");
        assert_eq!(share_cell(Some(Estimate::with_ends(0.5, Some((0.4, 0.61))))).shown(), "50.0 % (40.0 to 61.0)");
    }

    #[test]
    fn texts_from_outside_are_made_safe() {
        assert_eq!(outside("a\u{1b}[2Jb\n\u{202e}c"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}c");
        assert_eq!((outside(" "), outside(&"é".repeat(61)).chars().count()), ("(none)".into(), 61));
    }
}
