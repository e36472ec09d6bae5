//! A chart: panels above one another that share the horizontal axis.

use serde::Serialize;

use crate::Mark;

/// What is drawn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chart {
    /// Its name in files and addresses: letters, digits and underscores.
    pub id: String,
    /// What it shows, in a few words.
    pub title: String,
    /// Of what, on what: a line below the title.
    pub subtitle: String,
    /// What stands below it: how to read it, what was left out.
    pub notes: Vec<String>,
    /// The axis that all panels share.
    pub x: Axis,
    /// From top to bottom.
    pub panels: Vec<Panel>,
}

/// One part of a chart, with a vertical axis of its own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Panel {
    /// Its vertical axis.
    pub y: Axis,
    /// What is in it, the first at the back.
    pub marks: Vec<Mark>,
    /// Its part of the height; the parts of all panels are put in relation to one another.
    pub share: f64,
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Axis {
    /// What it measures.
    pub label: String,
    /// In what; empty for what has no unit. Labels of ticks may use a larger or smaller one of the same kind (`ms` for
    /// `s`), and say which.
    pub unit: String,
    /// How values become places.
    pub scale: Scale,
    /// From where to where at least; values outside of it are clipped. `None` takes it from the marks.
    pub domain: Option<(f64, f64)>,
}

/// How values become places on an axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Scale {
    /// Evenly. `from_zero`: zero is on it whatever the values are.
    Linear {
        /// Whether zero is on it.
        from_zero: bool,
    },
    /// By their logarithm; what is not positive is left out.
    Log,
    /// A value is the place of a name, 0 for the first.
    Names {
        /// The names.
        names: Vec<String>,
    },
    /// Nothing is written on it: lanes of spans, densities whose value says nothing.
    Plain,
}

impl Axis {
    /// An even axis.
    #[must_use]
    pub fn linear(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { label: label.into(), unit: unit.into(), scale: Scale::Linear { from_zero: false }, domain: None }
    }

    /// An even axis that begins at zero.
    #[must_use]
    pub fn from_zero(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { scale: Scale::Linear { from_zero: true }, ..Self::linear(label, unit) }
    }

    /// A logarithmic axis.
    #[must_use]
    pub fn log(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { scale: Scale::Log, ..Self::linear(label, unit) }
    }

    /// An axis of names.
    #[must_use]
    pub fn names(label: impl Into<String>, names: Vec<String>) -> Self {
        Self { scale: Scale::Names { names }, ..Self::linear(label, "") }
    }

    /// The same between these ends.
    #[must_use]
    pub fn within(self, low: f64, high: f64) -> Self {
        Self { domain: Some((low, high)), ..self }
    }
}
