//! Opens the runs to compare: a folder of one run, several joined with `+`, or a sweep with one side per point.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::path::Path;

use ergometer_analysis::AnalysisError;
use ergometer_analysis::curve::Curve;
use ergometer_diagnostics::{command, hint};
use ergometer_runs::config::Axis;
use ergometer_runs::saved::{Run, Saved, SavedSweep, labels};

use crate::exit::Failure;

/// The runs to compare, grouped by side.
#[derive(Debug, Default)]
pub(super) struct Sides {
    pub(super) runs: Vec<Run>,
    pub(super) groups: Vec<(String, Range<usize>)>,
    /// The curve of the sweep, if a single sweep is compared.
    pub(super) curve: Option<Curve>,
}

impl Sides {
    pub(super) fn open(arguments: &[OsString]) -> Result<Self, Failure> {
        let mut sides = Self::default();
        for argument in arguments {
            sides.add(argument, arguments.len() == 1).map_err(Failure::failed)?;
        }
        sides.label();
        if sides.groups.len() < 2 {
            return Err(Failure::usage("only one run was given, so there is nothing to compare it with")
                .hint(hint!("name a second folder: ", command("compare BASELINE CANDIDATE"))));
        }
        Ok(sides)
    }

    fn add(&mut self, argument: &OsStr, is_alone: bool) -> Result<(), AnalysisError> {
        // A path that is not UTF-8 cannot be split at `+`.
        let joined = argument.to_str().filter(|_| !Path::new(argument).exists());
        let paths: Vec<&OsStr> =
            joined.map_or_else(|| vec![argument], |joined| joined.split('+').map(OsStr::new).collect());
        let start = self.runs.len();
        for path in &paths {
            match Saved::open(Path::new(path))? {
                Saved::Run(run) => self.runs.push(*run),
                Saved::Sweep(sweep) if sweep.sweep.points.len() > 1 && paths.len() == 1 => {
                    return self.add_points(&sweep, is_alone);
                }
                Saved::Sweep(sweep) => self.runs.extend(sweep.runs()?),
            }
        }
        self.groups.push((String::new(), start..self.runs.len()));
        Ok(())
    }

    /// Adds a side for each point of a sweep that has a run.
    fn add_points(&mut self, sweep: &SavedSweep, is_alone: bool) -> Result<(), AnalysisError> {
        let name = sweep.folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        for point in &sweep.sweep.points {
            let folders = sweep.folders(point);
            if folders.is_empty() {
                continue;
            }
            let start = self.runs.len();
            for folder in &folders {
                self.runs.push(Run::open(folder)?);
            }
            let label = format!("{} {}", sweep.sweep.axis, Axis::value(&point.schedule));
            let label = if is_alone { label } else { format!("{name} {label}") };
            self.groups.push((label, start..self.runs.len()));
        }
        if is_alone {
            self.curve = Some(Curve::from_sweep(&sweep.sweep));
        }
        Ok(())
    }

    /// Labels the remaining sides by how their runs differ.
    fn label(&mut self) {
        let labels = labels(&self.runs);
        for (label, range) in &mut self.groups {
            if label.is_empty() {
                *label = labels[range.clone()].join("+");
            }
        }
    }
}
