//! What people look at: a [`Chart`], a [`Table`] or a [`Page`] goes in; SVG, PNG or HTML comes out.
//!
//! A chart says what is drawn, in the units of its axes, and nothing about where on the paper. The same chart is a still
//! picture and, on a page, one that answers to the mouse. Nothing here knows what a run or a trace is, and no text is
//! trusted: whatever a label holds, it is shown and never obeyed.

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
