//! Fits one cost model to the runs of sweeps that have ended, and updates `sweep.json`.

use std::path::{Path, PathBuf};

use super::{SweepError, SweepFolder};
use crate::close::{self, CloseError, ClosedRun, same_folder};
use crate::journal::{JournalError, JournalFolder};
use crate::run::Target;
use ergometer_runs::Summary;
use ergometer_runs::sweep::Sweep;

/// The runs that were attributed.
#[derive(Debug)]
pub struct FittedRuns {
    /// Their results, in the order of the paths; those of a sweep in the order of its points.
    pub runs: Vec<ClosedRun>,
    /// The runs of sweeps that are left out because none of their requests has ended.
    pub left_out: Vec<PathBuf>,
}

/// Attributes runs as [`close::attribute`] does. A path may also be a sweep: all of its runs take part, and its
/// `sweep.json` gets their new figures.
pub fn attribute(paths: &[PathBuf], engine_log: Option<&Path>) -> Result<FittedRuns, SweepError> {
    let (mut sweeps, mut folders, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for (place, path) in paths.iter().enumerate() {
        if paths[..place].iter().any(|other| same_folder(other, path)) {
            return Err(CloseError::Twice { path: path.clone() }.into());
        }
        if !Sweep::is_in(path) {
            folders.push(path.clone());
            continue;
        }
        let folder = SweepFolder::prepare(&Target::Resume(path.clone()))?;
        let sweep = Sweep::read(path)?;
        let found = self::folders(&sweep, path)?;
        left_out.extend(run_folders(&sweep, path).filter(|run| run.is_dir() && !found.contains(run)));
        if found.is_empty() {
            let is_finalized = run_folders(&sweep, path).any(|run| Summary::read(&run).is_ok());
            let path = path.clone();
            let error = if is_finalized { CloseError::NoJournals { path } } else { CloseError::NoRecords { path } };
            return Err(error.into());
        }
        folders.extend(found);
        sweeps.push((folder, sweep));
    }
    let runs = close::attribute(&folders, engine_log);
    // Also after an error: some runs may have been written.
    for (folder, sweep) in &mut sweeps {
        let before = sweep.clone();
        take_summaries(sweep, folder.path());
        if *sweep != before {
            sweep.write(folder.path())?;
        }
    }
    Ok(FittedRuns { runs: runs?, left_out })
}

/// The run folders of a sweep, which may not exist yet.
fn run_folders<'a>(sweep: &'a Sweep, folder: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    sweep.points.iter().flat_map(|point| &point.runs).map(|run| folder.join(&run.folder))
}

/// The runs of a sweep that can be fitted: they have a journal with a record.
pub(super) fn folders(sweep: &Sweep, folder: &Path) -> Result<Vec<PathBuf>, JournalError> {
    let has_record = |run: &Path| {
        let journal = JournalFolder::of_run(run);
        Ok(journal.try_exists()? && (Summary::read(run).is_ok() || close::has_record(&journal)?))
    };
    run_folders(sweep, folder)
        .filter_map(|run| has_record(&run).map(|has_record| has_record.then_some(run)).transpose())
        .collect()
}

/// Takes the figures of all runs from their summaries. A run without a summary is not complete.
pub(super) fn take_summaries(sweep: &mut Sweep, folder: &Path) {
    for (point, run) in sweep.order() {
        let entry = &mut sweep.points[point].runs[run];
        match Summary::read(&folder.join(&entry.folder)) {
            Ok(summary) => sweep.take((point, run), &summary),
            Err(_) => entry.complete = false,
        }
    }
    sweep.sum_up();
}
