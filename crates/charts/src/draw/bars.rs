//! Draws bars from zero: horizontal if the vertical axis has names, otherwise vertical.

use super::coverage::half_gap;
use super::ink::Ink;
use super::labels::BarLabel;
use super::number::drawable;
use super::write::{Path, Svg, clean};
use super::{Area, View};
use crate::{Axis, Points, Scale};

/// Bars to draw.
pub(super) struct Bars<'a> {
    pub(super) points: &'a Points,
    /// The horizontal axis.
    pub(super) axis: &'a Axis,
    /// The index of this mark among the marks with bars, and their number. Bars of several marks are side by side.
    pub(super) position: (usize, usize),
}

/// The start and the thickness of a bar in pixels.
fn slot(view: &View, bars: &Bars<'_>, half: f64, place: f64) -> Option<(f64, f64)> {
    let (index, count) = (bars.position.0 as f64, bars.position.1.max(1) as f64);
    let (start, whole) = if view.across {
        let middle = view.y.visible(place)?;
        let whole = (view.y.pace() * 0.72).min(34.0 * count);
        (middle - whole / 2.0, whole)
    } else if matches!(bars.axis.scale, Scale::Names { .. }) {
        let middle = view.x.visible(place)?;
        let whole = (view.x.pace() * 0.72).min(64.0 * count);
        (middle - whole / 2.0, whole)
    } else {
        let ends =
            if bars.axis.scale == Scale::Log { (place / half, place * half) } else { (place - half, place + half) };
        view.x.place(place)?;
        let (left, right) = (view.x.clamped(ends.0), view.x.clamped(ends.1));
        if right - left < 0.5 {
            let middle = view.x.visible(place)?;
            (middle - 8.0, 16.0)
        } else {
            // A gap of one pixel between bars, if there is space.
            let gap = if right - left > 4.0 { 1.0 } else { 0.0 };
            (left + gap / 2.0, right - left - gap)
        }
    };
    let gap = if count > 1.0 && whole / count > 6.0 { 1.0 } else { 0.0 };
    Some((start + index * whole / count, whole / count - gap))
}

/// Draws bars and returns their labels.
pub(super) fn draw(svg: &mut Svg, view: &View, ink: &mut Ink, bars: &Bars<'_>) -> Vec<BarLabel> {
    let Points { x, y, low, high, names, hue, .. } = bars.points;
    let colour = hue.colour(view.theme);
    let mut labels = Vec::new();
    let mut whiskers = Path::default();
    let half = half_gap(bars.axis, x.iter().copied());
    svg.raw(&format!("<g fill=\"{colour}\">\n"));
    for (index, (x, y)) in x.iter().zip(y).enumerate() {
        let (place, value, ruler) = if view.across { (*y, *x, &view.x) } else { (*x, *y, &view.y) };
        let Some((start, thickness)) = slot(view, bars, half, place) else { continue };
        // A bar between two names may reach beyond the panel.
        let (first, last) = if view.across {
            (view.area.y, view.area.y + view.area.height)
        } else {
            (view.area.x, view.area.x + view.area.width)
        };
        let (start, end) = (start.clamp(first, last), (start + thickness).clamp(first, last));
        let thickness = end - start;
        if ruler.place(value).is_none() {
            continue;
        }
        let (foot, end) = (ruler.clamped(0.0), ruler.clamped(value));
        let (from, length) = (foot.min(end), (foot - end).abs());
        let area = if view.across {
            Area { x: from, y: start, width: length, height: thickness }
        } else {
            Area { x: start, y: from, width: thickness, height: length }
        };
        svg.rect(area, if thickness > 10.0 && length > 4.0 { 2.0 } else { 0.0 }, "");
        ink.fill(area);
        let middle = start + thickness / 2.0;
        // The label of a negative bar is on the positive side of zero, where nothing is in the way.
        let mut reach = if view.across { end.max(foot) } else { end.min(foot) };
        if let Some((low, high)) =
            low.get(index).zip(high.get(index)).filter(|(low, high)| drawable(**low) && drawable(**high))
        {
            let (low, high) = (ruler.clamped(*low), ruler.clamped(*high));
            let point = |along: f64| if view.across { (along, middle) } else { (middle, along) };
            whiskers.start(point(low));
            whiskers.line(point(high));
            reach = if view.across { reach.max(low).max(high) } else { reach.min(low).min(high) };
        }
        if let Some(name) = names.get(index).map(|name| clean(name)).filter(|name| !name.is_empty()) {
            let place = if view.across { (reach, middle) } else { (middle, reach) };
            labels.push(BarLabel {
                place,
                room: if view.across { f64::INFINITY } else { thickness + 12.0 },
                text: name,
            });
        }
    }
    svg.raw("</g>\n");
    svg.path(
        &whiskers,
        &format!("fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" stroke-opacity=\"0.8\"", view.theme.paper().text),
    );
    labels
}
