//! Draws a [`Chart`] as SVG or PNG, and a [`Page`] of charts and tables as one HTML file.
//!
//! ```
//! use ergometer_charts::{Axis, Block, Chart, Hue, Mark, Page, Panel, Section, Stroke, Theme, svg};
//!
//! let line = Mark::Line {
//!     label: "p50".into(),
//!     hue: Hue::Series(0),
//!     stroke: Stroke::Solid,
//!     x: vec![1.0, 2.0, 4.0],
//!     y: vec![0.0021, 0.0023, 0.0031],
//! };
//! let chart = Chart {
//!     id: "ttft".into(),
//!     title: "Time to first token".into(),
//!     subtitle: String::new(),
//!     notes: vec![],
//!     x: Axis::linear("concurrency", ""),
//!     panels: vec![Panel { y: Axis::from_zero("TTFT", "s"), marks: vec![line], share: 1.0 }],
//! };
//! assert!(svg(&chart, Theme::Light).starts_with("<svg"));
//!
//! let blocks = vec![Block::Chart(Box::new(chart))];
//! let section = Section { id: "latency".into(), title: "Latency".into(), blocks };
//! let page = Page { title: "Report".into(), sections: vec![section], ..Page::default() };
//! assert!(page.html().contains("<h2 id=\"latency-title\">Latency</h2>"));
//! ```
//!
//! A chart describes its data in the units of its axes, not in pixels. The same chart can be drawn as SVG or PNG, or
//! as an interactive chart on a page. This crate does not depend on runs or traces. It escapes all text, so labels
//! cannot inject markup or scripts.

mod chart;
mod draw;
mod mark;
mod page;
mod palette;
mod table;

pub use chart::{Axis, Chart, Panel, Scale};
pub use draw::{PictureError, png, svg};
pub use mark::{Hue, Mark, Points, Side, Spans, Stroke};
pub use page::{Block, Figure, Notice, Page, Section, Tone};
pub use palette::{Paper, Theme};
pub use table::{Cell, Column, Table};
