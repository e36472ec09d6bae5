//! What is on disk: a folder goes in; the run or the sweep in it comes out, whole in memory but for texts.
//!
//! Columns that are not there are read as columns of nothing, so runs of earlier versions, and those of tools that write
//! the same layout, can be read too.

mod columns;
mod name;
mod query;
mod requests;
mod run;
mod summary;
mod sweep;
mod telemetry;
mod texts;

use std::path::Path;

pub use name::labels;
pub use query::{Energy, Outcome, Phases, Query};
pub use requests::{Attempt, Chunks};
pub use run::{EnergySource, Run, data_files};
pub use summary::{Estimate, Summary};
pub use sweep::{Sweep, SweepPoint};
pub use telemetry::{Channel, Telemetry};
pub use texts::Texts;

use crate::AnalysisError;

/// What a folder holds.
#[derive(Debug)]
pub enum Saved {
    /// One run.
    Run(Box<Run>),
    /// One run for each of several loads.
    Sweep(Sweep),
}

impl Saved {
    /// Reads what is in a folder.
    pub fn open(folder: &Path) -> Result<Self, AnalysisError> {
        if Sweep::is_in(folder) {
            return Sweep::open(folder).map(Self::Sweep);
        }
        Run::open(folder).map(|run| Self::Run(Box::new(run)))
    }

    /// The runs of several folders, those of a sweep in the order of its points.
    pub fn runs(self) -> Result<Vec<Run>, AnalysisError> {
        match self {
            Self::Run(run) => Ok(vec![*run]),
            Self::Sweep(sweep) => sweep.runs(),
        }
    }
}
