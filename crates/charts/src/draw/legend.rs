//! Draws the legend above the plot: the labels of points, bars and spans, if there are at least two. Lines have labels
//! at their ends instead.

use super::font::{self, Weight};
use super::write::{Anchor, Svg, Text, clean};
use super::{Area, EDGE, SMALL, WIDTH};
use crate::palette::Theme;
use crate::{Chart, Hue, Mark};

/// The symbol before a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Dot,
    Box,
    /// Pale, then full colour.
    Turn,
}

/// A label and its position relative to the top left of the legend.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    sign: Sign,
    hue: Hue,
    text: String,
    x: f64,
    row: usize,
}

/// The legend of a chart.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Legend {
    entries: Vec<Entry>,
}

const ROW: f64 = 20.0;

/// The maximum number of labels; more would crowd out the plot.
const MAX: usize = 40;

impl Legend {
    pub(super) fn new(chart: &Chart) -> Self {
        let mut labels: Vec<(Sign, Hue, String)> = Vec::new();
        for mark in chart.panels.iter().flat_map(|panel| &panel.marks) {
            let (sign, hue, label) = match mark {
                // Empty marks need no label.
                Mark::Points(points) | Mark::Bars(points) if points.x.is_empty() => continue,
                Mark::Spans(spans) if spans.start.is_empty() => continue,
                Mark::Points(points) => (Sign::Dot, points.hue, &points.label),
                Mark::Bars(points) => (Sign::Box, points.hue, &points.label),
                Mark::Spans(spans) => {
                    (if spans.turn.is_empty() { Sign::Box } else { Sign::Turn }, spans.hue, &spans.label)
                }
                _ => continue,
            };
            let label = clean(label);
            let known = labels.iter().any(|(_, other, text)| *other == hue && *text == label);
            if !label.is_empty() && !known && labels.len() < MAX {
                labels.push((sign, hue, label));
            }
        }
        if labels.len() < 2 {
            return Self::default();
        }
        let (mut x, mut row) = (0.0, 0);
        let mut entries = Vec::new();
        for (sign, hue, label) in labels {
            let text = font::cut(&label, 260.0, SMALL, Weight::Regular);
            let width = 16.0 + font::width(&text, SMALL, Weight::Regular);
            if x > 0.0 && x + width > WIDTH - 2.0 * EDGE {
                (x, row) = (0.0, row + 1);
            }
            entries.push(Entry { sign, hue, text, x, row });
            x += width + 18.0;
        }
        Self { entries }
    }

    pub(super) fn height(&self) -> f64 {
        self.entries.last().map_or(0.0, |entry| (entry.row + 1) as f64 * ROW + 4.0)
    }

    pub(super) fn draw(&self, svg: &mut Svg, theme: Theme, top: f64) {
        for entry in &self.entries {
            let (x, middle) = (EDGE + entry.x, top + (entry.row as f64 + 0.5) * ROW);
            let fill = format!("fill=\"{}\"", entry.hue.colour(theme));
            let area = Area { x, y: middle - 5.0, width: 10.0, height: 10.0 };
            match entry.sign {
                Sign::Dot => svg.circle((x + 5.0, middle), 4.5, &fill),
                Sign::Box => svg.rect(area, 2.0, &fill),
                Sign::Turn => {
                    svg.rect(area, 2.0, &format!("{fill} fill-opacity=\"0.35\""));
                    svg.rect(Area { x: x + 4.0, width: 6.0, ..area }, 2.0, &fill);
                }
            }
            svg.text(&Text {
                x: x + 15.0,
                y: middle + SMALL * 0.36,
                size: SMALL,
                weight: Weight::Regular,
                anchor: Anchor::Start,
                colour: theme.paper().text,
                outline: None,
                rotation: 0.0,
                content: &entry.text,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Panel, Points};

    fn chart(labels: &[&str]) -> Chart {
        let points = |label: &str| Points { label: label.into(), x: vec![1.0], y: vec![1.0], ..Points::default() };
        let mark = |label: &&str| Mark::Points(points(label));
        let panel = Panel { y: Axis::linear("", ""), marks: labels.iter().map(mark).collect(), share: 1.0 };
        Chart {
            id: String::new(),
            title: String::new(),
            subtitle: String::new(),
            notes: vec![],
            x: Axis::linear("", ""),
            panels: vec![panel],
        }
    }

    #[test]
    fn one_label_needs_no_legend() {
        assert_eq!(Legend::new(&chart(&["a", "", "a"])).height(), 0.0);
        assert_eq!(Legend::new(&chart(&["a", "b"])).entries.len(), 2);
        let mut empty = chart(&["a", "b"]);
        empty.panels[0].marks[1] = Mark::Points(Points { label: "b".into(), ..Points::default() });
        assert_eq!(Legend::new(&empty).entries.len(), 0);
    }

    #[test]
    fn many_labels_wrap_into_rows() {
        let long = "a label that is quite long, number ";
        let labels: Vec<String> = (0..9).map(|number| format!("{long}{number}")).collect();
        let legend = Legend::new(&chart(&labels.iter().map(String::as_str).collect::<Vec<_>>()));
        assert!(legend.height() > 60.0);
    }
}
