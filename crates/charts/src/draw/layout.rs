//! Computes the layout of a chart: the areas and axes of its panels, and the lines of text around them.

use super::axes::{self, LabelOrientation, Ticks};
use super::coverage::{self, Coverage, has_names};
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
/// The gap between two panels.
const BETWEEN: f64 = 16.0;

/// The layout of one panel.
pub(super) struct PanelLayout {
    pub(super) area: Area,
    pub(super) ruler: Ruler,
    pub(super) ticks: Ticks,
    pub(super) coverage: Coverage,
}

/// The layout of a chart.
pub(super) struct Layout {
    pub(super) title: Vec<String>,
    pub(super) subtitle: Vec<String>,
    pub(super) legend: Legend,
    /// The y of the top of the legend.
    pub(super) legend_top: f64,
    pub(super) panels: Vec<PanelLayout>,
    pub(super) x: Ruler,
    pub(super) x_ticks: Ticks,
    pub(super) orientation: LabelOrientation,
    /// The x of the captions of panels.
    pub(super) captions: f64,
    /// The space for texts to the left of panels.
    pub(super) left: f64,
    /// The space for texts to the right of panels.
    pub(super) right: f64,
    /// The y of the top of the notes.
    pub(super) foot: f64,
    /// Whether any panel has data.
    pub(super) anything: bool,
}

/// The height of a panel: by the number of its rows if it has any, otherwise by its share.
fn height(panel: &Panel, coverage: &Coverage, by_share: f64) -> f64 {
    let rows = match &panel.y.scale {
        _ if !coverage.anything => return 70.0,
        Scale::Names { names } => names.len() as f64,
        Scale::Plain if coverage.lanes > 0 && coverage.lanes <= 24 => coverage.lanes as f64,
        _ => return by_share,
    };
    let each = match rows {
        rows if rows <= 4.0 => 42.0,
        rows if rows <= 8.0 => 32.0,
        rows if rows <= 20.0 => 25.0,
        rows if rows <= 40.0 => 20.0,
        _ => 15.0,
    };
    // Several bars per name need space side by side, with their labels.
    let bars = panel.marks.iter().filter(|mark| matches!(mark, Mark::Bars(_))).count() as f64;
    let texts = panel.marks.iter().any(|mark| matches!(mark, Mark::Bars(points) if !points.names.is_empty()));
    let each =
        if has_names(&panel.y) { f64::max(each, bars * if texts { 22.0 } else { 14.0 }) } else { f64::min(each, 24.0) };
    // 160 names are legible at this height; with more, some are omitted.
    (rows * each).clamp(70.0, 2400.0)
}

fn heights(chart: &Chart, coverages: &[Coverage]) -> Vec<f64> {
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
        .zip(coverages)
        .zip(by_share)
        .map(|((panel, coverage), by_share)| height(panel, coverage, by_share))
        .collect()
}

/// The position of the last visible value, as a fraction of the axis.
fn last(ruler: &Ruler, values: &[f64]) -> f64 {
    values.iter().filter_map(|value| ruler.visible(*value)).fold(0.0, f64::max)
}

/// The space that labels need to the right of the panels. It assumes a plot about 650 pixels wide.
fn right(chart: &Chart, ends: Extent) -> f64 {
    let parts = Ruler::new(&chart.x, ends, 0.0, 1.0);
    let mut most: f64 = 0.0;
    for panel in &chart.panels {
        for mark in &panel.marks {
            match mark {
                Mark::Line { label, x, .. } | Mark::Step { label, x, .. } if !clean(label).is_empty() => {
                    let width = font::width(&clean(label), SMALL, Weight::Strong).min(MARGIN);
                    let left = (1.0 - last(&parts, x)) * 600.0;
                    // The label does not fit inside the panel.
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

/// The ticks of the horizontal axis, as many as there is space for their labels.
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
        let coverages: Vec<Coverage> = chart.panels.iter().map(|panel| coverage::measure(panel, &chart.x)).collect();
        let anything = coverages.iter().any(|coverage| coverage.anything);
        let room = WIDTH - 2.0 * EDGE;
        let title = font::wrap(&clean(&chart.title), room, TITLE, Weight::Strong, 2);
        let subtitle = font::wrap(&clean(&chart.subtitle), room, SUBTITLE, Weight::Regular, 2);
        let legend = if anything { Legend::new(chart) } else { Legend::default() };
        let legend_top = EDGE + title.len() as f64 * TITLE_LINE + subtitle.len() as f64 * SUBTITLE_LINE + 8.0;

        let mut covered = Extent::default();
        for coverage in &coverages {
            covered.join(coverage.x);
        }
        let fit = if coverages.iter().any(|coverage| coverage.dots) { Fit::Airy } else { Fit::Tight };
        let x_ends = ruler::ends(&chart.x, covered, fit);
        let mut right = right(chart, x_ends).max(10.0);

        // From top to bottom.
        let mut y = legend_top + legend.height();
        let mut panels = Vec::new();
        for ((panel, coverage), height) in chart.panels.iter().zip(&coverages).zip(heights(chart, &coverages)) {
            // Logarithmic ticks can be closer together than linear ones.
            let about = axes::about(height, if panel.y.scale == Scale::Log { 34.0 } else { 50.0 });
            let fit = if panel.y.scale == Scale::Plain { Fit::Tight } else { Fit::Ticks(about) };
            let ends = ruler::ends(&panel.y, coverage.y, fit);
            let ticks = Ticks::new(&panel.y, ends, about);
            y += if ticks.caption.is_empty() { 10.0 } else { CAPTION };
            let (from, to) = if coverage::from_top(panel) { (y, y + height) } else { (y + height, y) };
            let area = Area { x: 0.0, y, width: 0.0, height };
            panels.push(PanelLayout { area, ruler: Ruler::new(&panel.y, ends, from, to), ticks, coverage: *coverage });
            y += height + BETWEEN;
        }
        y -= BETWEEN;

        // From left to right.
        let texts = panels.iter().map(|place| place.ticks.width()).fold(0.0, f64::max).min(230.0);
        let mut left = if texts > 0.0 { texts + 8.0 } else { 0.0 };
        let mut x_ticks = horizontal(&chart.x, x_ends, room - left - right);
        let mut orientation = LabelOrientation::Level(f64::INFINITY);
        if has_names(&chart.x) {
            let slot = (room - left - right) / x_ticks.major.len().max(1) as f64;
            orientation = LabelOrientation::new(x_ticks.width(), slot);
            if let LabelOrientation::Turned(widest) = orientation {
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
        let depth = if x_ticks.major.is_empty() { 4.0 } else { orientation.depth() };
        let caption = if x_ticks.caption.is_empty() { 0.0 } else { 19.0 };
        let foot = if anything { y + depth + caption + 6.0 } else { legend_top + 150.0 };
        Self {
            title,
            subtitle,
            legend,
            legend_top,
            panels,
            x,
            x_ticks,
            orientation,
            captions,
            left,
            right,
            foot,
            anything,
        }
    }
}
