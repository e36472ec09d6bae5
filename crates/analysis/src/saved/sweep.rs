//! A sweep: `sweep.json` and the folders of its runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::Run;
use super::run::inside;
use crate::AnalysisError;

/// The latest version of `sweep.json` that is understood.
const VERSION: u64 = 1;

/// A saved sweep.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// Where it is.
    pub folder: PathBuf,
    /// What differs between its points: `concurrency`, `rate` or `replay`.
    pub axis: String,
    /// The model.
    pub model: String,
    /// The machine.
    pub hardware: String,
    /// Its points, in the order they were asked for.
    pub points: Vec<SweepPoint>,
}

/// One load.
#[derive(Debug, Clone)]
pub struct SweepPoint {
    /// Its value on the axis.
    pub value: f64,
    /// What it came to, by the names in `sweep.json`: mean, and the ends of the interval of repeats.
    pub figures: BTreeMap<String, super::Estimate>,
    /// The folders of its runs that are there.
    pub runs: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct Figure {
    mean: f64,
    low: Option<f64>,
    high: Option<f64>,
}

impl Sweep {
    /// Whether a folder has one.
    #[must_use]
    pub fn is_in(folder: &Path) -> bool {
        folder.join("sweep.json").is_file()
    }

    /// Reads that of a folder.
    pub fn open(folder: &Path) -> Result<Self, AnalysisError> {
        let path = folder.join("sweep.json");
        let text = fs::read(&path).map_err(AnalysisError::io("read", &path))?;
        let value: Value = serde_json::from_slice(&text).map_err(AnalysisError::damaged(&path))?;
        let found = value["format_version"].as_u64().unwrap_or(0);
        if found > VERSION {
            return Err(AnalysisError::Version { path, found, known: VERSION });
        }
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let axis = text("axis");
        let points = value["points"].as_array().into_iter().flatten().map(|point| read_point(folder, &axis, point));
        let points: Option<Vec<SweepPoint>> = points.collect();
        let points = points.ok_or_else(|| AnalysisError::Damaged {
            path: path.clone(),
            what: String::from("a point of it has no place on the axis, or a run outside of its folder"),
        })?;
        Ok(Self { folder: folder.to_path_buf(), model: text("model"), hardware: text("hardware_label"), axis, points })
    }

    /// A short name for each of its runs, in their order.
    #[must_use]
    pub fn labels(&self) -> Vec<String> {
        let mut labels = Vec::new();
        for point in &self.points {
            let value = point.value;
            let label = match self.axis.as_str() {
                "concurrency" => format!("{value} in flight"),
                "rate" => format!("{value}/s"),
                _ => format!("×{value}"),
            };
            let is_repeated = point.runs.len() > 1;
            labels.extend(
                (1..=point.runs.len()).map(
                    |run| {
                        if is_repeated { format!("{label}, run {run}") } else { label.clone() }
                    },
                ),
            );
        }
        labels
    }

    /// Its runs that are closed, in the order of the points.
    pub fn runs(&self) -> Result<Vec<Run>, AnalysisError> {
        let runs: Vec<Run> =
            self.points.iter().flat_map(|point| &point.runs).map(|run| Run::open(run)).collect::<Result<_, _>>()?;
        if runs.is_empty() {
            return Err(AnalysisError::NoQueries { path: self.folder.clone() });
        }
        Ok(runs)
    }
}

fn read_point(folder: &Path, axis: &str, point: &Value) -> Option<SweepPoint> {
    let schedule = &point["schedule"];
    let value = match axis {
        "concurrency" => schedule["concurrency"].as_f64(),
        "rate" => schedule["rate"].as_f64(),
        _ => schedule["speed"].as_f64(),
    }?;
    let figures = point["figures"].as_object().into_iter().flatten();
    let figures = figures.filter_map(|(name, figure)| {
        let Figure { mean, low, high } = serde_json::from_value(figure.clone()).ok()?;
        Some((name.clone(), super::Estimate { value: mean, interval: low.zip(high) }))
    });
    let names = point["runs"].as_array().into_iter().flatten().map(|run| run["folder"].as_str());
    let runs: Option<Vec<PathBuf>> = names.map(|name| inside(folder, name?)).collect();
    let runs = runs?.into_iter().filter(|run| run.join("summary.json").is_file());
    Some(SweepPoint { value, figures: figures.collect(), runs: runs.collect() })
}
