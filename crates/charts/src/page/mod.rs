//! A page: sections of figures, charts, tables and words. One HTML file comes out, which asks nothing of a network.

mod assets;
mod data;
mod escape;
mod html;
mod names;
mod pack;
mod table;

use serde::Serialize;

use crate::{Chart, Table};

/// A page that stands for itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// What it is about.
    pub title: String,
    /// Of what, on what.
    pub subtitle: String,
    /// Its parts, in order.
    pub sections: Vec<Section>,
    /// What made it, with its version; stands at the foot.
    pub made_by: String,
}

/// A part of a page.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Section {
    /// Its name in addresses: letters, digits and underscores.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// What is in it, in order.
    pub blocks: Vec<Block>,
}

/// Something on a page.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// What it all comes to, in a sentence.
    Verdict {
        /// The sentence.
        text: String,
        /// Good or bad.
        tone: Tone,
    },
    /// The numbers that matter, large.
    Figures(Vec<Figure>),
    /// What to know, and what to do about it.
    Notices(Vec<Notice>),
    /// Words.
    Text(String),
    /// A chart.
    Chart(Box<Chart>),
    /// A table that can be sorted.
    Table(Table),
    /// Names and values: a configuration.
    Facts(Vec<(String, String)>),
}

/// A number that matters.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figure {
    /// What it is.
    pub label: String,
    /// With its unit.
    pub value: String,
    /// Its interval, or what stands for one.
    pub interval: String,
    /// Where it comes from, what it is of.
    pub comment: String,
}

/// Something to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What.
    pub text: String,
    /// What to do about it; empty for nothing.
    pub remedy: String,
}

/// Whether something is good or bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    /// Neither.
    #[default]
    Plain,
    /// Good.
    Good,
    /// To be looked at.
    Warning,
    /// Bad.
    Bad,
}
