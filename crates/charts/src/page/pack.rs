//! Long lists of numbers, packed: 5.3 letters a number in place of about 11.
//!
//! Along an even axis a list is cut into 2^32 - 2 even steps between its ends, so that moments of a long run stay apart;
//! along a logarithmic one it becomes 32-bit floats, which keep seven digits of small and of large values alike. Either
//! is four bytes a number, the lowest first, in base64. A list that is there twice is packed once, and numbers of
//! requests that count up by one are a first one and a count.

use std::mem;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::{Chart, Mark, Scale};

/// Shorter lists stay as they are: people may read them, and they cost little.
const LONG: usize = 2_000;

/// The step that stands for no number.
const ABSENT: u32 = u32::MAX;

/// A list that was taken out of a chart, and where it belongs.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Packed {
    panel: usize,
    mark: usize,
    list: &'static str,
    #[serde(flatten)]
    values: Values,
}

/// How it is packed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Values {
    /// `low + step * number` of each number.
    Steps { low: f64, step: f64, data: String },
    /// Floats.
    Floats(String),
    /// As in an earlier entry of the list of packed ones.
    Same(usize),
    /// So many from the first, one after another.
    Count { first: u64, count: usize },
}

/// Which axis the numbers of a list are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Along {
    X,
    Y,
}

/// All lists of a mark whose numbers are places, with their names.
pub(super) fn numbers(mark: &mut Mark) -> Vec<(&'static str, &mut Vec<f64>, Along)> {
    match mark {
        Mark::Points(points) | Mark::Bars(points) => vec![
            ("x", &mut points.x, Along::X),
            ("y", &mut points.y, Along::Y),
            ("low", &mut points.low, Along::Y),
            ("high", &mut points.high, Along::Y),
        ],
        Mark::Line { x, y, .. } | Mark::Step { x, y, .. } => vec![("x", x, Along::X), ("y", y, Along::Y)],
        Mark::Band { x, low, high, .. } => {
            vec![("x", x, Along::X), ("low", low, Along::Y), ("high", high, Along::Y)]
        }
        Mark::Spans(spans) => vec![
            ("start", &mut spans.start, Along::X),
            ("turn", &mut spans.turn, Along::X),
            ("end", &mut spans.end, Along::X),
        ],
        Mark::Rule { .. } => Vec::new(),
    }
}

/// Takes the long lists out of a chart.
pub(super) fn take_long(chart: &mut Chart) -> Vec<Packed> {
    let mut all: Vec<Packed> = Vec::new();
    let mut taken: Vec<(usize, Vec<f64>)> = Vec::new();
    let x_is_log = chart.x.scale == Scale::Log;
    for (panel_number, panel) in chart.panels.iter_mut().enumerate() {
        // Where y has names, intervals are of x.
        let y_is_log = match panel.y.scale {
            Scale::Names { .. } => x_is_log,
            ref other => *other == Scale::Log,
        };
        for (mark_number, mark) in panel.marks.iter_mut().enumerate() {
            for (list, values, along) in numbers(mark) {
                if values.len() < LONG {
                    continue;
                }
                let values = mem::take(values);
                let is_log = if along == Along::X { x_is_log } else { y_is_log };
                let same = taken.iter().find(|(_, other)| is_same(other, &values)).map(|(place, _)| *place);
                let packed = match same {
                    Some(place) => Values::Same(place),
                    None if is_log => floats(&values),
                    None => steps(&values),
                };
                if same.is_none() {
                    taken.push((all.len(), values));
                }
                all.push(Packed { panel: panel_number, mark: mark_number, list, values: packed });
            }
            if let Some((first, count)) = take_count(mark) {
                let values = Values::Count { first, count };
                all.push(Packed { panel: panel_number, mark: mark_number, list: "requests", values });
            }
        }
    }
    all
}

/// Equal in every bit, so that what is no number is equal too.
fn is_same(one: &[f64], other: &[f64]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.to_bits() == other.to_bits())
}

/// Takes the numbers of requests out of a mark if they count up by one.
fn take_count(mark: &mut Mark) -> Option<(u64, usize)> {
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
    #[expect(clippy::cast_possible_truncation, reason = "seven digits are what a logarithmic axis shows")]
    let bytes: Vec<u8> = values.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect();
    Values::Floats(STANDARD.encode(bytes))
}

fn steps(values: &[f64]) -> Values {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let low = finite().fold(f64::INFINITY, f64::min);
    let high = finite().fold(f64::NEG_INFINITY, f64::max);
    // Without any number there is no range, and all are absent.
    let low = if low.is_finite() { low } else { 0.0 };
    let step = ((high - low) / f64::from(ABSENT - 1)).max(f64::MIN_POSITIVE);
    // The whole range of f64 has no width in f64; such a list is drawn as well by floats.
    if !step.is_finite() {
        return floats(values);
    }
    let number = |value: f64| {
        if value.is_finite() { whole(((value - low) / step).round()).min(ABSENT - 1) } else { ABSENT }
    };
    let bytes: Vec<u8> = values.iter().flat_map(|&value| number(value).to_le_bytes()).collect();
    Values::Steps { low, step, data: STANDARD.encode(bytes) }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float stays within the type")]
fn whole(value: f64) -> u32 {
    value as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Hue, Panel, Points, Spans};

    /// As the script does it.
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
    fn steps_keep_moments_apart() {
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
    fn what_is_no_number_stays_none() {
        assert!(unpack(&steps(&[f64::NAN, f64::INFINITY])).iter().all(|value| value.is_nan()));
        assert_eq!(unpack(&steps(&[3.0, 3.0])), [3.0, 3.0]);
        let mixed = unpack(&steps(&[-1.0, f64::NAN, 2.0]));
        assert!(mixed[0] == -1.0 && mixed[1].is_nan() && (mixed[2] - 2.0).abs() < 1e-8);
        assert!(unpack(&steps(&[f64::MIN, 0.0, f64::MAX]))[1] == 0.0);
    }

    #[test]
    fn only_long_lists_are_taken_and_each_once() {
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
        let packed = take_long(&mut chart);
        assert_eq!(packed.len(), 3);
        assert!(matches!(packed[0].values, Values::Steps { .. }));
        assert_eq!(packed[1], Packed { panel: 0, mark: 0, list: "y", values: Values::Same(0) });
        assert_eq!(packed[2].values, Values::Count { first: 5, count: 3_000 });
        assert_eq!(chart.panels[0].marks[0], step(&[], &[]));
        assert_eq!(chart.panels[0].marks[1], step(&long[..9], &long[..9]));
        assert_eq!(chart.panels[0].marks[3], Mark::Points(points));
    }
}
