//! The analyses: a saved run goes in; findings come out, which become `analysis/<id>.json` and tables.
//!
//! An analysis is one file that implements [`Analysis`] and one line in [`ALL`].

mod accuracy;
mod caution;
mod cell;
mod drift;
mod efficiency;
mod energy_per_token;
mod entries;
#[cfg(test)]
mod example;
mod goodput;
mod order;
mod outliers;
mod percentiles;
mod phases;
mod regression;

use std::fs;
use std::path::{Path, PathBuf};

use ergometer_charts::Table;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::AnalysisError;
use ergometer_runs::folder::ANALYSIS_FOLDER;
use ergometer_runs::saved::Run;
use ergometer_runs::store::write_json;

/// Every analysis, in the order in which people read them.
pub static ALL: &[&dyn Analysis] = &[
    &accuracy::Accuracy,
    &efficiency::Efficiency,
    &goodput::Goodput,
    &percentiles::Percentiles,
    &energy_per_token::EnergyPerToken,
    &phases::PhaseCosts,
    &regression::Regression,
    &drift::Drift,
    &outliers::Outliers,
];

/// Something to be found out about a run.
pub trait Analysis: Sync {
    /// Its name, and that of its file.
    fn id(&self) -> &'static str;

    /// What it finds out, in a line.
    fn about(&self) -> &'static str;

    /// Finds it out. What the run does not have is a warning, or an absent figure; an error is for what cannot be read.
    fn run(&self, run: &Run, options: &Options) -> Result<Findings, AnalysisError>;
}

/// What can be asked of analyses.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Options {
    /// Leave out regressions that have no line.
    pub skip_zeroes: bool,
    /// Limits to judge requests by, in place of those the run was made with.
    pub limits: Option<Limits>,
    /// The seed of resampling.
    pub seed: u64,
}

/// The most a request may take, in seconds; `None` sets no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[expect(missing_docs, reason = "named by the metrics")]
pub struct Limits {
    pub ttft_s: Option<f64>,
    pub ttft_scheduled_s: Option<f64>,
    pub tpot_s: Option<f64>,
    pub itl_s: Option<f64>,
    pub e2e_s: Option<f64>,
}

/// What was found out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Findings {
    /// The few figures that matter.
    pub summary: Map<String, Value>,
    /// All of it.
    pub data: Map<String, Value>,
    /// What to know about it.
    pub warnings: Vec<String>,
    /// As people read it.
    pub tables: Vec<Table>,
}

/// `analysis/<id>.json`, in the shape that tools written for intelligence-per-watt read.
#[derive(Debug, Serialize)]
pub struct Artifact<'a> {
    analysis: &'a str,
    summary: &'a Map<String, Value>,
    warnings: &'a [String],
    data: &'a Map<String, Value>,
}

/// The analysis of a name.
#[must_use]
pub fn find(id: &str) -> Option<&'static dyn Analysis> {
    ALL.iter().copied().find(|analysis| analysis.id() == id)
}

impl Findings {
    /// As programs read them.
    #[must_use]
    pub fn artifact<'a>(&'a self, id: &'a str) -> Artifact<'a> {
        Artifact { analysis: id, summary: &self.summary, warnings: &self.warnings, data: &self.data }
    }

    /// Writes them into the folder of the run or the sweep, whole or not at all. Says where.
    pub fn write(&self, folder: &Path, id: &str) -> Result<PathBuf, AnalysisError> {
        let folder = folder.join(ANALYSIS_FOLDER);
        fs::create_dir_all(&folder).map_err(AnalysisError::write(&folder))?;
        let path = folder.join(format!("{id}.json"));
        write_json(&path, &self.artifact(id))?;
        Ok(path)
    }
}

/// What a file has of a figure. A number that is none is null.
fn to_value<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}
