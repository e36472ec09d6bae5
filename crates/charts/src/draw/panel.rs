//! Draws the marks of a panel in order, then its labels.

use super::bars::{self, Bars};
use super::ink::Ink;
use super::labels::{self, LineEnd, RuleLabel};
use super::lines::{self, Band, Interpolation, Line};
use super::points::{self, Dots};
use super::write::{Svg, clean};
use super::{View, spans};
use crate::{Axis, Hue, Mark, Panel, Side, Stroke};

/// The numbers of labels and whiskers that are not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Omissions {
    pub(super) names: usize,
    pub(super) line_names: usize,
    pub(super) rule_names: usize,
    pub(super) whiskers: usize,
}

/// Draws the marks and labels of a panel.
pub(super) fn draw(svg: &mut Svg, view: &View, panel: &Panel, x_axis: &Axis) -> Omissions {
    let mut ink = Ink::new(view.area);
    let mut out = Omissions::default();
    let (mut ends, mut rules, mut point_labels, mut bar_labels) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let dots = |mark: &Mark| if let Mark::Points(points) = mark { points.x.len().min(points.y.len()) } else { 0 };
    let total = panel.marks.iter().map(dots).sum();
    let bars = panel.marks.iter().filter(|mark| matches!(mark, Mark::Bars(_))).count();
    let mut bar = 0;
    let shifts = shifts(view, panel, x_axis);
    for (index, mark) in panel.marks.iter().enumerate() {
        match mark {
            Mark::Points(points) => {
                let shift = shifts.get(index).copied().unwrap_or(0.0);
                let drawn = points::draw(svg, view, &mut ink, &Dots { points, total, shift });
                point_labels.extend(drawn.labels);
                out.whiskers += drawn.omitted_whiskers;
            }
            Mark::Line { label, hue, stroke, x, y } => {
                let line = Line { x, y, interpolation: Interpolation::Straight, stroke: *stroke, hue: *hue };
                ends.extend(line_end(svg, view, &mut ink, &line, label));
            }
            Mark::Step { label, hue, x, y } => {
                let line = Line { x, y, interpolation: Interpolation::Steps, stroke: Stroke::Solid, hue: *hue };
                ends.extend(line_end(svg, view, &mut ink, &line, label));
            }
            Mark::Band { hue, x, low, high } => lines::band(svg, view, &Band { x, low, high, hue: *hue }),
            Mark::Bars(points) => {
                let bars = Bars { points, axis: x_axis, position: (bar, bars) };
                bar_labels.extend(bars::draw(svg, view, &mut ink, &bars));
                bar += 1;
            }
            Mark::Spans(spans) => spans::draw(svg, view, &mut ink, spans),
            Mark::Rule { side, at, label, hue } => rules.extend(rule(svg, view, &mut ink, (*side, *at, *hue, label))),
        }
    }
    labels::bars(svg, view, &mut ink, &bar_labels);
    out.line_names = labels::line_ends(svg, view, &mut ink, ends);
    out.rule_names = labels::rules(svg, view, &mut ink, &rules);
    out.names = labels::points(svg, view, &mut ink, &point_labels);
    out
}

/// The shift of the points of each mark along an axis of names. Only marks with intervals are shifted, if there are
/// several.
fn shifts(view: &View, panel: &Panel, x_axis: &Axis) -> Vec<f64> {
    let with_intervals = |mark: &Mark| matches!(mark, Mark::Points(points) if !points.low.is_empty());
    let count = panel.marks.iter().filter(|mark| with_intervals(mark)).count();
    let pace = match (view.across, super::coverage::has_names(x_axis)) {
        (true, _) => view.y.pace(),
        (false, true) => view.x.pace(),
        _ => 0.0,
    };
    let each = if count < 2 { 0.0 } else { (pace * 0.6 / count as f64).min(14.0) };
    let mut position = 0.0;
    let shift = |mark: &Mark| {
        if !with_intervals(mark) {
            return 0.0;
        }
        position += 1.0;
        (position - 1.0 - (count as f64 - 1.0) / 2.0) * each
    };
    panel.marks.iter().map(shift).collect()
}

fn line_end(svg: &mut Svg, view: &View, ink: &mut Ink, line: &Line<'_>, label: &str) -> Option<LineEnd> {
    let end = lines::line(svg, view, ink, line)?;
    let text = clean(label);
    let heights: Vec<f64> = line.y.iter().filter_map(|y| view.y.visible(*y)).collect();
    let middle = heights.iter().sum::<f64>() / heights.len().max(1) as f64;
    (!text.is_empty()).then_some(LineEnd { end, middle, text, hue: line.hue })
}

fn rule(
    svg: &mut Svg,
    view: &View,
    ink: &mut Ink,
    (side, at, hue, label): (Side, f64, Hue, &str),
) -> Option<RuleLabel> {
    let ruler = if side == Side::X { &view.x } else { &view.y };
    let place = ruler.visible(at)?;
    let area = view.area;
    let (from, to) = match side {
        Side::X => ((place, area.y), (place, area.y + area.height)),
        Side::Y => ((area.x, place), (area.x + area.width, place)),
    };
    let colour = hue.colour(view.theme);
    svg.line(from, to, &format!("stroke=\"{colour}\" stroke-width=\"1.2\" stroke-dasharray=\"4 3\""));
    ink.stroke(from, to);
    let text = clean(label);
    (!text.is_empty()).then_some(RuleLabel { side, place, text, hue })
}
