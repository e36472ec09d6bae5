//! Draws axes: ticks with their labels, captions and grid lines.

use super::font::{self, Weight};
use super::number::{Style, exponent, whole};
use super::ruler::{Extent, Ruler};
use super::ticks;
use super::unit::Unit;
use super::write::{Anchor, Svg, Text, clean};
use super::{Area, SMALL};
use crate::palette::Paper;
use crate::{Axis, Scale};

/// The ticks and the caption of an axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Ticks {
    /// Ticks with a label: value and text.
    pub(super) major: Vec<(f64, String)>,
    /// Ticks without a label.
    pub(super) minor: Vec<f64>,
    /// The label of the axis and its unit.
    pub(super) caption: String,
}

impl Ticks {
    /// Chooses about this many ticks between the ends.
    pub(super) fn new(axis: &Axis, ends: Extent, about: f64) -> Self {
        match &axis.scale {
            Scale::Plain => Self { caption: caption(axis, &axis.unit), ..Self::default() },
            Scale::Names { names } => {
                let major = names.iter().enumerate().map(|(place, name)| (place as f64, clean(name))).collect();
                Self { major, minor: Vec::new(), caption: caption(axis, &axis.unit) }
            }
            Scale::Linear { .. } => linear(axis, ends, about),
            Scale::Log => logarithmic(axis, ends, about),
        }
    }

    /// The width of the widest label.
    pub(super) fn width(&self) -> f64 {
        self.major.iter().map(|(_, text)| font::width(text, SMALL, Weight::Regular)).fold(0.0, f64::max)
    }
}

fn caption(axis: &Axis, unit: &str) -> String {
    let (label, unit) = (clean(&axis.label), clean(unit));
    match (label.is_empty(), unit.is_empty()) {
        (false, false) => format!("{label}, {unit}"),
        (true, _) => unit,
        (_, true) => label,
    }
}

fn linear(axis: &Axis, ends: Extent, about: f64) -> Ticks {
    let step = ticks::step(ends.low, ends.high, about);
    let values = ticks::multiples(ends.low, ends.high, step);
    let largest = values.iter().fold(0f64, |most, value| most.max(value.abs()));
    let unit = Unit::for_amount(&axis.unit, largest);
    let style = Style::new(unit.scaled(step), unit.scaled(largest));
    let major = values.into_iter().map(|value| (value, style.write(unit.scaled(value)))).collect();
    Ticks { major, minor: Vec::new(), caption: caption(axis, &unit.name) }
}

fn logarithmic(axis: &Axis, ends: Extent, about: f64) -> Ticks {
    let ticks = ticks::logarithmic(ends.low, ends.high, about);
    let step = ticks.major.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    let texts = |unit: &Unit| -> Vec<(f64, String)> {
        let text = |value: f64| {
            let power = 10f64.powi(exponent(value));
            let digit = value / power;
            let step = if (digit - digit.round()).abs() < 1e-9 || !step.is_finite() { power } else { step };
            Style::new(unit.scaled(step), unit.scaled(value)).write(unit.scaled(value))
        };
        ticks.major.iter().map(|value| (*value, text(*value))).collect()
    };
    // The unit with the shortest labels: 0.1, 1, 10 J rather than 100, 1,000, 10,000 mJ.
    let length = |texts: &[(f64, String)]| texts.iter().map(|(_, text)| text.chars().count()).sum::<usize>();
    let (major, unit) = [ends.high, ends.low.sqrt() * ends.high.sqrt(), ends.low]
        .map(|amount| Unit::for_amount(&axis.unit, amount))
        .map(|unit| (texts(&unit), unit))
        .into_iter()
        .min_by_key(|(texts, _)| length(texts))
        .unwrap_or_default();
    Ticks { major, minor: ticks.minor, caption: caption(axis, &unit.name) }
}

/// The orientation of names along the horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum LabelOrientation {
    /// Horizontal, with this much space each.
    Level(f64),
    /// Rotated, with this much space each.
    Turned(f64),
}

/// The slope of rotated names, in degrees.
pub(super) const SLOPE: f64 = 38.0;

impl LabelOrientation {
    /// The orientation for names of this width in slots of this width.
    pub(super) fn new(widest: f64, slot: f64) -> Self {
        if widest <= slot - 8.0 || (slot >= 64.0 && widest <= slot * 1.5) {
            Self::Level(slot - 8.0)
        } else {
            Self::Turned(widest.min(150.0))
        }
    }

    /// The height of the labels.
    pub(super) fn depth(self) -> f64 {
        match self {
            Self::Level(_) => 20.0,
            Self::Turned(room) => room * SLOPE.to_radians().sin() + 20.0,
        }
    }
}

/// The vertical axis with its grid.
pub(super) struct Vertical<'a> {
    pub(super) area: Area,
    pub(super) ruler: &'a Ruler,
    pub(super) ticks: &'a Ticks,
    pub(super) names: bool,
    pub(super) paper: Paper,
    /// The space for labels to the left.
    pub(super) room: f64,
}

