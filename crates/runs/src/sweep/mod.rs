//! `sweep.json`: the points of a sweep, the state of each run, and the figures of each point.
//!
//! The file is derived from the summaries of the runs and rewritten after each run. If they differ, the summaries are
//! right.

mod cooldown;
mod figures;
mod plan;
mod spread;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use ergometer_clients::ModelFacts;
use ergometer_diagnostics::{Diagnostic, Hint, hint, option};
use serde::{Deserialize, Serialize};

pub use cooldown::{Cooldown, CooldownOutcome, IdleState};
pub use figures::{Figures, RunFigures};
pub use plan::{check, label, run_name};
pub use spread::Spread;

use crate::config::{Axis, RunConfig, Schedule};
use crate::sender::Closing;
use crate::slug::sweep_folder_name;
use crate::store::{StoreError, write_json};
use crate::summary::read_versioned;
use crate::{EnergySource, ReadError, Summary};

/// The name of the file.
pub const SWEEP_FILE: &str = "sweep.json";

/// The version of `sweep.json` that is written, and the latest that is read.
pub const SWEEP_VERSION: u32 = 1;

/// Why a list of points is not a sweep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum PlanError {
    #[error("a sweep needs at least one point")]
    NoPoint,
    #[error("a sweep varies the concurrency or the rate, not both: {one}, {other}")]
    TwoAxes { one: String, other: String },
    #[error("{point} is given twice")]
    Twice { point: String },
}

impl Diagnostic for PlanError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NoPoint => None,
            Self::TwoAxes { .. } => Some(hint!("run two sweeps")),
            Self::Twice { .. } => Some(hint!("to run every point N times, pass ", option("repeat").value("N"))),
        }
    }
}

/// The properties that must stay the same for points to be comparable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named as in the summary of a run")]
pub struct Identity {
    pub hardware_label: String,
    pub model: String,
    pub model_facts: ModelFacts,
    pub dataset: String,
    pub dataset_fingerprint: String,
}

/// The content of `sweep.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// The version of the format.
    pub format_version: u32,
    /// The version of Ergometer that started the sweep.
    pub ergometer: String,
    /// When the file was written, in seconds since the epoch.
    pub generated_at: f64,
    /// The quantity that differs between the points.
    pub axis: Axis,
    /// Whether every run is complete.
    pub complete: bool,
    /// The properties that all points share.
    #[serde(flatten)]
    pub identity: Identity,
    /// The number of runs of each point.
    pub repeats: u32,
    /// The longest cooldown before a run, in seconds.
    pub cooldown_s: f64,
    /// The state of the machine before the first run, if there are cooldowns.
    pub rest: Option<IdleState>,
    /// The points, in the order of the command line.
    pub points: Vec<Point>,
    /// The configuration of all runs, without secrets; its schedule is that of the first point.
    pub config: RunConfig,
}

/// One load of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// When requests are sent.
    pub schedule: Schedule,
    /// The energy source.
    pub energy: Option<EnergySource>,
    /// In how many runs the client was a limit; `None` if that was not checked.
    pub client_limited: Option<usize>,
    /// The figures over its complete runs, or over all runs if none is complete.
    pub figures: Figures,
    /// Its runs, in order.
    pub runs: Vec<SweepRun>,
}

/// A run of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepRun {
    /// Its folder, relative to that of the sweep.
    pub folder: String,
    /// The number of the repeat, from 1.
    pub repeat: u32,
    /// Whether every query of the run has its record.
    pub complete: bool,
    /// Why it ended; `None` if it has not run, or was killed.
    pub closing: Option<Closing>,
    /// The cooldown before it.
    pub cooldown: Option<Cooldown>,
    /// Its figures; `None` if it has not run.
    #[serde(flatten)]
    pub figures: Option<RunFigures>,
}

impl Identity {
    /// The folder of the sweep, in a folder of runs.
    #[must_use]
    pub fn folder_in(&self, runs: &Path, name: Option<&str>) -> PathBuf {
        runs.join(sweep_folder_name(&self.hardware_label, &self.model, &self.dataset, name))
    }
}

