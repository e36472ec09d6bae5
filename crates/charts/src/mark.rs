//! What stands in a panel. All numbers are in the units of the axes; what is not finite is left out by whoever draws.

use serde::Serialize;

/// Something drawn.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Mark {
    /// Dots, with whiskers where they have intervals.
    Points(Points),
    /// A line through points in the order of x.
    Line {
        /// Its name, written at its end; empty for none.
        label: String,
        /// Its colour.
        hue: Hue,
        /// How it is drawn.
        stroke: Stroke,
        /// Along the horizontal axis.
        x: Vec<f64>,
        /// Along the vertical axis.
        y: Vec<f64>,
    },
    /// A line that keeps its value until the next point: powers between readings, distributions.
    Step {
        /// Its name, written at its end; empty for none.
        label: String,
        /// Its colour.
        hue: Hue,
        /// Along the horizontal axis.
        x: Vec<f64>,
        /// Along the vertical axis.
        y: Vec<f64>,
    },
    /// What lies between two lines: the interval of a line, or with low all zero what lies below one.
    Band {
        /// Its colour.
        hue: Hue,
        /// Along the horizontal axis.
        x: Vec<f64>,
        /// The lower line.
        low: Vec<f64>,
        /// The upper line.
        high: Vec<f64>,
    },
    /// Bars from zero, along the axis that has numbers when the other has names.
    Bars(Points),
    /// Stretches of time in lanes, 0 the topmost.
    Spans(Spans),
    /// A straight line over the whole panel, with its label.
    Rule {
        /// Which axis its value is on.
        side: Side,
        /// Where.
        at: f64,
        /// What it says.
        label: String,
        /// Its colour.
        hue: Hue,
    },
}

/// Points. All lists are as long as `x`, or empty where there is nothing of the kind.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Points {
    /// The name of all of them, for the legend; empty for none.
    pub label: String,
    /// Their colour.
    pub hue: Hue,
    /// Along the horizontal axis.
    pub x: Vec<f64>,
    /// Along the vertical axis.
    pub y: Vec<f64>,
    /// The lower ends of the intervals of y (of x, where y has names).
    pub low: Vec<f64>,
    /// The upper ends.
    pub high: Vec<f64>,
    /// A name for each, written beside it.
    pub names: Vec<String>,
    /// The number of the request each is.
    pub requests: Vec<u64>,
}

/// Stretches of time. All lists are as long as `start`, or empty where there is nothing of the kind.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Spans {
    /// The name of all of them.
    pub label: String,
    /// Their colour.
    pub hue: Hue,
    /// Where each begins on the horizontal axis.
    pub start: Vec<f64>,
    /// Where something inside changes, as the first token; empty for nothing. Before it the span is paler.
    pub turn: Vec<f64>,
    /// Where each ends.
    pub end: Vec<f64>,
    /// In which lane, 0 the topmost.
    pub lane: Vec<u32>,
    /// The number of the request each is.
    pub requests: Vec<u64>,
    /// What is told of each.
    pub names: Vec<String>,
}

/// A colour by its meaning. The palette has eight for things that are told apart, and some with a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hue {
    /// One of those told apart, from 0; there are eight, and then they begin again.
    Series(u8),
    /// For what is there beside what is looked at.
    Muted,
    /// Bad news.
    Bad,
    /// Good news.
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
    /// Without a break.
    Solid,
    /// In dashes.
    Dashed,
    /// In dots.
    Dotted,
}

/// One of the two axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The horizontal one; a rule at one of its values stands upright.
    X,
    /// The vertical one; a rule at one of its values lies flat.
    Y,
}
