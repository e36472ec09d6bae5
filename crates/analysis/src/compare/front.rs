//! Which of several runs are the best of their kind: by accuracy, latency and joules a query, no other is better in one
//! of them and at least as good in the others.

use ergometer_charts::{Cell, Table};
use ergometer_statistics::{Aim, pareto_front};
use serde::{Serialize, Serializer};

use super::metric;
use super::pair::Pair;
use super::row::{Row, Verdict};
use super::{Candidate, Group, Options};
use ergometer_runs::metrics::{self, Metric};
use ergometer_runs::saved::{Run, labels};

/// The front and those behind it.
#[derive(Debug, Clone, Serialize)]
pub struct Front {
    /// By what they are judged.
    #[serde(serialize_with = "names")]
    pub aims: Vec<&'static Metric>,
    /// What they are not judged by, and why.
    pub left_out: Vec<String>,
    /// All of them, in their order.
    pub points: Vec<FrontPoint>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrontPoint {
    /// Its name.
    pub label: String,
    /// Its values, in the order of the aims.
    pub values: Vec<f64>,
    /// Who is better, by their places; nobody, for a member of the front.
    pub dominated_by: Vec<usize>,
    /// One of them, of whom it was asked whether that is certain.
    pub beaten_by: Option<Dominance>,
}

/// Somebody who is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Dominance {
    /// Its place among the points.
    pub by: usize,
    /// Whether the intervals leave no doubt: by every aim it is certainly better, or the same.
    pub is_certain: bool,
}

fn names<S: Serializer>(metrics: &[&'static Metric], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(metrics.iter().map(|metric| metric.name))
}

/// The front of runs.
#[must_use]
pub fn front(runs: &[Run]) -> Front {
    let labels = labels(runs);
    let groups: Vec<Group<'_>> =
        runs.iter().zip(&labels).map(|(run, label)| Group { label, runs: std::slice::from_ref(run) }).collect();
    front_of(&groups, &Options::default(), &[])
}

/// The front of groups of runs. What `candidates` has of their changes from the first group is not asked again.
///
/// Whether it is certain that one is better takes resampling, so it is asked for one pair of each group at most, however
/// many beat it: where a candidate's rows do not say it already, with the first member of the front that does.
#[must_use]
pub fn front_of(groups: &[Group<'_>], options: &Options, candidates: &[Candidate]) -> Front {
    let (mut aims, mut left_out, mut columns) = (Vec::new(), Vec::new(), Vec::new());
    for names in [&["accuracy"][..], &["e2e_p50", "ttft_p50"], &["joules_per_query"]] {
        let mut tried =
            names.iter().filter_map(|name| metrics::find(name)).map(|metric| (metric, column(metric, groups)));
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

/// What it takes to tell whether one is certainly better.
struct Judge<'a> {
    groups: &'a [Group<'a>],
    aims: &'a [&'static Metric],
    options: &'a Options,
    candidates: &'a [Candidate],
}

impl Judge<'_> {
    /// One who is certainly better, where that is known; else one of whom it is not.
    fn beaten_by(&self, place: usize, others: &[usize], member: Option<usize>) -> Option<Dominance> {
        let known = |by: &usize| self.known(*by, place);
        if let Some(by) = others.iter().copied().find(|by| known(by) == Some(true)) {
            return Some(Dominance { by, is_certain: true });
        }
        let by = member.or_else(|| others.first().copied())?;
        Some(Dominance { by, is_certain: known(&by).unwrap_or_else(|| self.resampled(by, place)) })
    }

    /// Whether the rows say so. `None` where they are of other groups.
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
        let pair = Pair::of(&self.groups[place], &self.groups[by]);
        let mut rows = self.aims.iter().filter_map(|metric| pair.row(metric, self.options));
        rows.all(|row| matches!(row.verdict, Verdict::Better | Verdict::Same))
    }
}

/// The values of a metric of all groups, or why it is no aim.
fn column(metric: &'static Metric, groups: &[Group<'_>]) -> Result<Vec<f64>, String> {
    let mut sources: Vec<_> = groups.iter().flat_map(|group| group.runs).map(|run| run.energy).collect();
    sources.dedup();
    if metric.needs_energy() && sources.len() > 1 {
        return Err(String::from("some of it is measured and some modelled or absent"));
    }
    let mean = |group: &Group<'_>| {
        let values: Vec<f64> = group.runs.iter().filter_map(|run| metric::value(metric, run)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let value = |group: &Group<'_>| mean(group).ok_or_else(|| format!("{} does not have it", group.label));
    groups.iter().map(value).collect()
}

impl Front {
    /// Those that nobody beats.
    pub fn members(&self) -> impl Iterator<Item = &FrontPoint> {
        self.points.iter().filter(|point| point.dominated_by.is_empty())
    }

    /// In a line. `None` where there is nothing to judge by.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        if self.aims.is_empty() || self.points.len() < 2 {
            return None;
        }
        let aims: Vec<&str> = self.aims.iter().map(|metric| metric.label).collect();
        let members: Vec<&str> = self.members().map(|point| point.label.as_str()).collect();
        Some(format!("best by {}: {}", aims.join(", "), members.join(", ")))
    }

    /// As people read it. `None` where there is nothing to judge by.
    #[must_use]
    pub fn table(&self) -> Option<Table> {
        let line = self.line()?;
        let mut columns = vec![("", "run")];
        columns.extend(self.aims.iter().map(|metric| (metric.label, metric.name)));
        columns.push(("beaten by", "beaten_by"));
        let mut table = Table::new("front", "The front", &columns);
        for point in &self.points {
            let mut row = vec![Cell::text(point.label.clone())];
            let values = point.values.iter().zip(&self.aims);
            row.extend(values.map(|(value, metric)| Cell::number(Some(*value), |value| metric.unit.format(value))));
            row.push(Cell::text(self.beaten(point)));
            table.rows.push(row);
        }
        table.notes.push(line);
        table.notes.extend(self.left_out.iter().map(|why| format!("not judged by {why}")));
        Some(table)
    }

    /// Who beats it: one by name, the others by their number.
    fn beaten(&self, point: &FrontPoint) -> String {
        let Some(Dominance { by, is_certain }) = point.beaten_by else { return String::from("none") };
        let doubt = if is_certain { "" } else { " (within intervals)" };
        let more = match point.dominated_by.len() {
            0 | 1 => String::new(),
            others => format!(" and {} more", others - 1),
        };
        format!("{}{doubt}{more}", self.points[by].label)
    }
}
