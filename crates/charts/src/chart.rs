//! Charts: panels stacked on top of each other that share the horizontal axis.

use serde::Serialize;

use crate::Mark;

/// A chart with one or more panels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chart {
    /// The name in files and URLs: letters, digits and underscores.
    pub id: String,
    /// The title.
    pub title: String,
    /// The line below the title, such as the model and the machine.
    pub subtitle: String,
    /// Notes below the chart: how to read it, what was omitted.
    pub notes: Vec<String>,
    /// The horizontal axis of all panels.
    pub x: Axis,
    /// The panels, from top to bottom.
    pub panels: Vec<Panel>,
}

/// A part of a chart with its own vertical axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Panel {
    /// The vertical axis.
    pub y: Axis,
    /// The marks, from back to front.
    pub marks: Vec<Mark>,
    /// The height relative to the other panels.
    pub share: f64,
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Axis {
    /// The quantity on this axis.
    pub label: String,
    /// The unit of the values; empty for none. Tick labels may use a multiple of it (`ms` for `s`), and the axis label
    /// names that multiple.
    pub unit: String,
    /// How values map to positions.
    pub scale: Scale,
    /// The range of the axis; values outside are clipped. `None` derives the range from the marks.
    pub domain: Option<(f64, f64)>,
}

/// How values map to positions on an axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Scale {
    /// A linear scale.
    Linear {
        /// Whether the axis always includes zero.
        from_zero: bool,
    },
    /// A logarithmic scale. Values that are not positive are not drawn.
    Log,
    /// A value is the index of a name.
    Names {
        /// The names.
        names: Vec<String>,
    },
    /// An axis without ticks, for lanes of spans and for densities.
    Plain,
}

impl Axis {
    /// A linear axis.
    #[must_use]
    pub fn linear(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { label: label.into(), unit: unit.into(), scale: Scale::Linear { from_zero: false }, domain: None }
    }

    /// A linear axis that includes zero.
    #[must_use]
    pub fn from_zero(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { scale: Scale::Linear { from_zero: true }, ..Self::linear(label, unit) }
    }

    /// A logarithmic axis.
    #[must_use]
    pub fn log(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { scale: Scale::Log, ..Self::linear(label, unit) }
    }

    /// An axis with names.
    #[must_use]
    pub fn names(label: impl Into<String>, names: Vec<String>) -> Self {
        Self { scale: Scale::Names { names }, ..Self::linear(label, "") }
    }

    /// The same axis with a fixed range.
    #[must_use]
    pub fn within(self, low: f64, high: f64) -> Self {
        Self { domain: Some((low, high)), ..self }
    }
}
