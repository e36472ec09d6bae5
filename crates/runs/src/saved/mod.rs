//! Reads a run folder into memory, except for its texts and chunk times.
//!
//! Missing columns read as columns of nulls, so runs of earlier versions and of tools that write the same layout can be
//! read too.

mod columns;
mod name;
mod query;
mod requests;
mod run;
mod telemetry;
mod texts;

use std::path::{Path, PathBuf};

pub use name::labels;
pub use query::{Attribution, Energy, Outcome, Phases, Query};
pub use requests::{Attempt, AttemptOutcome, Gaps, Offsets};
pub use run::Run;
pub use telemetry::{Channel, Telemetry};
pub use texts::Texts;

use crate::summary::SUMMARY_FILE;
use crate::sweep::{Point, SweepRun, label};
use crate::{ReadError, Sweep};

/// The contents of a folder.
#[derive(Debug)]
pub enum Saved {
    /// One run.
    Run(Box<Run>),
    /// A sweep.
    Sweep(Box<SavedSweep>),
}

/// A sweep and its folder.
#[derive(Debug, Clone)]
pub struct SavedSweep {
    /// The folder.
    pub folder: PathBuf,
    /// Its `sweep.json`.
    pub sweep: Sweep,
}

impl Saved {
    /// Reads the run or the sweep in a folder.
    pub fn open(folder: &Path) -> Result<Self, ReadError> {
        if Sweep::is_in(folder) {
            return SavedSweep::open(folder).map(|sweep| Self::Sweep(Box::new(sweep)));
        }
        Run::open(folder).map(|run| Self::Run(Box::new(run)))
    }

    /// The run, or the runs of the sweep in the order of its points.
    pub fn runs(self) -> Result<Vec<Run>, ReadError> {
        match self {
            Self::Run(run) => Ok(vec![*run]),
            Self::Sweep(sweep) => sweep.runs(),
        }
    }
}

impl SavedSweep {
    /// Reads the sweep in a folder.
    pub fn open(folder: &Path) -> Result<Self, ReadError> {
        Ok(Self { folder: folder.to_path_buf(), sweep: Sweep::read(folder)? })
    }

    /// The folders of a point's runs that are finalized.
    #[must_use]
    pub fn folders(&self, point: &Point) -> Vec<PathBuf> {
        let runs = point.runs.iter().filter(|run| self.is_finalized(run));
        runs.map(|run| self.folder.join(&run.folder)).collect()
    }

    fn is_finalized(&self, run: &SweepRun) -> bool {
        self.folder.join(&run.folder).join(SUMMARY_FILE).is_file()
    }

    /// The finalized runs, in the order of the points.
    pub fn runs(&self) -> Result<Vec<Run>, ReadError> {
        let folders = self.sweep.points.iter().flat_map(|point| self.folders(point));
        let runs: Vec<Run> = folders.map(|folder| Run::open(&folder)).collect::<Result<_, _>>()?;
        if runs.is_empty() {
            return Err(ReadError::NoQueries { path: self.folder.clone() });
        }
        Ok(runs)
    }

    /// A short name for each run, in their order.
    #[must_use]
    pub fn labels(&self) -> Vec<String> {
        let mut labels = Vec::new();
        for point in &self.sweep.points {
            let load = label(&point.schedule);
            let name = |run: &SweepRun| match point.runs.len() {
                1 => load.clone(),
                _ => format!("{load} (repeat {})", run.repeat),
            };
            labels.extend(point.runs.iter().filter(|run| self.is_finalized(run)).map(name));
        }
        labels
    }
}
