//! Analyses, comparisons, plots and reports of saved runs.
//!
//! ```
//! use ergometer_analysis::analyses::{Options, find};
//! use ergometer_runs::saved::Run;
//!
//! # let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/runs/h200_one"));
//! let run = Run::open(folder)?;
//! let percentiles = find("percentiles").expect("a known analysis").run(&run, &Options::default())?;
//! for table in &percentiles.tables {
//!     println!("{}: {} rows", table.title, table.rows.len());
//! }
//! # assert_eq!(percentiles.tables.len(), 1);
//! # Ok::<(), ergometer_analysis::AnalysisError>(())
//! ```
//!
//! This crate reads run folders through `ergometer_runs::saved`, sends no requests and measures nothing. The same run with
//! the same random seed always gives the same result.

pub mod analyses;
pub mod compare;
pub mod curve;
mod error;
mod phase_power;
pub mod plots;
mod power;
pub mod report;
mod time_axis;

pub use error::AnalysisError;
