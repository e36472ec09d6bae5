//! Compares runs with a baseline: both values of each metric, the change with its interval, a verdict, and other differences
//! between the runs.
//!
//! Intervals of single runs are a bootstrap over the variation inside the runs. If both sides have several runs, intervals
//! reflect the variation between runs (Welch's t, and Fieller's interval for ratios). Values come from the summaries of the
//! runs. Measured and modelled energy are never compared. The same runs and the same seed always give the same result.

mod comparable;
mod front;
mod limit;
mod metric;
mod pair;
mod row;
mod sample;
mod settings;
mod table;

use ergometer_charts::Table;
use serde::Serialize;

pub use comparable::{Comparability, Difference, Role, Warning};
pub use ergometer_runs::metrics::{Metric, Unit};
pub use front::{Dominance, Front, FrontPoint, front, front_of};
pub use limit::{Bound, Judgement, Limit, LimitError, Operator};
pub use metric::{change, from_records, value};
pub use row::{Effect, Method, Row, Verdict};

use crate::AnalysisError;
use ergometer_diagnostics::{Message, hint};
use ergometer_runs::metrics;
use ergometer_runs::saved::{Run, labels};

/// Options of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The random seed of resampling.
    pub seed: u64,
    /// The number of resamples.
    pub draws: usize,
    /// A change smaller than this share of the baseline (for shares: than this difference) counts as no change.
    pub least_effect: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 0, draws: 2_000, least_effect: 0.0 }
    }
}

/// One side of a comparison: a run, or repeats of one configuration.
#[derive(Debug, Clone, Copy)]
pub struct Group<'a> {
    /// The label.
    pub label: &'a str,
    /// The runs, at least one.
    pub runs: &'a [Run],
}

/// A comparison of candidates with a baseline.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// The baseline.
    pub baseline: Side,
    /// The candidates.
    pub candidates: Vec<Candidate>,
    /// The random seed of resampling.
    pub seed: u64,
    /// The number of resamples.
    pub draws: usize,
}

/// The label and the runs of one side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Side {
    /// The label.
    pub label: String,
    /// The folders of the runs.
    pub runs: Vec<String>,
}

/// A candidate compared with the baseline.
#[derive(Debug, Serialize)]
pub struct Candidate {
    /// The label and the runs.
    #[serde(flatten)]
    pub side: Side,
    /// The number of paired queries; `None` if the runs have different datasets.
    pub paired_queries: Option<usize>,
    /// All metrics that at least one side has.
    pub rows: Vec<Row>,
    /// Other differences between the sides.
    pub comparability: Comparability,
    /// Notes about the intervals.
    pub notes: Vec<String>,
}

/// Compares runs with the first of them.
pub fn compare(runs: &[Run], options: &Options) -> Result<Comparison, AnalysisError> {
    let labels = labels(runs);
    let groups: Vec<Group<'_>> =
        runs.iter().zip(&labels).map(|(run, label)| Group { label, runs: std::slice::from_ref(run) }).collect();
    compare_groups(&groups, options)
}

/// Compares groups of runs with the first of them.
pub fn compare_groups(groups: &[Group<'_>], options: &Options) -> Result<Comparison, AnalysisError> {
    if let Some(run) = groups.iter().flat_map(|group| group.runs).find(|run| run.queries.is_empty()) {
        return Err(AnalysisError::no_queries(&run.folder));
    }
    let filled = |group: &Group<'_>| !group.runs.is_empty();
    let (Some(baseline), true, true) = (groups.first(), groups.len() > 1, groups.iter().all(filled)) else {
        let message = Message::new("there is nothing to compare with");
        return Err(AnalysisError::Impossible(
            message.with_hint(hint!("name two runs, or a sweep with several points")),
        ));
    };
    for group in groups {
        let mut folders: Vec<_> =
            group.runs.iter().map(|run| run.folder.canonicalize().unwrap_or_else(|_| run.folder.clone())).collect();
        folders.sort_unstable();
        if let Some(pair) = folders.windows(2).find(|pair| pair[0] == pair[1]) {
            let twice = pair[0].display();
            let message = Message::new(format!("{twice} is joined with itself"));
            let hint = hint!("join different runs of one configuration");
            return Err(AnalysisError::Impossible(message.with_hint(hint)));
        }
    }
    Ok(Comparison {
        baseline: Side::from_group(baseline),
        candidates: groups[1..].iter().map(|group| Candidate::compare(baseline, group, options)).collect(),
        seed: options.seed,
        draws: options.draws,
    })
}

impl Side {
    fn from_group(group: &Group<'_>) -> Self {
        let runs = group.runs.iter().map(|run| run.folder.display().to_string());
        Self { label: group.label.to_owned(), runs: runs.collect() }
    }
}

impl Candidate {
    fn compare(baseline: &Group<'_>, group: &Group<'_>, options: &Options) -> Self {
        let compared = pair::Pair::new(baseline, group);
        let rows: Vec<Row> = metrics::in_comparisons().filter_map(|metric| compared.row(metric, options)).collect();
        let comparability = Comparability::between(baseline, group);
        let is_alike = comparability.differences.is_empty() && baseline.runs.len() + group.runs.len() == 2;
        let mut notes = compared.notes();
        if is_alike && rows.iter().any(|row| row.verdict.is_change()) {
            notes.insert(
                0,
                String::from(
                    "no setting differs: the changes come from variation between runs, or from something that was not recorded",
                ),
            );
        }
        Self { side: Side::from_group(group), paired_queries: compared.paired(), notes, rows, comparability }
    }

    /// The row of a metric.
    #[must_use]
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.metric.name == name)
    }
}

impl Comparison {
    /// One table per candidate.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        let tables = self.candidates.iter().enumerate();
        tables.map(|(place, candidate)| table::table(&self.baseline, candidate, place)).collect()
    }
}
