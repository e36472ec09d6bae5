//! Draws points as circles with whiskers.
//!
//! With more than [`MAX`] points, nearby points share a dot, which is darker the more points it represents. A picture
//! of 100,000 points stays small.

use std::collections::HashMap;

use super::View;
use super::ink::Ink;
use super::labels::PointLabel;
use super::number::drawable;
use super::write::{Path, Svg, clean};
use crate::Points;

/// With more points, nearby points share a dot.
pub(super) const MAX: usize = 3000;

/// With more whiskers, none are drawn: they would hide the dots.
const MAX_WHISKERS: usize = 1000;

/// The radius and the opacity of dots, by their number in a panel.
fn dot_style(count: usize) -> (f64, f64) {
    let radius = match count {
        0..=40 => 4.0,
        41..=300 => 3.2,
        301..=1000 => 2.6,
        _ => 2.0,
    };
    // 0.9 for 20 and fewer, 0.45 for 3,000.
    let opacity = (0.9 - 0.207 * ((count.max(1) as f64).log10() - 1.3)).clamp(0.3, 0.9);
    (radius, opacity)
}

/// Points to draw.
pub(super) struct Dots<'a> {
    pub(super) points: &'a Points,
    /// The number of dots in the whole panel.
    pub(super) total: usize,
    /// The shift along the axis of names, so that the dots of several marks do not hide each other.
    pub(super) shift: f64,
}

/// The result of drawing points.
#[derive(Debug, Default)]
pub(super) struct DrawnPoints {
    /// The labels, to be written when all marks are drawn.
    pub(super) labels: Vec<PointLabel>,
    /// The number of intervals not drawn.
    pub(super) omitted_whiskers: usize,
}

struct Dot {
    place: (f64, f64),
    whisker: Option<((f64, f64), (f64, f64))>,
    name: Option<String>,
}

fn dots(view: &View, dots: &Dots<'_>) -> Vec<Dot> {
    let Points { x, y, low, high, names, .. } = dots.points;
    let (right, down) = if view.across { (0.0, dots.shift) } else { (dots.shift, 0.0) };
    let ruler = if view.across { &view.x } else { &view.y };
    let mut out = Vec::new();
    for (index, (x, y)) in x.iter().zip(y).enumerate() {
        let (Some(x), Some(y)) = (view.x.visible(*x), view.y.visible(*y)) else { continue };
        let (x, y) = (x + right, y + down);
        let ends = low.get(index).zip(high.get(index)).filter(|(low, high)| drawable(**low) && drawable(**high));
        let whisker = ends
            .map(|(low, high)| (ruler.clamped(*low), ruler.clamped(*high)))
            .map(|(low, high)| if view.across { ((low, y), (high, y)) } else { ((x, low), (x, high)) });
        let name = names.get(index).map(|name| clean(name)).filter(|name| !name.is_empty());
        out.push(Dot { place: (x, y), whisker, name });
    }
    out
}

pub(super) fn draw(svg: &mut Svg, view: &View, ink: &mut Ink, mark: &Dots<'_>) -> DrawnPoints {
    let dots = dots(view, mark);
    let colour = mark.points.hue.colour(view.theme);
    let (radius, opacity) = dot_style(mark.total);
    let mut drawn = DrawnPoints::default();
    for dot in &dots {
        ink.dot(dot.place, radius);
    }
    let whiskers = dots.iter().filter(|dot| dot.whisker.is_some()).count();
    if whiskers > MAX_WHISKERS {
        drawn.omitted_whiskers = whiskers;
    } else {
        let mut path = Path::default();
        for (from, to) in dots.iter().filter_map(|dot| dot.whisker) {
            path.start(from);
            path.line(to);
            ink.stroke(from, to);
        }
        let opacity = if whiskers <= 60 { 0.75 } else { 0.35 };
        svg.path(
            &path,
            &format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" stroke-opacity=\"{opacity}\""),
        );
    }
    if dots.len() > MAX {
        draw_crowd(svg, &dots, colour);
    } else if !dots.is_empty() {
        // An outline in the background colour separates neighbouring dots, if there are few.
        let outline = if mark.total <= 300 {
            format!(" stroke=\"{}\" stroke-width=\"0.8\"", view.theme.paper().background)
        } else {
            String::new()
        };
        svg.raw(&format!("<g fill=\"{colour}\" fill-opacity=\"{opacity:.2}\"{outline}>\n"));
        for dot in &dots {
            svg.circle(dot.place, radius, "");
        }
        svg.raw("</g>\n");
    }
    let hue = mark.points.hue;
    drawn.labels = dots
        .into_iter()
        .filter_map(|dot| Some(PointLabel { place: dot.place, radius, text: dot.name?, hue }))
        .collect();
    drawn
}

/// Points in a square of this size share a dot.
const NEAR: f64 = 2.0;

/// Draws shared dots in five shades: for 1 point, 2 or 3, 4 to 7, 8 to 15, and more.
fn draw_crowd(svg: &mut Svg, dots: &[Dot], colour: &str) {
    let mut squares: HashMap<(i64, i64), usize> = HashMap::new();
    let mut kept: Vec<((f64, f64), usize)> = Vec::new();
    for dot in dots {
        #[expect(clippy::cast_possible_truncation, reason = "pixels inside a panel")]
        let square = ((dot.place.0 / NEAR).floor() as i64, (dot.place.1 / NEAR).floor() as i64);
        let index = *squares.entry(square).or_insert_with(|| {
            kept.push((dot.place, 0));
            kept.len() - 1
        });
        kept[index].1 += 1;
        if kept[index].1 == 2 {
            // A shared dot is in the middle of its square, so that many dots make an even area.
            kept[index].0 = ((square.0 as f64 + 0.5) * NEAR, (square.1 as f64 + 0.5) * NEAR);
        }
    }
    for (shade, opacity) in [0.3, 0.45, 0.62, 0.8, 1.0].into_iter().enumerate() {
        let mut path = Path::default();
        for (place, count) in &kept {
            if (count.ilog2() as usize).min(4) == shade {
                path.dot(*place);
            }
        }
        svg.path(
            &path,
            &format!(
                "fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.6\" stroke-linecap=\"round\" stroke-opacity=\"{opacity}\""
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_dots_are_smaller_and_paler() {
        assert_eq!(dot_style(1), (4.0, 0.9));
        let (small, pale) = dot_style(2900);
        assert!(small < 3.0 && pale < 0.5);
        assert!(dot_style(0).1 <= 0.9);
    }

    #[test]
    fn nearby_points_share_dots_and_none_is_lost() {
        let mut svg = Svg::default();
        let dots: Vec<Dot> = (0..40u32)
            .map(|n| Dot { place: (f64::from(n % 4) * 10.0, 0.0), whisker: None, name: None })
            .chain([Dot { place: (99.0, 99.0), whisker: None, name: None }])
            .collect();
        draw_crowd(&mut svg, &dots, "#000000");
        let out = svg.finish();
        assert_eq!(out.matches('M').count(), 5);
        assert!(out.contains("M99 99"));
        assert_eq!(out.matches("<path").count(), 2);
    }
}
