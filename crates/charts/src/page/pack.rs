//! Packs long lists of numbers as base64: 5.3 characters per number instead of about 11.
//!
//! On a linear axis, a list is quantized to 2^32 - 2 steps between its minimum and maximum, so that nearby times of a
//! long run stay distinct. On a logarithmic axis, numbers become 32-bit floats, which keep seven digits at any
//! magnitude. Both take four bytes per number, little-endian. A list that occurs twice is packed once, and consecutive
//! request numbers become a first number and a count.

use std::mem;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::{Chart, Mark, Scale, Side};

/// Lists with fewer numbers are not packed: they are small and readable.
const LONG: usize = 2_000;

/// The step that marks an absent number.
const ABSENT: u32 = u32::MAX;

/// A packed list and its position in the chart.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct PackedList {
    panel: usize,
    mark: usize,
    list: &'static str,
    #[serde(flatten)]
    values: Values,
}

/// The content of a packed list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Values {
    /// Each number is `low + step * integer`.
    Steps { low: f64, step: f64, data: String },
    /// 32-bit floats.
    Floats(String),
    /// The same numbers as in an earlier packed list, by its index.
    Same(usize),
    /// Consecutive numbers.
    Count { first: u64, count: usize },
}

/// All lists of a mark that hold values of an axis, with their names.
pub(super) fn numbers(mark: &mut Mark) -> Vec<(&'static str, &mut Vec<f64>, Side)> {
    match mark {
        Mark::Points(points) | Mark::Bars(points) => vec![
            ("x", &mut points.x, Side::X),
            ("y", &mut points.y, Side::Y),
            ("low", &mut points.low, Side::Y),
            ("high", &mut points.high, Side::Y),
        ],
        Mark::Line { x, y, .. } | Mark::Step { x, y, .. } => vec![("x", x, Side::X), ("y", y, Side::Y)],
        Mark::Band { x, low, high, .. } => {
            vec![("x", x, Side::X), ("low", low, Side::Y), ("high", high, Side::Y)]
        }
        Mark::Spans(spans) => vec![
            ("start", &mut spans.start, Side::X),
            ("turn", &mut spans.turn, Side::X),
            ("end", &mut spans.end, Side::X),
        ],
        Mark::Rule { .. } => Vec::new(),
    }
}

/// Removes the long lists from a chart and packs them.
pub(super) fn extract_long(chart: &mut Chart) -> Vec<PackedList> {
    let mut all: Vec<PackedList> = Vec::new();
    let mut taken: Vec<(usize, Vec<f64>)> = Vec::new();
    let x_is_log = chart.x.scale == Scale::Log;
    for (panel_number, panel) in chart.panels.iter_mut().enumerate() {
        // If y has names, intervals are on x.
        let y_is_log = match panel.y.scale {
            Scale::Names { .. } => x_is_log,
            ref other => *other == Scale::Log,
        };
        for (mark_number, mark) in panel.marks.iter_mut().enumerate() {
            for (list, values, side) in numbers(mark) {
                if values.len() < LONG {
                    continue;
                }
                let values = mem::take(values);
                let is_log = if side == Side::X { x_is_log } else { y_is_log };
                let same = taken.iter().find(|(_, other)| is_same(other, &values)).map(|(place, _)| *place);
                let packed = match same {
                    Some(place) => Values::Same(place),
                    None if is_log => floats(&values),
                    None => steps(&values),
                };
                if same.is_none() {
                    taken.push((all.len(), values));
                }
                all.push(PackedList { panel: panel_number, mark: mark_number, list, values: packed });
            }
            if let Some((first, count)) = extract_count(mark) {
                let values = Values::Count { first, count };
                all.push(PackedList { panel: panel_number, mark: mark_number, list: "requests", values });
            }
        }
    }
    all
}

/// Whether all numbers are equal bit by bit. NaN equals NaN.
fn is_same(one: &[f64], other: &[f64]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.to_bits() == other.to_bits())
}

/// Removes the request numbers from a mark if there are many and they are consecutive.
fn extract_count(mark: &mut Mark) -> Option<(u64, usize)> {
    let requests = match mark {
        Mark::Points(points) | Mark::Bars(points) => &mut points.requests,
        Mark::Spans(spans) => &mut spans.requests,
        _ => return None,
    };
    let counts_up = requests.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
    if requests.len() < LONG || !counts_up {
        return None;
    }
    let requests = mem::take(requests);
    Some((requests[0], requests.len()))
}

fn floats(values: &[f64]) -> Values {
    #[expect(clippy::cast_possible_truncation, reason = "seven digits are enough for a logarithmic axis")]
    let bytes: Vec<u8> = values.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect();
    Values::Floats(STANDARD.encode(bytes))
}