impl Vertical<'_> {
    pub(super) fn draw(&self, svg: &mut Svg) {
        let Area { x, width, .. } = self.area;
        let grid = |colour: &str, opacity: &str| format!("stroke=\"{colour}\" stroke-width=\"1\"{opacity}");
        for minor in self.ticks.minor.iter().filter_map(|value| self.ruler.visible(*value)) {
            svg.line((x, minor), (x + width, minor), &grid(self.paper.grid, " stroke-opacity=\"0.45\""));
        }
        let mut last = f64::INFINITY;
        for (value, text) in &self.ticks.major {
            let Some(place) = self.ruler.visible(*value) else { continue };
            if !self.names {
                svg.line((x, place), (x + width, place), &grid(self.paper.grid, ""));
            }
            // Omits names that are closer together than their height.
            if (place - last).abs() < SMALL - 1.0 {
                continue;
            }
            last = place;
            svg.text(&Text {
                x: x - 8.0,
                y: place + SMALL * 0.36,
                size: SMALL,
                weight: Weight::Regular,
                anchor: Anchor::End,
                colour: if self.names { self.paper.text } else { self.paper.muted },
                outline: None,
                rotation: 0.0,
                content: &font::cut(text, self.room, SMALL, Weight::Regular),
            });
        }
    }
}

/// The horizontal axis below the last panel.
pub(super) struct Horizontal<'a> {
    pub(super) area: Area,
    pub(super) ruler: &'a Ruler,
    pub(super) ticks: &'a Ticks,
    pub(super) orientation: LabelOrientation,
    pub(super) paper: Paper,
}

impl Horizontal<'_> {
    /// Draws vertical grid lines through a panel.
    pub(super) fn grid(&self, svg: &mut Svg) {
        let Area { y, height, .. } = self.area;
        for place in self.ticks.major.iter().filter_map(|(value, _)| self.ruler.visible(*value)) {
            svg.line((place, y), (place, y + height), &format!("stroke=\"{}\" stroke-width=\"1\"", self.paper.grid));
        }
    }

    /// Draws ticks without labels at the bottom of a panel.
    pub(super) fn marks(&self, svg: &mut Svg) {
        let foot = self.area.y + self.area.height;
        let style = format!("stroke=\"{}\" stroke-width=\"1\"", self.paper.axis);
        for place in self.ticks.major.iter().filter_map(|(value, _)| self.ruler.visible(*value)) {
            svg.line((place, foot), (place, foot + 5.0), &style);
        }
        for place in self.ticks.minor.iter().filter_map(|value| self.ruler.visible(*value)) {
            svg.line((place, foot), (place, foot + 3.0), &style);
        }
    }

    /// Writes the tick labels.
    pub(super) fn texts(&self, svg: &mut Svg) {
        let foot = self.area.y + self.area.height;
        let mut last = f64::NEG_INFINITY;
        for (value, text) in &self.ticks.major {
            let Some(place) = self.ruler.visible(*value) else { continue };
            let (room, rotation) = match self.orientation {
                LabelOrientation::Level(room) => (room, 0.0),
                LabelOrientation::Turned(room) => (room, -SLOPE),
            };
            let content = font::cut(text, room, SMALL, Weight::Regular);
            let half = if rotation == 0.0 { font::width(&content, SMALL, Weight::Regular) / 2.0 + 3.0 } else { 7.0 };
            if place - half < last {
                continue;
            }
            last = place + half;
            svg.text(&Text {
                x: if rotation == 0.0 { place } else { place + 4.0 },
                y: foot + if rotation == 0.0 { 19.0 } else { 16.0 },
                size: SMALL,
                weight: Weight::Regular,
                anchor: if rotation == 0.0 { Anchor::Middle } else { Anchor::End },
                colour: self.paper.muted,
                outline: None,
                rotation,
                content: &content,
            });
        }
    }
}

/// The number of ticks that fit on a length.
pub(super) fn about(length: f64, each: f64) -> f64 {
    whole(length / each).max(2) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis, low: f64, high: f64, about: f64) -> (Vec<String>, String) {
        let ticks = Ticks::new(axis, Extent { low, high }, about);
        (ticks.major.into_iter().map(|(_, text)| text).collect(), ticks.caption)
    }

    #[test]
    fn seconds_become_milliseconds() {
        let (texts, caption) = texts(&Axis::linear("time to first token", "s"), 0.0, 0.005, 5.0);
        assert_eq!(texts, ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(caption, "time to first token, ms");
    }

    #[test]
    fn logarithmic_labels_have_as_many_digits_as_they_need() {
        let (texts, caption) = texts(&Axis::log("energy", "J"), 0.01, 2000.0, 6.0);
        assert_eq!(texts, ["0.01", "0.1", "1", "10", "100", "1,000"]);
        assert_eq!(caption, "energy, J");
        let (texts, caption) = super::tests::texts(&Axis::log("energy", "J"), 0.09, 6.0, 6.0);
        assert_eq!(texts, ["0.1", "0.2", "0.5", "1", "2", "5"]);
        assert_eq!(caption, "energy, J");
    }

    #[test]
    fn a_caption_without_unit_or_label_has_no_comma() {
        assert_eq!(texts(&Axis::linear("requests", ""), 0.0, 2000.0, 4.0).1, "requests");
        assert_eq!(texts(&Axis::linear("", "W"), 0.0, 2.0, 4.0).1, "W");
    }
}
