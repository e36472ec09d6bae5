//! Runs beside each other: a baseline and candidates go in; of each metric both values, the change with its interval and
//! a verdict come out, and what else differs between them.
//!
//! Intervals come from what varies inside the two runs, by bootstrap; where both sides are several runs, from what varies
//! between the runs, by Welch's t and Fieller's interval of a ratio. Values are those of the runs' summaries. Joules that were measured and joules that
//! were modelled are never compared. The same runs and the same seed always give the same.

mod comparable;
mod front;
mod limit;
mod metric;
mod pair;
mod row;
mod sample;
mod shown;

use ergometer_charts::Table;
use serde::Serialize;

pub use comparable::{Comparability, Difference, Role, Warning};
pub use ergometer_runs::metrics::{Metric, Unit};
pub use front::{Dominance, Front, FrontPoint, front, front_of};
pub use limit::{Bound, Judgement, Limit, Operator};
pub use metric::{change, from_records, value};
pub use row::{Effect, Method, Row, Verdict};

use crate::AnalysisError;
use ergometer_diagnostics::{Message, hint};
use ergometer_runs::metrics;
use ergometer_runs::saved::{Run, labels};

/// How to compare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The seed of resampling.
    pub seed: u64,
    /// How often it is resampled.
    pub draws: usize,
    /// A change smaller than this part of the baseline (of shares: than this share) is none.
    pub least_effect: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 0, draws: 2_000, least_effect: 0.0 }
    }
}

/// One side: a run, or several of the same.
#[derive(Debug, Clone, Copy)]
pub struct Group<'a> {
    /// What people call it.
    pub label: &'a str,
    /// Its runs; at least one.
    pub runs: &'a [Run],
}

/// All of it.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// What the others are compared with.
    pub baseline: Side,
    /// The others.
    pub candidates: Vec<Candidate>,
    /// The seed.
    pub seed: u64,
    /// How often it was resampled.
    pub draws: usize,
}

/// One side, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Side {
    /// What people call it.
    pub label: String,
    /// Where its runs are.
    pub runs: Vec<String>,
}

/// One that was compared with the baseline.
#[derive(Debug, Serialize)]
pub struct Candidate {
    /// Its name and runs.
    #[serde(flatten)]
    pub side: Side,
    /// How many queries were compared one by one; `None` where the runs have different ones.
    pub paired_queries: Option<usize>,
    /// Every metric that one of the two has.
    pub rows: Vec<Row>,
    /// What else differs.
    pub comparability: Comparability,
    /// What to know about the intervals.
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
            let message = Message::new(format!("{twice} is given twice on one side"));
            let hint = hint!("join different runs of one configuration");
            return Err(AnalysisError::Impossible(message.with_hint(hint)));
        }
    }
    Ok(Comparison {
        baseline: Side::of(baseline),
        candidates: groups[1..].iter().map(|group| Candidate::of(baseline, group, options)).collect(),
        seed: options.seed,
        draws: options.draws,
    })
}

impl Side {
    fn of(group: &Group<'_>) -> Self {
        let runs = group.runs.iter().map(|run| run.folder.display().to_string());
        Self { label: group.label.to_owned(), runs: runs.collect() }
    }
}

impl Candidate {
    fn of(baseline: &Group<'_>, group: &Group<'_>, options: &Options) -> Self {
        let compared = pair::Pair::of(baseline, group);
        let rows: Vec<Row> = metrics::in_comparisons().filter_map(|metric| compared.row(metric, options)).collect();
        let comparability = Comparability::of(baseline, group);
        let is_alike = comparability.differences.is_empty() && baseline.runs.len() + group.runs.len() == 2;
        let mut notes = compared.notes();
        if is_alike && rows.iter().any(|row| row.verdict.is_change()) {
            notes.insert(
                0,
                String::from(
                    "nothing was set differently: what changed is what varies from run to run, or was not recorded",
                ),
            );
        }
        Self { side: Side::of(group), paired_queries: compared.paired(), notes, rows, comparability }
    }

    /// The row of a metric.
    #[must_use]
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.metric.name == name)
    }
}

impl Comparison {
    /// As people read it: a table for each candidate.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        let tables = self.candidates.iter().enumerate();
        tables.map(|(place, candidate)| shown::table(&self.baseline, candidate, place)).collect()
    }
}