impl Sweep {
    /// Creates a sweep without runs. The configuration is stored unchanged: remove its secrets first.
    pub fn new(
        config: RunConfig,
        schedules: &[Schedule],
        repeats: u32,
        cooldown_s: f64,
        identity: Identity,
    ) -> Result<Self, PlanError> {
        let axis = check(schedules)?;
        let run = |schedule: &Schedule, repeat| SweepRun {
            folder: run_name(schedule, repeat, repeats),
            repeat,
            complete: false,
            closing: None,
            cooldown: None,
            figures: None,
        };
        let point = |schedule: &Schedule| Point {
            schedule: *schedule,
            energy: None,
            client_limited: None,
            figures: Figures::default(),
            runs: (1..=repeats).map(|repeat| run(schedule, repeat)).collect(),
        };
        Ok(Self {
            format_version: SWEEP_VERSION,
            ergometer: String::from(env!("CARGO_PKG_VERSION")),
            generated_at: now(),
            axis,
            complete: false,
            identity,
            repeats,
            cooldown_s,
            rest: None,
            points: schedules.iter().map(point).collect(),
            config: RunConfig { schedule: schedules[0], ..config },
        })
    }

    /// Whether a folder is a sweep.
    #[must_use]
    pub fn is_in(folder: &Path) -> bool {
        folder.join(SWEEP_FILE).is_file()
    }

    /// Reads `sweep.json` from a folder and checks that its runs match its points.
    pub fn read(folder: &Path) -> Result<Self, ReadError> {
        let path = folder.join(SWEEP_FILE);
        let value = read_versioned(&path, SWEEP_VERSION)?;
        let sweep: Self = serde_json::from_value(value).map_err(ReadError::damaged(&path))?;
        let schedules: Vec<Schedule> = sweep.points.iter().map(|point| point.schedule).collect();
        check(&schedules).map_err(ReadError::damaged(&path))?;
        let is_expected = |point: &Point| {
            let expected = (1..=sweep.repeats).map(|repeat| run_name(&point.schedule, repeat, sweep.repeats));
            point.runs.iter().map(|run| run.folder.clone()).eq(expected)
        };
        if !sweep.points.iter().all(is_expected) {
            return Err(ReadError::Damaged { path, what: String::from("its run folders do not match its points") });
        }
        Ok(sweep)
    }

    /// Writes `sweep.json` into a folder, atomically.
    pub fn write(&mut self, folder: &Path) -> Result<(), StoreError> {
        self.generated_at = now();
        write_json(&folder.join(SWEEP_FILE), self)
    }

    /// The order in which runs are made, as indices of points and runs: one repeat of every point after the other.
    pub fn order(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        plan::order(self.points.len(), self.repeats as usize)
    }

    /// Stores the figures of a run from its summary.
    pub fn take(&mut self, (point, run): (usize, usize), summary: &Summary) {
        let run = &mut self.points[point].runs[run];
        run.complete = summary.complete;
        run.closing = summary.closing;
        run.figures = Some(RunFigures::from_summary(summary));
        self.sum_up();
    }

    /// Computes the figures of every point from its runs.
    pub fn sum_up(&mut self) {
        self.points.iter_mut().for_each(Point::sum_up);
        self.complete = self.points.iter().flat_map(|point| &point.runs).all(|run| run.complete);
    }
}

impl Point {
    /// Its complete runs; if none is complete, all runs with figures.
    fn counted_runs(&self) -> Vec<&RunFigures> {
        let has_complete = self.runs.iter().any(|run| run.complete);
        let counted = self.runs.iter().filter(|run| run.complete || !has_complete);
        counted.filter_map(|run| run.figures.as_ref()).collect()
    }

    fn sum_up(&mut self) {
        let runs = self.counted_runs();
        let (figures, energy) = (RunFigures::over(&runs), RunFigures::source(&runs));
        let limited: Vec<bool> = runs.iter().filter_map(|run| run.client_limited).collect();
        self.client_limited = (!limited.is_empty()).then(|| limited.iter().filter(|is| **is).count());
        (self.figures, self.energy) = (figures, energy);
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
