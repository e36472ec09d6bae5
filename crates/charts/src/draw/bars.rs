//! Bars from zero: along the axis that has numbers when the other has names, and upright otherwise.

use super::cover::half_gap;
use super::ink::Ink;
use super::labels::Beside;
use super::number::drawable;
use super::write::{Path, Svg, clean};
use super::{Area, View};
use crate::{Axis, Points, Scale};

/// Bars to draw.
pub(super) struct Bars<'a> {
    pub(super) points: &'a Points,
    /// The horizontal axis.
    pub(super) axis: &'a Axis,
    /// The number of this mark among those with bars, and how many there are: they stand side by side.
    pub(super) turn: (usize, usize),
}

/// Where a bar begins and how thick it is, along the axis of its place.
fn slot(view: &View, bars: &Bars<'_>, half: f64, place: f64) -> Option<(f64, f64)> {
    let (turn, turns) = (bars.turn.0 as f64, bars.turn.1.max(1) as f64);
    let (start, whole) = if view.across {
        let middle = view.y.visible(place)?;
        let whole = (view.y.pace() * 0.72).min(34.0 * turns);
        (middle - whole / 2.0, whole)
    } else if matches!(bars.axis.scale, Scale::Names { .. }) {
        let middle = view.x.visible(place)?;
        let whole = (view.x.pace() * 0.72).min(64.0 * turns);
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
            // A hair between bars, where there is room for one.
            let gap = if right - left > 4.0 { 1.0 } else { 0.0 };
            (left + gap / 2.0, right - left - gap)
        }
    };
    let gap = if turns > 1.0 && whole / turns > 6.0 { 1.0 } else { 0.0 };
    Some((start + turn * whole / turns, whole / turns - gap))
}

/// Draws bars; gives what is to be written at their ends.
pub(super) fn draw(svg: &mut Svg, view: &View, ink: &mut Ink, bars: &Bars<'_>) -> Vec<Beside> {
    let Points { x, y, low, high, names, hue, .. } = bars.points;
    let colour = hue.colour(view.theme);
    let mut beside = Vec::new();
    let mut whiskers = Path::default();
    let half = half_gap(bars.axis, x.iter().copied());
    svg.raw(&format!("<g fill=\"{colour}\">\n"));
    for (index, (x, y)) in x.iter().zip(y).enumerate() {
        let (place, value, ruler) = if view.across { (*y, *x, &view.x) } else { (*x, *y, &view.y) };
        let Some((start, thickness)) = slot(view, bars, half, place) else { continue };
        // A place between two names may be at the very edge.
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
        // Beyond zero where the bar goes to the other side: there nothing is in the way.
        let mut reach = if view.across { end.max(foot) } else { end.min(foot) };
        if let Some((low, high)) =
            low.get(index).zip(high.get(index)).filter(|(low, high)| drawable(**low) && drawable(**high))
        {
            let (low, high) = (ruler.clamped(*low), ruler.clamped(*high));
            let turned = |along: f64| if view.across { (along, middle) } else { (middle, along) };
            whiskers.start(turned(low));
            whiskers.line(turned(high));
            reach = if view.across { reach.max(low).max(high) } else { reach.min(low).min(high) };
        }
        if let Some(name) = names.get(index).map(|name| clean(name)).filter(|name| !name.is_empty()) {
            let place = if view.across { (reach, middle) } else { (middle, reach) };
            beside.push(Beside { place, room: if view.across { f64::INFINITY } else { thickness + 12.0 }, text: name });
        }
    }
    svg.raw("</g>\n");
    svg.path(
        &whiskers,
        &format!("fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" stroke-opacity=\"0.8\"", view.theme.paper().text),
    );
    beside
}
