//! A table: each cell knows what it shows and, where it is a number, what it is, so that rows can be sorted by it.

use serde::Serialize;

/// Rows under headings.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Table {
    /// Its name in files: letters, digits and underscores.
    pub id: String,
    /// What it shows, in a few words.
    pub title: String,
    /// What stands below it.
    pub notes: Vec<String>,
    /// The headings.
    pub columns: Vec<Column>,
    /// Every row has as many cells as there are columns.
    pub rows: Vec<Vec<Cell>>,
}

/// A heading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    /// What people read.
    pub head: String,
    /// Its name in CSV and JSON, the unit in it: `ttft_ms`.
    pub name: String,
}

/// A cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Cell {
    /// Nothing is known.
    Absent,
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A number.
    Number {
        /// What it is, in the unit of the column's name.
        value: f64,
        /// As people read it.
        shown: String,
    },
    /// A number with its interval.
    Estimate {
        /// What it is.
        value: f64,
        /// The lower end.
        low: f64,
        /// The upper end.
        high: f64,
        /// As people read it.
        shown: String,
    },
    /// A request, by its number: on a page it leads to the request.
    Request {
        /// Its number.
        request: u64,
    },
    /// A judgement.
    Verdict {
        /// In words.
        text: String,
        /// Good or bad.
        tone: crate::Tone,
    },
}

impl Table {
    /// One without rows. Columns are headings and names.
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
    /// Words.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// A number as people read it, or nothing.
    #[must_use]
    pub fn number(value: Option<f64>, show: impl Fn(f64) -> String) -> Self {
        match value.filter(|value| value.is_finite()) {
            Some(value) => Self::Number { value, shown: show(value) },
            None => Self::Absent,
        }
    }

    /// As people read it; `-` for nothing.
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
