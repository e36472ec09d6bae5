//! Spans in lanes: stretches of time go in, bars come out; the part before the turn is paler.

use super::ink::Ink;
use super::write::{Path, Svg};
use super::{Area, View};
use crate::Spans;

/// Above so many, spans are strokes of a few paths, and those that touch in a lane are one.
const MOST: usize = 2000;

/// Above so many strokes of a mark, gaps that are hardly seen are closed.
const MOST_STROKES: usize = 40_000;

struct Bar {
    /// The top of its lane.
    top: f64,
    start: f64,
    end: f64,
    /// Where the full colour begins.
    turn: f64,
}

impl Bar {
    fn has_pale(&self) -> bool {
        self.turn > self.start
    }

    /// Also when it has no length: it is a hair then, not nothing.
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
    if bars.len() > MOST {
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

/// Stretches joined where they touch: (top, start, end), in order. Lanes thinner than half a pixel share one.
fn joined(mut stretches: Vec<(f64, f64, f64)>, gap: f64) -> Vec<(f64, f64, f64)> {
    for stretch in &mut stretches {
        stretch.0 = (stretch.0 * 2.0).round() / 2.0;
    }
    stretches.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let mut out: Vec<(f64, f64, f64)> = Vec::new();
    for (top, start, end) in stretches {
        match out.last_mut() {
            Some(last) if last.0 == top && start <= last.2 + gap => last.2 = last.2.max(end),
            _ => out.push((top, start, end)),
        }
    }
    out
}

fn strokes(svg: &mut Svg, stretches: Vec<(f64, f64, f64)>, thickness: f64, style: &str) {
    let mut gap = 0.1;
    let mut stretches = joined(stretches, gap);
    while stretches.len() > MOST_STROKES && gap < 50.0 {
        gap *= 2.0;
        stretches = joined(stretches, gap);
    }
    let mut path = Path::default();
    for (top, start, end) in stretches {
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
    fn what_touches_in_a_lane_is_one() {
        let stretches = vec![(0.0, 5.0, 6.0), (0.0, 0.0, 2.0), (10.0, 0.0, 9.0), (0.0, 2.0, 4.0), (0.0, 1.0, 1.5)];
        assert_eq!(joined(stretches, 0.1), [(0.0, 0.0, 4.0), (0.0, 5.0, 6.0), (10.0, 0.0, 9.0)]);
    }

    #[test]
    fn a_span_without_length_is_a_hair_in_a_crowd_too() {
        let bar = Bar { top: 0.0, start: 5.0, end: 5.0, turn: 5.0 };
        assert!(bar.has_full() && !bar.has_pale());
        let mut svg = Svg::default();
        strokes(&mut svg, vec![(0.0, 5.0, 5.0)], 4.0, "stroke=\"#000000\"");
        assert!(svg.finish().contains("M5 2L5.3 2"));
    }
}
