//! Folders as the user named them: one run, several joined with `+`, or a sweep, whose points are each a side.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::path::Path;

use ergometer_analysis::AnalysisError;
use ergometer_analysis::curve::Curve;
use ergometer_analysis::saved::{Run, Saved, Sweep, labels};
use ergometer_diagnostics::{command, hint};

use crate::bridge::diagnosed;
use crate::exit::Failure;

/// Runs, and which of them belong together under which name.
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) runs: Vec<Run>,
    pub(super) parts: Vec<(String, Range<usize>)>,
    /// That of the sweep, where it is one and nothing else.
    pub(super) curve: Option<Curve>,
}

impl Named {
    pub(super) fn open(arguments: &[OsString]) -> Result<Self, Failure> {
        let mut named = Self::default();
        for argument in arguments {
            named.add(argument, arguments.len() == 1).map_err(|error| Failure::failed(diagnosed!(error)))?;
        }
        named.name();
        if named.parts.len() < 2 {
            return Err(Failure::usage("only one run was given, so there is nothing to compare it with")
                .hint(hint!("name a second folder: ", command("compare BASELINE CANDIDATE"))));
        }
        Ok(named)
    }

    fn add(&mut self, argument: &OsStr, is_alone: bool) -> Result<(), AnalysisError> {
        // A name that is no text is one path: only a text can be taken apart.
        let joined = argument.to_str().filter(|_| !Path::new(argument).exists());
        let paths: Vec<&OsStr> =
            joined.map_or_else(|| vec![argument], |joined| joined.split('+').map(OsStr::new).collect());
        let start = self.runs.len();
        for path in &paths {
            match Saved::open(Path::new(path))? {
                Saved::Run(run) => self.runs.push(*run),
                Saved::Sweep(sweep) if sweep.points.len() > 1 && paths.len() == 1 => {
                    return self.points(&sweep, is_alone);
                }
                Saved::Sweep(sweep) => self.runs.extend(sweep.runs()?),
            }
        }
        self.parts.push((String::new(), start..self.runs.len()));
        Ok(())
    }

    /// Every point of a sweep that has a run is a side.
    fn points(&mut self, sweep: &Sweep, is_alone: bool) -> Result<(), AnalysisError> {
        let name = sweep.folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        for point in sweep.points.iter().filter(|point| !point.runs.is_empty()) {
            let start = self.runs.len();
            for run in &point.runs {
                self.runs.push(Run::open(run)?);
            }
            let label = format!("{} {}", sweep.axis, point.value);
            let label = if is_alone { label } else { format!("{name} {label}") };
            self.parts.push((label, start..self.runs.len()));
        }
        if is_alone {
            self.curve = Some(Curve::of(sweep)?);
        }
        Ok(())
    }

    /// Names what has none yet by what tells the runs apart.
    fn name(&mut self) {
        let labels = labels(&self.runs);
        for (label, range) in &mut self.parts {
            if label.is_empty() {
                *label = labels[range.clone()].join("+");
            }
        }
    }
}
