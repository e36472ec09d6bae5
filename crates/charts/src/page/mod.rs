//! Pages: sections of figures, charts, tables and text, written as one HTML file that loads nothing from the network.

mod assets;
mod data;
mod escape;
mod html;
mod names;
mod pack;
mod table;

use serde::Serialize;

use crate::{Chart, Table};

/// A self-contained HTML page.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// The title.
    pub title: String,
    /// The line below the title.
    pub subtitle: String,
    /// The sections, in order.
    pub sections: Vec<Section>,
    /// The program that wrote the page and its version, shown in the footer.
    pub made_by: String,
}

/// A section of a page.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Section {
    /// The name in URLs: letters, digits and underscores.
    pub id: String,
    /// The heading.
    pub title: String,
    /// The content, in order.
    pub blocks: Vec<Block>,
}

/// An element of a section.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// The conclusion, in one sentence.
    Verdict {
        /// The sentence.
        text: String,
        /// Whether it is good or bad.
        tone: Tone,
    },
    /// Headline figures in large type.
    Figures(Vec<Figure>),
    /// Warnings with hints.
    Notices(Vec<Notice>),
    /// Paragraphs of text, separated by empty lines.
    Text(String),
    /// An interactive chart.
    Chart(Box<Chart>),
    /// A table that readers can sort and filter.
    Table(Table),
    /// Pairs of name and value, such as a configuration.
    Facts(Vec<(String, String)>),
}

/// A headline figure.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figure {
    /// The label above the value.
    pub label: String,
    /// The value with its unit.
    pub value: String,
    /// The interval of the value, or another spread.
    pub interval: String,
    /// A comment below the value, such as its source.
    pub comment: String,
}

/// A warning with a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The warning.
    pub text: String,
    /// A hint on how to fix it; may be empty.
    pub remedy: String,
}

/// Whether something is good or bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    /// Neither good nor bad.
    #[default]
    Plain,
    /// A good result.
    Good,
    /// A result to check.
    Warning,
    /// A bad result.
    Bad,
}
