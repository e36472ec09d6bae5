//! Marks: the lines, points, bars and spans of a panel. All numbers are in the units of the axes; values that are not
//! finite are not drawn.

use serde::Serialize;

/// A line, a set of points, bars or another element of a panel.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Mark {
    /// Dots, with whiskers if they have intervals.
    Points(Points),
    /// A line through points, ordered by x.
    Line {
        /// The label at the end of the line; empty for none.
        label: String,
        /// Its colour.
        hue: Hue,
        /// How it is drawn.
        stroke: Stroke,
        /// The values on the horizontal axis.
        x: Vec<f64>,
        /// The values on the vertical axis.
        y: Vec<f64>,
    },
    /// A line that keeps its value until the next point, for power readings and distributions.
    Step {
        /// The label at the end of the line; empty for none.
        label: String,
        /// Its colour.
        hue: Hue,
        /// The values on the horizontal axis.
        x: Vec<f64>,
        /// The values on the vertical axis.
        y: Vec<f64>,
    },
    /// The area between two lines, such as the interval around a line or, if `low` is zero, the area below a line.
    Band {
        /// Its colour.
        hue: Hue,
        /// The values on the horizontal axis.
        x: Vec<f64>,
        /// The lower line.
        low: Vec<f64>,
        /// The upper line.
        high: Vec<f64>,
    },
    /// Bars from zero. They are horizontal if the vertical axis has names, otherwise vertical.
    Bars(Points),
    /// Spans of time in lanes; lane 0 is at the top.
    Spans(Spans),
    /// A straight line across the whole panel, with a label.
    Rule {
        /// The axis of the value.
        side: Side,
        /// The value.
        at: f64,
        /// The label.
        label: String,
        /// Its colour.
        hue: Hue,
    },
}

/// Points or bars. Each list is either as long as `x` or empty.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Points {
    /// The label in the legend; empty for none.
    pub label: String,
    /// Their colour.
    pub hue: Hue,
    /// The values on the horizontal axis.
    pub x: Vec<f64>,
    /// The values on the vertical axis.
    pub y: Vec<f64>,
    /// The lower ends of the intervals of y, or of x if the vertical axis has names.
    pub low: Vec<f64>,
    /// The upper ends.
    pub high: Vec<f64>,
    /// A label beside each point.
    pub names: Vec<String>,
    /// The request number of each point.
    pub requests: Vec<u64>,
}

/// Spans of time. Each list is either as long as `start` or empty.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Spans {
    /// The label in the legend; empty for none.
    pub label: String,
    /// Their colour.
    pub hue: Hue,
    /// The start of each span on the horizontal axis.
    pub start: Vec<f64>,
    /// A moment inside each span, such as the first token. The span is paler before it.
    pub turn: Vec<f64>,
    /// The end of each span.
    pub end: Vec<f64>,
    /// The lane of each span; lane 0 is at the top.
    pub lane: Vec<u32>,
    /// The request number of each span.
    pub requests: Vec<u64>,
    /// The tooltip text of each span.
    pub names: Vec<String>,
}

/// A colour by its meaning. The palette has eight colours for series, and further colours with a fixed meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hue {
    /// The colour of a series, counted from 0. The eight colours repeat.
    Series(u8),
    /// Background information.
    Muted,
    /// A bad result.
    Bad,
    /// A good result.
    Good,
}

impl Default for Hue {
    fn default() -> Self {
        Self::Series(0)
    }
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stroke {
    /// A solid line.
    Solid,
    /// A dashed line.
    Dashed,
    /// A dotted line.
    Dotted,
}

/// One of the two axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The horizontal axis. A rule at a value of this axis is a vertical line.
    X,
    /// The vertical axis. A rule at a value of this axis is a horizontal line.
    Y,
}
