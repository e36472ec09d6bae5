//! Analyses of a saved run, with results as tables and as `analysis/<id>.json`.
//!
//! To add an analysis, implement [`Analysis`] in a new file and add it to [`ALL`].

mod accuracy;
mod cell;
mod cost_model;
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
mod shared_warnings;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ergometer_charts::Table;
use ergometer_diagnostics::{CommandLine, Diagnostic, Message};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::AnalysisError;
use ergometer_runs::config::Slo;
use ergometer_runs::cost_model::RequestShape;
use ergometer_runs::folder::ANALYSIS_FOLDER;
use ergometer_runs::saved::Run;
use ergometer_runs::store::{create_folder, write_json};

/// All analyses, in reading order.
pub static ALL: &[&dyn Analysis] = &[
    &accuracy::Accuracy,
    &efficiency::Efficiency,
    &goodput::Goodput,
    &percentiles::Percentiles,
    &energy_per_token::EnergyPerToken,
    &phases::PhaseCosts,
    &cost_model::CostModelAnalysis,
    &regression::Regression,
    &drift::Drift,
    &outliers::Outliers,
];

/// An analysis of a saved run.
pub trait Analysis: Sync {
    /// The id, which is also the name of the file.
    fn id(&self) -> &'static str;

    /// A one-line description.
    fn about(&self) -> &'static str;

    /// Analyzes a run. Missing data gives a warning or an absent value; an unreadable file gives an error.
    fn run(&self, run: &Run, options: &Options) -> Result<Findings, AnalysisError>;
}

/// Options of analyses.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Options {
    /// Leave out regressions that could not be fitted.
    pub skip_zeroes: bool,
    /// Latency limits that replace those of the run.
    pub limits: Option<Slo>,
    /// The random seed of resampling.
    pub seed: u64,
    /// The request shapes that `cost_model` predicts the energy of.
    pub predict: Vec<RequestShape>,
}

/// The results of an analysis.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Findings {
    /// The main figures.
    pub summary: Map<String, Value>,
    /// All results.
    pub data: Map<String, Value>,
    /// Warnings, with hints.
    pub warnings: Vec<Message>,
    /// The texts in the file of warnings that have another text there, by their text for people.
    pub file_texts: BTreeMap<String, String>,
    /// Tables for people.
    pub tables: Vec<Table>,
}

/// `analysis/<id>.json`, in the shape that tools written for intelligence-per-watt read.
#[derive(Debug, Serialize)]
pub struct Artifact<'a> {
    analysis: &'a str,
    summary: &'a Map<String, Value>,
    warnings: Vec<String>,
    data: &'a Map<String, Value>,
}

/// Finds an analysis by its id.
#[must_use]
pub fn find(id: &str) -> Option<&'static dyn Analysis> {
    ALL.iter().copied().find(|analysis| analysis.id() == id)
}

impl Findings {
    /// The content of `analysis/<id>.json`.
    #[must_use]
    pub fn artifact<'a>(&'a self, id: &'a str) -> Artifact<'a> {
        let text = |warning: &Message| self.file_texts.get(&warning.text).cloned();
        let warnings = self.warnings.iter();
        let warnings =
            warnings.map(|warning| text(warning).unwrap_or_else(|| warning.one_line(&CommandLine))).collect();
        Artifact { analysis: id, summary: &self.summary, warnings, data: &self.data }
    }

    /// Writes `analysis/<id>.json` into the folder of the run or sweep, atomically, and returns its path.
    pub fn write(&self, folder: &Path, id: &str) -> Result<PathBuf, AnalysisError> {
        let folder = folder.join(ANALYSIS_FOLDER);
        create_folder(&folder)?;
        let path = folder.join(format!("{id}.json"));
        write_json(&path, &self.artifact(id))?;
        Ok(path)
    }
}

/// A value as JSON; null if it cannot be represented.
fn to_value<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}
