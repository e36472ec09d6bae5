//! Dots: points go in, circles with whiskers come out.
//!
//! Above [`MOST`] points none is left out either: those closer than the eye tells apart share a dot, and the more there
//! are the darker it is. So a picture of 100,000 stays small.

use std::collections::HashMap;

use super::View;
use super::ink::Ink;
use super::labels::Named;
use super::number::drawable;
use super::write::{Path, Svg, clean};
use crate::Points;

/// Above so many, near points share a dot.
pub(super) const MOST: usize = 3000;

/// Above so many, whiskers would cover the dots.
const MOST_WHISKERS: usize = 1000;

/// How dots look when there are so many in a panel.
fn look(count: usize) -> (f64, f64) {
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
    /// How many dots there are in the whole panel.
    pub(super) together: usize,
    /// How far they are moved along the axis of names, so that those of several marks do not hide one another.
    pub(super) aside: f64,
}

/// What became of points.
#[derive(Debug, Default)]
pub(super) struct Drawn {
    /// Their names, to be written when everything is drawn.
    pub(super) named: Vec<Named>,
    /// Intervals that were left out.
    pub(super) without_whiskers: usize,
}

struct Dot {
    place: (f64, f64),
    whisker: Option<((f64, f64), (f64, f64))>,
    name: Option<String>,
}

fn dots(view: &View, dots: &Dots<'_>) -> Vec<Dot> {
    let Points { x, y, low, high, names, .. } = dots.points;
    let (right, down) = if view.across { (0.0, dots.aside) } else { (dots.aside, 0.0) };
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

pub(super) fn draw(svg: &mut Svg, view: &View, ink: &mut Ink, mark: &Dots<'_>) -> Drawn {
    let dots = dots(view, mark);
    let colour = mark.points.hue.colour(view.theme);
    let (radius, opacity) = look(mark.together);
    let mut drawn = Drawn::default();
    for dot in &dots {
        ink.dot(dot.place, radius);
    }
    let whiskers = dots.iter().filter(|dot| dot.whisker.is_some()).count();
    if whiskers > MOST_WHISKERS {
        drawn.without_whiskers = whiskers;
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
    if dots.len() > MOST {
        crowd(svg, &dots, colour);
    } else if !dots.is_empty() {
        // A rim in the colour of the paper keeps neighbours apart while there are few.
        let rim = if mark.together <= 300 {
            format!(" stroke=\"{}\" stroke-width=\"0.8\"", view.theme.paper().background)
        } else {
            String::new()
        };
        svg.raw(&format!("<g fill=\"{colour}\" fill-opacity=\"{opacity:.2}\"{rim}>\n"));
        for dot in &dots {
            svg.circle(dot.place, radius, "");
        }
        svg.raw("</g>\n");
    }
    let hue = mark.points.hue;
    drawn.named =
        dots.into_iter().filter_map(|dot| Some(Named { place: dot.place, radius, text: dot.name?, hue })).collect();
    drawn
}

/// The side of a square whose points share a dot.
const NEAR: f64 = 2.0;

/// Dots of five shades: for one point, two and more, four and more …
fn crowd(svg: &mut Svg, dots: &[Dot], colour: &str) {
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
            // Several stand in the middle of their square, so that a crowd is an even area.
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
        assert_eq!(look(1), (4.0, 0.9));
        let (small, pale) = look(2900);
        assert!(small < 3.0 && pale < 0.5);
        assert!(look(0).1 <= 0.9);
    }

    #[test]
    fn a_crowd_shares_dots_and_none_is_lost() {
        let mut svg = Svg::default();
        let dots: Vec<Dot> = (0..40u32)
            .map(|n| Dot { place: (f64::from(n % 4) * 10.0, 0.0), whisker: None, name: None })
            .chain([Dot { place: (99.0, 99.0), whisker: None, name: None }])
            .collect();
        crowd(&mut svg, &dots, "#000000");
        let out = svg.finish();
        assert_eq!(out.matches('M').count(), 5);
        assert!(out.contains("M99 99"));
        assert_eq!(out.matches("<path").count(), 2);
    }
}
