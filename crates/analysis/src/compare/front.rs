//! The Pareto front of several runs by accuracy, latency and energy per query: the runs that no other run dominates.

use ergometer_charts::{Cell, Table};
use ergometer_statistics::{Aim, mean, pareto_front};
use serde::{Serialize, Serializer};

use super::metric;
use super::pair::Pair;
use super::row::{Row, Verdict};
use super::{Candidate, Group, Options};
use ergometer_runs::metrics::{Metric, named};
use ergometer_runs::saved::{Run, labels};

/// The aims of the front. Of each list it uses the first metric that all runs have.
const AIMS: [&[&Metric]; 3] =
    [&[named("accuracy")], &[named("e2e_p50"), named("ttft_p50")], &[named("joules_per_query")]];

/// The Pareto front and the dominated runs.
#[derive(Debug, Clone, Serialize)]
pub struct Front {
    /// The metrics that are compared.
    #[serde(serialize_with = "names")]
    pub aims: Vec<&'static Metric>,
    /// The metrics that are not compared, with the reason.
    pub left_out: Vec<String>,
    /// All runs, in the order given.
    pub points: Vec<FrontPoint>,
}

/// A run of the Pareto front or a dominated one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrontPoint {
    /// The label.
    pub label: String,
    /// The values, in the order of `aims`.
    pub values: Vec<f64>,
    /// The indices of the runs that dominate this one; empty for a member of the front.
    pub dominated_by: Vec<usize>,
    /// One dominating run, and whether it is certain.
    pub beaten_by: Option<Dominance>,
}

/// A dominating run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Dominance {
    /// Its index among the points.
    pub by: usize,
    /// Whether it is significantly better, or the same, by every metric.
    pub is_certain: bool,
}

fn names<S: Serializer>(metrics: &[&'static Metric], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(metrics.iter().map(|metric| metric.name))
}

/// The Pareto front of runs.
#[must_use]
pub fn front(runs: &[Run]) -> Front {
    let labels = labels(runs);
    let groups: Vec<Group<'_>> =
        runs.iter().zip(&labels).map(|(run, label)| Group { label, runs: std::slice::from_ref(run) }).collect();
    front_of(&groups, &Options::default(), &[])
}

/// The Pareto front of groups of runs. Changes from the first group are taken from `candidates`.
///
/// Whether a dominance is certain needs resampling, so it is checked for at most one pair per group: with the first member
/// of the front that dominates the group, unless the rows of a candidate already have the answer.
#[must_use]
pub fn front_of(groups: &[Group<'_>], options: &Options, candidates: &[Candidate]) -> Front {
    let (mut aims, mut left_out, mut columns) = (Vec::new(), Vec::new(), Vec::new());
    for metrics in AIMS {
        let mut tried = metrics.iter().map(|&metric| (metric, column(metric, groups)));
        let Some(first) = tried.next() else { continue };
        let chosen = if first.1.is_err() { tried.find(|(_, column)| column.is_ok()).unwrap_or(first) } else { first };
        match chosen {
            (metric, Ok(column)) => {
                aims.push(metric);
                columns.push(column);
            }
            (metric, Err(why)) => left_out.push(format!("{}: {why}", metric.label)),
        }
    }
    let points: Vec<Vec<f64>> =
        (0..groups.len()).map(|place| columns.iter().map(|column| column[place]).collect()).collect();
    let directions: Vec<Aim> = aims.iter().map(|metric| metric.better.unwrap_or(Aim::Lower)).collect();
    let slices: Vec<&[f64]> = points.iter().map(Vec::as_slice).collect();
    let dominators = pareto_front(&slices, &directions);
    let judge = Judge { groups, aims: &aims, options, candidates };
    let is_member = |place: &usize| dominators[*place].as_ref().is_none_or(Vec::is_empty);
    let beaten_by = |place: usize| {
        let others = dominators[place].as_deref().unwrap_or_default();
        judge.beaten_by(place, others, others.iter().copied().find(is_member))
    };
    let points = points.into_iter().enumerate().map(|(place, values)| FrontPoint {
        label: groups[place].label.to_owned(),
        values,
        dominated_by: dominators[place].clone().unwrap_or_default(),
        beaten_by: beaten_by(place),
    });
    let points = points.collect();
    Front { aims, left_out, points }
}

/// The data needed to decide whether a dominance is certain.
struct Judge<'a> {
    groups: &'a [Group<'a>],
    aims: &'a [&'static Metric],
    options: &'a Options,
    candidates: &'a [Candidate],
}

