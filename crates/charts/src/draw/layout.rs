//! Where everything stands: a chart goes in; the size of the picture, and areas, axes and lines of text come out.

use super::axes::{self, Stand, Ticks};
use super::cover::{self, Cover, has_names};
use super::font::{self, Weight};
use super::labels::MARGIN;
use super::legend::Legend;
use super::ruler::{self, Extent, Fit, Ruler};
use super::write::clean;
use super::{Area, EDGE, SMALL, WIDTH};
use crate::{Axis, Chart, Mark, Panel, Scale};

pub(super) const TITLE: f64 = 18.0;
pub(super) const SUBTITLE: f64 = 13.0;
pub(super) const NOTE: f64 = 11.0;
pub(super) const TITLE_LINE: f64 = 23.0;
pub(super) const SUBTITLE_LINE: f64 = 18.0;
pub(super) const NOTE_LINE: f64 = 15.0;
/// The height of a caption above its panel.
const CAPTION: f64 = 30.0;
/// Between two panels.
const BETWEEN: f64 = 16.0;

/// One panel at its place.
pub(super) struct Place {
    pub(super) area: Area,
    pub(super) ruler: Ruler,
    pub(super) ticks: Ticks,
    pub(super) cover: Cover,
}

/// Everything at its place.
pub(super) struct Layout {
    pub(super) title: Vec<String>,
    pub(super) subtitle: Vec<String>,
    pub(super) legend: Legend,
    /// Where the legend begins.
    pub(super) legend_top: f64,
    pub(super) panels: Vec<Place>,
    pub(super) x: Ruler,
    pub(super) x_ticks: Ticks,
    pub(super) stand: Stand,
    /// Where captions of panels begin.
    pub(super) captions: f64,
    /// Room for texts to the left of panels.
    pub(super) left: f64,
    /// Room for texts to the right of panels.
    pub(super) right: f64,
    /// Where notes begin.
    pub(super) foot: f64,
    /// Whether any panel has anything.
    pub(super) anything: bool,
}

/// How high a panel is: by its rows where it has some, by its share otherwise.
fn height(panel: &Panel, cover: &Cover, by_share: f64) -> f64 {
    let rows = match &panel.y.scale {
        _ if !cover.anything => return 70.0,
        Scale::Names { names } => names.len() as f64,
        Scale::Plain if cover.lanes > 0 && cover.lanes <= 24 => cover.lanes as f64,
        _ => return by_share,
    };
    let each = match rows {
        rows if rows <= 4.0 => 42.0,
        rows if rows <= 8.0 => 32.0,
        rows if rows <= 20.0 => 25.0,
        rows if rows <= 40.0 => 20.0,
        _ => 15.0,
    };
    // Several bars for each name have room side by side, with their texts.
    let bars = panel.marks.iter().filter(|mark| matches!(mark, Mark::Bars(_))).count() as f64;
    let texts = panel.marks.iter().any(|mark| matches!(mark, Mark::Bars(points) if !points.names.is_empty()));
    let each =
        if has_names(&panel.y) { f64::max(each, bars * if texts { 22.0 } else { 14.0 }) } else { f64::min(each, 24.0) };
    // 160 names are legible on a picture that high; of more, some are not written.
    (rows * each).clamp(70.0, 2400.0)
}

fn heights(chart: &Chart, covers: &[Cover]) -> Vec<f64> {
    let shares: Vec<f64> = chart
        .panels
        .iter()
        .map(|panel| if panel.share.is_finite() && panel.share > 0.0 { panel.share.clamp(1e-3, 1e3) } else { 1.0 })
        .collect();
    let sum: f64 = shares.iter().sum();
    let whole = 330.0 + 130.0 * (chart.panels.len().max(1) - 1) as f64;
    let by_share = shares.iter().map(|share| (whole * share / sum).max(60.0));
    chart
        .panels
        .iter()
        .zip(covers)
        .zip(by_share)
        .map(|((panel, cover), by_share)| height(panel, cover, by_share))
        .collect()
}

/// Where on the way along the axis the last of these values is that has a place.
fn last(ruler: &Ruler, values: &[f64]) -> f64 {
    values.iter().filter_map(|value| ruler.visible(*value)).fold(0.0, f64::max)
}

/// How much room labels need to the right of the panels. Of a plot about 650 pixels wide, some may be left.
fn right(chart: &Chart, ends: Extent) -> f64 {
    let parts = Ruler::new(&chart.x, ends, 0.0, 1.0);
    let mut most: f64 = 0.0;
    for panel in &chart.panels {
        for mark in &panel.marks {
            match mark {
                Mark::Line { label, x, .. } | Mark::Step { label, x, .. } if !clean(label).is_empty() => {
                    let width = font::width(&clean(label), SMALL, Weight::Strong).min(MARGIN);
                    let left = (1.0 - last(&parts, x)) * 600.0;
                    // Where it would not fit inside, or the end is at the edge.
                    if left < width + 12.0 {
                        most = most.max(width + 13.0);
                    }
                }
                Mark::Bars(points) if has_names(&panel.y) => {
                    for (index, name) in points.names.iter().enumerate().take(1000) {
                        let ends = [points.x.get(index), points.high.get(index)];
                        let ends: Vec<f64> = ends.into_iter().flatten().copied().collect();
                        let width = font::width(&clean(name), SMALL, Weight::Regular).min(MARGIN) + 8.0;
                        most = most.max(width - (1.0 - last(&parts, &ends)) * 450.0);
                    }
                }
                _ => {}
            }
        }
    }
    most
}

