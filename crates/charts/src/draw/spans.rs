//! Draws spans of time as bars in lanes. The part before the turn is paler.

use super::ink::Ink;
use super::write::{Path, Svg};
use super::{Area, View};
use crate::Spans;

/// With more spans, they become strokes of a few paths, and touching spans in a lane are joined.
const MAX: usize = 2000;

/// With more strokes in a mark, small gaps are closed.
const MAX_STROKES: usize = 40_000;

struct Bar {
    /// The top of its lane.
    top: f64,
    start: f64,
    end: f64,
    /// Where the full colour starts.
    turn: f64,
}

impl Bar {
    fn has_pale(&self) -> bool {
        self.turn > self.start
    }

    /// Also true for a bar without length, which is drawn as a thin line.
    fn has_full(&self) -> bool {
        self.turn < self.end || self.turn <= self.start
    }
}

fn bars(view: &View, spans: &Spans, thickness: f64) -> Vec<Bar> {
    let mut out = Vec::new();
    for (index, (start, end)) in spans.start.iter().zip(&spans.end).enumerate() {
        let lane = f64::from(spans.lane.get(index).copied().unwrap_or(0));
        let (Some(from), Some(to), Some(middle)) = (view.x.place(*start), view.x.place(*end), view.y.visible(lane))
        else {
            continue;
        };
        let (left, right) = (view.area.x, view.area.x + view.area.width);
        if from.max(to) < left || from.min(to) > right {
            continue;
        }
        let (from, to) = (from.min(to).clamp(left, right), from.max(to).clamp(left, right));
        let turn = spans.turn.get(index).and_then(|turn| view.x.place(*turn)).unwrap_or(from).clamp(from, to);
        out.push(Bar { top: middle - thickness / 2.0, start: from, end: to, turn });
    }
    out
}

pub(super) fn draw(svg: &mut Svg, view: &View, ink: &mut Ink, spans: &Spans) {
    let lane = view.y.pace();
    let thickness = (lane * 0.74).clamp(0.8, 18.0);
    let bars = bars(view, spans, thickness);
    let colour = spans.hue.colour(view.theme);
    for bar in &bars {
        ink.fill(Area { x: bar.start, y: bar.top, width: bar.end - bar.start, height: thickness });
    }
    if bars.len() > MAX {
        let pale = bars.iter().filter(|bar| bar.has_pale()).map(|bar| (bar.top, bar.start, bar.turn)).collect();
        let full = bars.iter().filter(|bar| bar.has_full()).map(|bar| (bar.top, bar.turn, bar.end)).collect();
        strokes(svg, pale, thickness, &format!("stroke=\"{colour}\" stroke-opacity=\"0.35\""));
        strokes(svg, full, thickness, &format!("stroke=\"{colour}\""));
        return;
    }
    let radius = (thickness / 2.0).min(3.0);
    let part = |svg: &mut Svg, bar: &Bar, from: f64| {
        let area = Area { x: from, y: bar.top, width: (bar.end - from).max(0.8), height: thickness };
        svg.rect(area, radius.min(area.width / 2.0), "");
    };
    svg.raw(&format!("<g fill=\"{colour}\" fill-opacity=\"0.35\">\n"));
    for bar in bars.iter().filter(|bar| bar.has_pale()) {
        part(svg, bar, bar.start);
    }
    svg.raw(&format!("</g>\n<g fill=\"{colour}\">\n"));
    for bar in bars.iter().filter(|bar| bar.has_full()) {
        part(svg, bar, bar.turn);
    }
    svg.raw("</g>\n");
}

/// Joins spans that touch: sorted (top, start, end). Lanes thinner than half a pixel are merged.
fn join_touching(mut spans: Vec<(f64, f64, f64)>, gap: f64) -> Vec<(f64, f64, f64)> {
    for span in &mut spans {
        span.0 = (span.0 * 2.0).round() / 2.0;
    }
    spans.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let mut out: Vec<(f64, f64, f64)> = Vec::new();
    for (top, start, end) in spans {
        match out.last_mut() {
            Some(last) if last.0 == top && start <= last.2 + gap => last.2 = last.2.max(end),
            _ => out.push((top, start, end)),
        }
    }
    out
}

fn strokes(svg: &mut Svg, spans: Vec<(f64, f64, f64)>, thickness: f64, style: &str) {
    let mut gap = 0.1;
    let mut spans = join_touching(spans, gap);
    while spans.len() > MAX_STROKES && gap < 50.0 {
        gap *= 2.0;
        spans = join_touching(spans, gap);
    }
    let mut path = Path::default();
    for (top, start, end) in spans {
        let middle = top + thickness / 2.0;
        path.start((start, middle));
        path.line((end.max(start + 0.3), middle));
    }
    svg.path(&path, &format!("fill=\"none\" stroke-width=\"{thickness:.1}\" {style}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_spans_in_a_lane_are_joined() {
        let spans = vec![(0.0, 5.0, 6.0), (0.0, 0.0, 2.0), (10.0, 0.0, 9.0), (0.0, 2.0, 4.0), (0.0, 1.0, 1.5)];
        assert_eq!(join_touching(spans, 0.1), [(0.0, 0.0, 4.0), (0.0, 5.0, 6.0), (10.0, 0.0, 9.0)]);
    }

    #[test]
    fn a_span_without_length_is_a_thin_line() {
        let bar = Bar { top: 0.0, start: 5.0, end: 5.0, turn: 5.0 };
        assert!(bar.has_full() && !bar.has_pale());
        let mut svg = Svg::default();
        strokes(&mut svg, vec![(0.0, 5.0, 5.0)], 4.0, "stroke=\"#000000\"");
        assert!(svg.finish().contains("M5 2L5.3 2"));
    }
}