fn steps(values: &[f64]) -> Values {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let low = finite().fold(f64::INFINITY, f64::min);
    let high = finite().fold(f64::NEG_INFINITY, f64::max);
    // Without finite numbers there is no range, and all numbers are absent.
    let low = if low.is_finite() { low } else { 0.0 };
    let step = ((high - low) / f64::from(ABSENT - 1)).max(f64::MIN_POSITIVE);
    // The width of the whole range of f64 overflows; 32-bit floats are good enough for such a list.
    if !step.is_finite() {
        return floats(values);
    }
    let number = |value: f64| {
        if value.is_finite() { whole(((value - low) / step).round()).min(ABSENT - 1) } else { ABSENT }
    };
    let bytes: Vec<u8> = values.iter().flat_map(|&value| number(value).to_le_bytes()).collect();
    Values::Steps { low, step, data: STANDARD.encode(bytes) }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float to int casts saturate")]
fn whole(value: f64) -> u32 {
    value as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Hue, Panel, Points, Spans};

    /// Unpacks as the script does.
    fn unpack(values: &Values) -> Vec<f64> {
        let words = |data: &str| -> Vec<[u8; 4]> {
            STANDARD.decode(data).unwrap().chunks(4).map(|chunk| chunk.try_into().unwrap()).collect()
        };
        match values {
            Values::Steps { low, step, data } => words(data)
                .into_iter()
                .map(u32::from_le_bytes)
                .map(|number| if number == ABSENT { f64::NAN } else { low + step * f64::from(number) })
                .collect(),
            Values::Floats(data) => words(data).into_iter().map(|word| f64::from(f32::from_le_bytes(word))).collect(),
            Values::Same(_) | Values::Count { .. } => panic!("nothing is packed here"),
        }
    }

    #[test]
    fn steps_keep_nearby_times_distinct() {
        // A day in steps of 20 ms, far from zero.
        let values: Vec<f64> = (0..4_320_000).map(|step| 1.7e9 + f64::from(step) * 0.02).collect();
        let unpacked = unpack(&steps(&values));
        assert!(values.iter().zip(&unpacked).all(|(one, other)| (one - other).abs() < 2e-5));
    }

    #[test]
    fn floats_keep_digits_of_small_values() {
        let unpacked = unpack(&floats(&[1e-9, 12.345_678, 1e9, f64::NAN]));
        for (one, other) in [1e-9, 12.345_678, 1e9].iter().zip(&unpacked) {
            assert!((one / other - 1.0).abs() < 1e-7);
        }
        assert!(unpacked[3].is_nan());
    }

    #[test]
    fn values_that_are_not_finite_become_absent() {
        assert!(unpack(&steps(&[f64::NAN, f64::INFINITY])).iter().all(|value| value.is_nan()));
        assert_eq!(unpack(&steps(&[3.0, 3.0])), [3.0, 3.0]);
        let mixed = unpack(&steps(&[-1.0, f64::NAN, 2.0]));
        assert!(mixed[0] == -1.0 && mixed[1].is_nan() && (mixed[2] - 2.0).abs() < 1e-8);
        assert!(unpack(&steps(&[f64::MIN, 0.0, f64::MAX]))[1] == 0.0);
    }

    #[test]
    fn only_long_lists_are_packed_and_each_once() {
        let long: Vec<f64> = (0..3_000).map(f64::from).collect();
        let step =
            |x: &[f64], y: &[f64]| Mark::Step { label: String::new(), hue: Hue::Muted, x: x.to_vec(), y: y.to_vec() };
        let spans = Spans { requests: (5..3_005).collect(), ..Spans::default() };
        let points = Points { requests: (0..3_000).rev().collect(), ..Points::default() };
        let marks =
            vec![step(&long, &long), step(&long[..9], &long[..9]), Mark::Spans(spans), Mark::Points(points.clone())];
        let mut chart = Chart {
            id: String::new(),
            title: String::new(),
            subtitle: String::new(),
            notes: Vec::new(),
            x: Axis::linear("", ""),
            panels: vec![Panel { y: Axis::log("", ""), marks, share: 1.0 }],
        };
        let packed = extract_long(&mut chart);
        assert_eq!(packed.len(), 3);
        assert!(matches!(packed[0].values, Values::Steps { .. }));
        assert_eq!(packed[1], PackedList { panel: 0, mark: 0, list: "y", values: Values::Same(0) });
        assert_eq!(packed[2].values, Values::Count { first: 5, count: 3_000 });
        assert_eq!(chart.panels[0].marks[0], step(&[], &[]));
        assert_eq!(chart.panels[0].marks[1], step(&long[..9], &long[..9]));
        assert_eq!(chart.panels[0].marks[3], Mark::Points(points));
    }
}
