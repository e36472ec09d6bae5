//! Writes a chart as JSON that is safe inside a `<script>` element.
//!
//! The format is `{"chart": ..., "packed": [...]}`. Long lists of numbers are empty in `chart` and stored in `packed`.
//! Numbers are rounded to the digits a drawing needs.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter};

use super::escape;
use super::pack::{self, PackedList};
use crate::Chart;

/// The digits of a drawn number. A screen distinguishes about 10,000 positions; with nine digits, readers can zoom into
/// a hundred-thousandth of a chart before positions become coarse.
const DIGITS: usize = 9;

/// The data that the script of the page reads.
#[derive(Serialize)]
struct Data {
    chart: Chart,
    packed: Vec<PackedList>,
}

/// The chart as JSON for the script of the page.
pub(super) fn json(chart: &Chart) -> String {
    let mut chart = chart.clone();
    let packed = pack::extract_long(&mut chart);
    for (_, values, _) in chart.panels.iter_mut().flat_map(|panel| &mut panel.marks).flat_map(pack::numbers) {
        shorten(values);
    }
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, EmbeddedFormatter(CompactFormatter));
    // Serializing strings, numbers and lists to a Vec cannot fail.
    match (Data { chart, packed }).serialize(&mut serializer) {
        Ok(()) => String::from_utf8(out).unwrap_or_default(),
        Err(_) => String::from("null"),
    }
}

/// Rounds to [`DIGITS`] digits, and to more if all values are close together and far from zero, like timestamps.
fn shorten(values: &mut [f64]) {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let low = finite().fold(f64::INFINITY, f64::min);
    let high = finite().fold(f64::NEG_INFINITY, f64::max);
    let mut digits = DIGITS;
    let mut nearness = low.abs().max(high.abs()) / (high - low);
    while nearness.is_finite() && nearness >= 10.0 && digits < 17 {
        nearness /= 10.0;
        digits += 1;
    }
    for value in values.iter_mut().filter(|value| value.is_finite()) {
        if let Ok(shorter) = format!("{value:.*e}", digits - 1).parse() {
            *value = shorter;
        }
    }
}

/// Writes JSON without characters that have a meaning in HTML.
struct EmbeddedFormatter(CompactFormatter);

impl Formatter for EmbeddedFormatter {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        // A whole number needs no decimal point: `12` for `12.0`.
        if value.fract() == 0.0 && value.abs() < 1e15 {
            write!(writer, "{}", value + 0.0)
        } else {
            self.0.write_f64(writer, value)
        }
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        writer.write_all(embedded(fragment).as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, writer: &mut W, character: CharEscape) -> io::Result<()> {
        match character {
            CharEscape::AsciiControl(control) => write!(writer, "{}", escape::symbol(control)),
            CharEscape::Backspace => write!(writer, "{}", escape::symbol(8)),
            CharEscape::FormFeed => write!(writer, "{}", escape::symbol(12)),
            CharEscape::CarriageReturn => write!(writer, "{}", escape::symbol(13)),
            other => self.0.write_char_escape(writer, other),
        }
    }
}

/// Escapes characters with a meaning in HTML or scripts inside a JSON string.
fn embedded(fragment: &str) -> Cow<'_, str> {
    let harmless = |c: char| c.is_ascii_graphic() || c == ' ';
    if fragment.chars().all(|c| harmless(c) && !matches!(c, '<' | '>' | '&')) {
        return Cow::Borrowed(fragment);
    }
    let mut out = String::with_capacity(fragment.len() + 16);
    for character in fragment.chars() {
        match character {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => escape::push_visible(&mut out, other),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Hue, Mark, Panel, Points, Stroke};

    fn chart(title: &str, marks: Vec<Mark>) -> Chart {
        Chart {
            id: String::from("c"),
            title: title.to_owned(),
            subtitle: String::new(),
            notes: Vec::new(),
            x: Axis::linear("time", "s"),
            panels: vec![Panel { y: Axis::linear("power", "W"), marks, share: 1.0 }],
        }
    }

    fn line(x: Vec<f64>, y: Vec<f64>) -> Mark {
        Mark::Line { label: String::new(), hue: Hue::Muted, stroke: Stroke::Solid, x, y }
    }

    #[test]
    fn hostile_text_does_not_close_the_element() {
        let hostile = "</script><script>alert(1)</script><!-- ]]> & \u{2028}\u{2029} \"quoted\" \\ \u{202e}\0\r\u{8}";
        let json = json(&chart(hostile, Vec::new()));
        assert!(!json.contains(['<', '>', '&', '\u{2028}', '\u{2029}', '\u{202e}', '\0', '\r']), "{json}");
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            value["chart"]["title"],
            "</script><script>alert(1)</script><!-- ]]> & \u{2028}\u{2029} \"quoted\" \\ [U+202E]␀␍␈"
        );
    }

    #[test]
    fn values_that_are_not_finite_are_null() {
        let json = json(&chart("t", vec![line(vec![1.0, 2.5, f64::NAN], vec![f64::INFINITY, -0.0, 1e300])]));
        assert!(json.contains(r#""x":[1,2.5,null],"y":[null,0,1e+300]"#), "{json}");
    }

    #[test]
    fn numbers_are_rounded_to_the_digits_a_drawing_needs() {
        let mut values = [1.0 / 3.0, 2e5 / 3.0, f64::NAN];
        shorten(&mut values);
        assert_eq!(values[..2], [0.333_333_333, 66_666.666_7]);
        // Timestamps 1 ms apart in the year 2023: nine digits would make them equal.
        let mut moments = [1_700_000_000.001, 1_700_000_000.002, 1_700_000_000.003];
        shorten(&mut moments);
        assert_eq!(moments, [1_700_000_000.001, 1_700_000_000.002, 1_700_000_000.003]);
        let mut one = [0.123_456_789_012];
        shorten(&mut one);
        assert_eq!(one, [0.123_456_789]);
    }

    #[test]
    fn request_numbers_are_exact() {
        let points = Points { x: vec![1.0], y: vec![2.0], requests: vec![9_007_199_254_740_991], ..Points::default() };
        assert!(json(&chart("t", vec![Mark::Points(points)])).contains("9007199254740991"));
    }
}