/// Ticks of the horizontal axis, as many as have room for their texts.
fn horizontal(axis: &Axis, ends: Extent, width: f64) -> Ticks {
    let ruler = Ruler::new(axis, ends, 0.0, width);
    let mut about = axes::about(width, 80.0);
    loop {
        let ticks = Ticks::new(axis, ends, about);
        let places: Vec<f64> = ticks.major.iter().filter_map(|(value, _)| ruler.visible(*value)).collect();
        let closest = places.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
        if about <= 2.0 || ticks.width() + 14.0 <= closest || !matches!(axis.scale, Scale::Linear { .. }) {
            return ticks;
        }
        about -= 1.0;
    }
}

impl Layout {
    pub(super) fn new(chart: &Chart) -> Self {
        let covers: Vec<Cover> = chart.panels.iter().map(|panel| cover::cover(panel, &chart.x)).collect();
        let anything = covers.iter().any(|cover| cover.anything);
        let room = WIDTH - 2.0 * EDGE;
        let title = font::wrap(&clean(&chart.title), room, TITLE, Weight::Strong, 2);
        let subtitle = font::wrap(&clean(&chart.subtitle), room, SUBTITLE, Weight::Regular, 2);
        let legend = if anything { Legend::new(chart) } else { Legend::default() };
        let legend_top = EDGE + title.len() as f64 * TITLE_LINE + subtitle.len() as f64 * SUBTITLE_LINE + 8.0;

        let mut covered = Extent::default();
        for cover in &covers {
            covered.join(cover.x);
        }
        let fit = if covers.iter().any(|cover| cover.dots) { Fit::Airy } else { Fit::Tight };
        let x_ends = ruler::ends(&chart.x, covered, fit);
        let mut right = right(chart, x_ends).max(10.0);

        // From top to bottom.
        let mut y = legend_top + legend.height();
        let mut panels = Vec::new();
        for ((panel, cover), height) in chart.panels.iter().zip(&covers).zip(heights(chart, &covers)) {
            // Decades are told apart when they are closer than even ticks.
            let about = axes::about(height, if panel.y.scale == Scale::Log { 34.0 } else { 50.0 });
            let fit = if panel.y.scale == Scale::Plain { Fit::Tight } else { Fit::Ticks(about) };
            let ends = ruler::ends(&panel.y, cover.y, fit);
            let ticks = Ticks::new(&panel.y, ends, about);
            y += if ticks.caption.is_empty() { 10.0 } else { CAPTION };
            let (from, to) = if cover::from_top(panel) { (y, y + height) } else { (y + height, y) };
            let area = Area { x: 0.0, y, width: 0.0, height };
            panels.push(Place { area, ruler: Ruler::new(&panel.y, ends, from, to), ticks, cover: *cover });
            y += height + BETWEEN;
        }
        y -= BETWEEN;

        // From left to right.
        let texts = panels.iter().map(|place| place.ticks.width()).fold(0.0, f64::max).min(230.0);
        let mut left = if texts > 0.0 { texts + 8.0 } else { 0.0 };
        let mut x_ticks = horizontal(&chart.x, x_ends, room - left - right);
        let mut stand = Stand::Level(f64::INFINITY);
        if has_names(&chart.x) {
            let slot = (room - left - right) / x_ticks.major.len().max(1) as f64;
            stand = Stand::new(x_ticks.width(), slot);
            if let Stand::Turned(widest) = stand {
                left = left.max(widest * axes::SLOPE.to_radians().cos() - slot / 2.0);
            }
        } else {
            let half = x_ticks.width() / 2.0;
            left = left.max(half - EDGE / 2.0);
            right = right.max(half - EDGE / 2.0);
            x_ticks = horizontal(&chart.x, x_ends, room - left - right);
        }
        let (start, width) = (EDGE + left, room - left - right);
        let captions = if texts > 0.0 { start - texts - 8.0 } else { start };
        for place in &mut panels {
            (place.area.x, place.area.width) = (start, width);
        }
        let x = Ruler::new(&chart.x, x_ends, start, start + width);
        let depth = if x_ticks.major.is_empty() { 4.0 } else { stand.depth() };
        let caption = if x_ticks.caption.is_empty() { 0.0 } else { 19.0 };
        let foot = if anything { y + depth + caption + 6.0 } else { legend_top + 150.0 };
        Self { title, subtitle, legend, legend_top, panels, x, x_ticks, stand, captions, left, right, foot, anything }
    }
}
