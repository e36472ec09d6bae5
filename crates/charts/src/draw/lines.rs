//! Draws lines, steps and bands as paths clipped to the panel.
//!
//! A value that is not finite breaks a line. If there are more points than pixels, each column of pixels keeps its
//! first, lowest, highest and last point, which gives the same picture.

use super::ink::Ink;
use super::write::{Path, Svg};
use super::{Area, View};
use crate::{Hue, Stroke};

type Point = (f64, f64);

/// How a line connects two points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interpolation {
    Straight,
    /// Horizontal until the next point.
    Steps,
}

/// A line to draw.
pub(super) struct Line<'a> {
    pub(super) x: &'a [f64],
    pub(super) y: &'a [f64],
    pub(super) interpolation: Interpolation,
    pub(super) stroke: Stroke,
    pub(super) hue: Hue,
}

/// The indices of drawable points and their pixels, sorted by x.
fn sorted_by_x(view: &View, x: &[f64], length: usize) -> Vec<(usize, f64)> {
    let mut order: Vec<(usize, f64)> =
        x.iter().take(length).enumerate().filter_map(|(index, x)| Some((index, view.x.place(*x)?))).collect();
    order.sort_by(|one, other| one.1.total_cmp(&other.1));
    order
}

/// The unbroken parts of a line.
fn runs(view: &View, line: &Line<'_>) -> Vec<Vec<Point>> {
    let mut runs = vec![Vec::new()];
    for (index, x) in sorted_by_x(view, line.x, line.x.len().min(line.y.len())) {
        match (view.y.place(line.y[index]), runs.last_mut()) {
            (Some(y), Some(run)) => run.push((x, y)),
            _ => runs.push(Vec::new()),
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

/// Parts of a line with more points are thinned.
const MAX: usize = 2000;

fn thin(run: Vec<Point>) -> Vec<Point> {
    if run.len() <= MAX {
        return run;
    }
    let mut out = Vec::new();
    for column in run.chunk_by(|one, other| one.0.floor() == other.0.floor()) {
        let lowest = (0..column.len()).min_by(|one, other| column[*one].1.total_cmp(&column[*other].1));
        let highest = (0..column.len()).max_by(|one, other| column[*one].1.total_cmp(&column[*other].1));
        let mut kept: Vec<usize> = [Some(0), lowest, highest, Some(column.len() - 1)].into_iter().flatten().collect();
        kept.sort_unstable();
        kept.dedup();
        out.extend(kept.into_iter().map(|index| column[index]));
    }
    out
}

fn with_steps(run: &[Point]) -> Vec<Point> {
    let mut out = Vec::with_capacity(run.len() * 2);
    for pair in run.windows(2) {
        out.push(pair[0]);
        out.push((pair[1].0, pair[0].1));
    }
    out.extend(run.last());
    out
}

/// Clips a straight line to an area (Liang and Barsky, 1984).
fn clip_line(from: Point, to: Point, area: Area) -> Option<(Point, Point)> {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let (mut start, mut end) = (0f64, 1f64);
    for (slope, room) in [
        (-dx, from.0 - area.x),
        (dx, area.x + area.width - from.0),
        (-dy, from.1 - area.y),
        (dy, area.y + area.height - from.1),
    ] {
        if slope == 0.0 {
            if room < 0.0 {
                return None;
            }
        } else if slope < 0.0 {
            start = start.max(room / slope);
        } else {
            end = end.min(room / slope);
        }
    }
    let at = |part: f64| (from.0 + part * dx, from.1 + part * dy);
    (start <= end).then(|| (at(start), at(end)))
}

/// Draws a line and returns its last visible point.
pub(super) fn line(svg: &mut Svg, view: &View, ink: &mut Ink, line: &Line<'_>) -> Option<Point> {
    // Half the width of the line, so that a line along the edge is not cut.
    let area = view.area.grown(1.0);
    let (mut path, mut end) = (Path::default(), None);
    for run in runs(view, line) {
        let run = thin(run);
        let run = if line.interpolation == Interpolation::Steps { with_steps(&run) } else { run };
        if let [only] = run[..] {
            if area.holds(only) {
                path.dot(only);
                end = Some(only);
            }
            continue;
        }
        let mut pen = None;
        for pair in run.windows(2) {
            let Some((from, to)) = clip_line(pair[0], pair[1], area) else { continue };
            if pen != Some(from) {
                path.start(from);
            }
            path.line(to);
            ink.stroke(from, to);
            pen = Some(to);
            end = Some(to);
        }
    }
    let (width, dashes) = match line.stroke {
        // A dense line needs a thin stroke, or it becomes a blot.
        Stroke::Solid if line.x.len() > 1500 => ("1", ""),
        Stroke::Solid if line.x.len() > 400 => ("1.4", ""),
        Stroke::Solid => ("2", ""),
        Stroke::Dashed => ("1.8", " stroke-dasharray=\"7 5\""),
        Stroke::Dotted => ("2", " stroke-dasharray=\"0.1 4.5\""),
    };
    let colour = line.hue.colour(view.theme);
    svg.path(
        &path,
        &format!(
            "fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-linejoin=\"round\" stroke-linecap=\"round\"{dashes}"
        ),
    );
    end
}

/// Clips a polygon to one side of a straight line (Sutherland and Hodgman, 1974).
fn clip_polygon(polygon: &[Point], distance: impl Fn(Point) -> f64) -> Vec<Point> {
    let mut out = Vec::with_capacity(polygon.len());
    for (index, to) in polygon.iter().copied().enumerate() {
        let from = polygon[(index + polygon.len() - 1) % polygon.len()];
        let (before, after) = (distance(from), distance(to));
        if (before < 0.0) != (after < 0.0) {
            let part = before / (before - after);
            out.push((from.0 + part * (to.0 - from.0), from.1 + part * (to.1 - from.1)));
        }
        if after >= 0.0 {
            out.push(to);
        }
    }
    out
}

/// The area between two lines.
pub(super) struct Band<'a> {
    pub(super) x: &'a [f64],
    pub(super) low: &'a [f64],
    pub(super) high: &'a [f64],
    pub(super) hue: Hue,
}

pub(super) fn band(svg: &mut Svg, view: &View, band: &Band<'_>) {
    let length = band.x.len().min(band.low.len()).min(band.high.len());
    let mut runs: Vec<Vec<(f64, f64, f64)>> = vec![Vec::new()];
    for (index, x) in sorted_by_x(view, band.x, length) {
        let low = band.low[index];
        // The area below a line on a logarithmic axis starts at the bottom.
        let foot = if view.y.is_logarithmic() && low <= 0.0 { Some(view.y.clamped(low)) } else { view.y.place(low) };
        match (foot, view.y.place(band.high[index]), runs.last_mut()) {
            (Some(low), Some(high), Some(run)) => run.push((x, low, high)),
            _ => runs.push(Vec::new()),
        }
    }
    let mut path = Path::default();
    for mut run in runs.into_iter().filter(|run| !run.is_empty()) {
        if run.len() > MAX {
            run = run
                .chunk_by(|one, other| one.0.floor() == other.0.floor())
                .map(|column| {
                    let low = column.iter().map(|place| place.1).fold(f64::NEG_INFINITY, f64::max);
                    let high = column.iter().map(|place| place.2).fold(f64::INFINITY, f64::min);
                    (column[0].0, low, high)
                })
                .collect();
        }
        if let [(x, low, high)] = run[..] {
            run = vec![(x - 1.5, low, high), (x + 1.5, low, high)];
        }
        let there = run.iter().map(|place| (place.0, place.2));
        let back = run.iter().rev().map(|place| (place.0, place.1));
        let area = view.area;
        let mut polygon: Vec<Point> = there.chain(back).collect();
        polygon = clip_polygon(&polygon, |place| place.0 - area.x);
        polygon = clip_polygon(&polygon, |place| area.x + area.width - place.0);
        polygon = clip_polygon(&polygon, |place| place.1 - area.y);
        polygon = clip_polygon(&polygon, |place| area.y + area.height - place.1);
        let Some((first, rest)) = polygon.split_first() else { continue };
        path.start(*first);
        for place in rest {
            path.line(*place);
        }
        path.close();
    }
    svg.path(&path, &format!("fill=\"{}\" fill-opacity=\"0.18\"", band.hue.colour(view.theme)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const AREA: Area = Area { x: 0.0, y: 0.0, width: 100.0, height: 100.0 };

    #[test]
    fn a_line_is_clipped_to_the_panel() {
        assert_eq!(clip_line((50.0, 50.0), (50.0, 200.0), AREA), Some(((50.0, 50.0), (50.0, 100.0))));
        assert_eq!(clip_line((-50.0, 50.0), (150.0, 50.0), AREA), Some(((0.0, 50.0), (100.0, 50.0))));
        assert_eq!(clip_line((-50.0, -50.0), (-10.0, 200.0), AREA), None);
        assert_eq!(clip_line((0.0, 1e9), (100.0, 2e9), AREA), None);
    }

    #[test]
    fn thinning_keeps_the_extremes_of_each_column() {
        let run: Vec<Point> = (0..10_000u32).map(|n| (f64::from(n) / 100.0, f64::from(n * 7919 % 1000))).collect();
        let thinned = thin(run.clone());
        assert!(thinned.len() <= 400);
        let most = |run: &[Point]| run.iter().map(|place| place.1).fold(0.0, f64::max);
        assert_eq!(most(&thinned), most(&run));
        assert_eq!((thinned.first(), thinned.last()), (run.first(), run.last()));
    }

    #[test]
    fn steps_keep_their_value_until_the_next_point() {
        assert_eq!(with_steps(&[(0.0, 1.0), (2.0, 3.0)]), [(0.0, 1.0), (2.0, 1.0), (2.0, 3.0)]);
    }

    #[test]
    fn polygons_are_clipped() {
        let square = [(-10.0, 10.0), (10.0, 10.0), (10.0, 20.0), (-10.0, 20.0)];
        assert_eq!(clip_polygon(&square, |place| place.0), [(0.0, 10.0), (10.0, 10.0), (10.0, 20.0), (0.0, 20.0)]);
        assert!(clip_polygon(&square, |place| place.0 - 50.0).is_empty());
    }
}
