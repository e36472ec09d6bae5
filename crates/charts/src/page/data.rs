//! A chart becomes JSON that may stand inside a page: nothing in it ends the element it is in, and its numbers are as
//! long as a drawing needs them.
//!
//! What comes out is `{"chart": ..., "packed": [...]}`: the chart as it is, save that long lists of numbers are empty in
//! it and stand beside it, packed.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter};

use super::escape;
use super::pack::{self, Packed};
use crate::Chart;

/// Digits of a number that is drawn. A screen tells some 10,000 places apart; with nine, one can zoom into a
/// hundred-thousandth of a chart before places become coarse.
const DIGITS: usize = 9;

/// What the script of the page reads.
#[derive(Serialize)]
struct Data {
    chart: Chart,
    packed: Vec<Packed>,
}

/// The chart for the script of the page.
pub(super) fn json(chart: &Chart) -> String {
    let mut chart = chart.clone();
    let packed = pack::take_long(&mut chart);
    for (_, values, _) in chart.panels.iter_mut().flat_map(|panel| &mut panel.marks).flat_map(pack::numbers) {
        shorten(values);
    }
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, Embedded(CompactFormatter));
    // Strings, numbers and lists of them have no way to fail, and writing to a Vec has none either.
    match (Data { chart, packed }).serialize(&mut serializer) {
        Ok(()) => String::from_utf8(out).unwrap_or_default(),
        Err(_) => String::from("null"),
    }
}

/// Rounds to [`DIGITS`], and to more where all values lie close together and far from zero, as moments of a clock do.
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

/// Writes JSON in which no character means anything to HTML.
struct Embedded(CompactFormatter);

impl Formatter for Embedded {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        // A whole number needs no point: `12` for `12.0`.
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

/// A piece of a string without what HTML or a script would take for something else.
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
    fn nothing_ends_the_element() {
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
    fn what_is_no_number_is_null() {
        let json = json(&chart("t", vec![line(vec![1.0, 2.5, f64::NAN], vec![f64::INFINITY, -0.0, 1e300])]));
        assert!(json.contains(r#""x":[1,2.5,null],"y":[null,0,1e+300]"#), "{json}");
    }

    #[test]
    fn numbers_are_as_long_as_a_drawing_needs() {
        let mut values = [1.0 / 3.0, 2e5 / 3.0, f64::NAN];
        shorten(&mut values);
        assert_eq!(values[..2], [0.333_333_333, 66_666.666_7]);
        // Moments of a clock, 1 ms apart in the year 2023: nine digits would make them one.
        let mut moments = [1_700_000_000.001, 1_700_000_000.002, 1_700_000_000.003];
        shorten(&mut moments);
        assert_eq!(moments, [1_700_000_000.001, 1_700_000_000.002, 1_700_000_000.003]);
        let mut one = [0.123_456_789_012];
        shorten(&mut one);
        assert_eq!(one, [0.123_456_789]);
    }

    #[test]
    fn requests_keep_their_numbers() {
        let points = Points { x: vec![1.0], y: vec![2.0], requests: vec![9_007_199_254_740_991], ..Points::default() };
        assert!(json(&chart("t", vec![Mark::Points(points)])).contains("9007199254740991"));
    }
}