impl Judge<'_> {
    /// A run that certainly dominates, if one is known; otherwise any dominating run.
    fn beaten_by(&self, place: usize, others: &[usize], member: Option<usize>) -> Option<Dominance> {
        let known = |by: &usize| self.known(*by, place);
        if let Some(by) = others.iter().copied().find(|by| known(by) == Some(true)) {
            return Some(Dominance { by, is_certain: true });
        }
        let by = member.or_else(|| others.first().copied())?;
        Some(Dominance { by, is_certain: known(&by).unwrap_or_else(|| self.resampled(by, place)) })
    }

    /// Whether the rows of a candidate show a certain dominance; `None` if they are of other groups.
    fn known(&self, by: usize, place: usize) -> Option<bool> {
        let (candidate, good) = match (by, place) {
            (0, candidate) => (candidate, Verdict::Worse),
            (candidate, 0) => (candidate, Verdict::Better),
            _ => return None,
        };
        let rows = self.candidates.get(candidate.checked_sub(1)?)?;
        let is_good = |row: &Row| row.verdict == good || row.verdict == Verdict::Same;
        Some(self.aims.iter().filter_map(|metric| rows.row(metric.name)).all(is_good))
    }

    fn resampled(&self, by: usize, place: usize) -> bool {
        let pair = Pair::new(&self.groups[place], &self.groups[by]);
        let mut rows = self.aims.iter().filter_map(|metric| pair.row(metric, self.options));
        rows.all(|row| matches!(row.verdict, Verdict::Better | Verdict::Same))
    }
}

/// The values of a metric for all groups, or why it cannot be compared.
fn column(metric: &'static Metric, groups: &[Group<'_>]) -> Result<Vec<f64>, String> {
    let mut sources: Vec<_> = groups.iter().flat_map(|group| group.runs).map(|run| run.energy).collect();
    sources.dedup();
    if metric.needs_energy() && sources.len() > 1 {
        return Err(String::from("some runs have measured energy, others modelled or no energy"));
    }
    let mean_of = |group: &Group<'_>| mean(group.runs.iter().filter_map(|run| metric::value(metric, run)));
    let value = |group: &Group<'_>| mean_of(group).ok_or_else(|| format!("run `{}` has no value", group.label));
    groups.iter().map(value).collect()
}

impl Front {
    /// The Pareto-optimal runs.
    pub fn members(&self) -> impl Iterator<Item = &FrontPoint> {
        self.points.iter().filter(|point| point.dominated_by.is_empty())
    }

    /// The Pareto-optimal runs in one line; `None` without metrics.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        if self.aims.is_empty() || self.points.len() < 2 {
            return None;
        }
        let aims: Vec<&str> = self.aims.iter().map(|metric| metric.label).collect();
        let members: Vec<&str> = self.members().map(|point| point.label.as_str()).collect();
        Some(format!("Pareto-optimal by {}: {}", aims.join(", "), members.join(", ")))
    }

    /// The front as a table; `None` without metrics.
    #[must_use]
    pub fn table(&self) -> Option<Table> {
        let line = self.line()?;
        let mut columns = vec![("", "run")];
        columns.extend(self.aims.iter().map(|metric| (metric.label, metric.name)));
        columns.push(("dominated by", "beaten_by"));
        let mut table = Table::new("front", "Pareto front", &columns);
        for point in &self.points {
            let mut row = vec![Cell::text(point.label.clone())];
            let values = point.values.iter().zip(&self.aims);
            row.extend(values.map(|(value, metric)| Cell::number(Some(*value), |value| metric.unit.format(value))));
            row.push(Cell::text(self.beaten(point)));
            table.rows.push(row);
        }
        table.notes.push(line);
        table.notes.extend(self.left_out.iter().map(|why| format!("not compared by {why}")));
        Some(table)
    }

    /// The dominating runs: one by label, and the number of others.
    fn beaten(&self, point: &FrontPoint) -> String {
        let Some(Dominance { by, is_certain }) = point.beaten_by else { return String::from("none") };
        let doubt = if is_certain { "" } else { " (not significant)" };
        let more = match point.dominated_by.len() {
            0 | 1 => String::new(),
            others => format!(" and {} more", others - 1),
        };
        format!("{}{doubt}{more}", self.points[by].label)
    }
}
