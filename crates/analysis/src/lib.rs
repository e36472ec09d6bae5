//! From numbers to understanding: the folders of saved runs go in; analyses, comparisons, plots and reports come out.
//!
//! Everything is read from files, and nothing here can run a benchmark, so a saved run always gives the same answer.
//! `ergometer_runs::saved` reads the files; the modules here only look at what was read.

pub mod analyses;
mod axis_of_time;
pub mod compare;
pub mod curve;
mod error;
pub mod plots;
mod power;
pub mod report;

pub use error::AnalysisError;
