//! Tables of typed cells. A number keeps its value beside its text, so that rows can be sorted by value.

use serde::Serialize;

/// A table with headings, rows and notes.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Table {
    /// The name in files: letters, digits and underscores.
    pub id: String,
    /// The title.
    pub title: String,
    /// Notes below the table.
    pub notes: Vec<String>,
    /// The headings.
    pub columns: Vec<Column>,
    /// The rows. Each row has one cell per column.
    pub rows: Vec<Vec<Cell>>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    /// The heading.
    pub head: String,
    /// The name in CSV and JSON, including the unit: `ttft_ms`.
    pub name: String,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Cell {
    /// An unknown value.
    Absent,
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A number.
    Number {
        /// The value, in the unit of the column's name.
        value: f64,
        /// The formatted value.
        shown: String,
    },
    /// A number with its interval.
    Estimate {
        /// The value.
        value: f64,
        /// The lower end of the interval.
        low: f64,
        /// The upper end of the interval.
        high: f64,
        /// The formatted value.
        shown: String,
    },
    /// A request number. On a page it links to the request.
    Request {
        /// The request number.
        request: u64,
    },
    /// A verdict, such as `worse`.
    Verdict {
        /// The text.
        text: String,
        /// Whether it is good or bad.
        tone: crate::Tone,
    },
}

impl Table {
    /// A table without rows. Columns are pairs of heading and name.
    #[must_use]
    pub fn new(id: &str, title: &str, columns: &[(&str, &str)]) -> Self {
        let column = |&(head, name): &(&str, &str)| Column { head: head.to_owned(), name: name.to_owned() };
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            columns: columns.iter().map(column).collect(),
            ..Self::default()
        }
    }
}

impl Cell {
    /// A cell with text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// A cell with a formatted number, or [`Cell::Absent`] for `None`.
    #[must_use]
    pub fn number(value: Option<f64>, show: impl Fn(f64) -> String) -> Self {
        match value.filter(|value| value.is_finite()) {
            Some(value) => Self::Number { value, shown: show(value) },
            None => Self::Absent,
        }
    }

    /// The text of the cell; `-` if the value is absent.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Absent => String::from("-"),
            Self::Text { text } | Self::Verdict { text, .. } => text.clone(),
            Self::Number { shown, .. } | Self::Estimate { shown, .. } => shown.clone(),
            Self::Request { request } => request.to_string(),
        }
    }
}
