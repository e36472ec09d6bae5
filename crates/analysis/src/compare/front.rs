//! Which of several runs are the best of their kind: by accuracy, latency and joules a query, no other is better in one
//! of them and at least as good in the others.

use ergometer_charts::{Cell, Table};
use ergometer_statistics::{Aim, pareto_front};
use serde::{Serialize, Serializer};

use super::metric::Metric;
use super::pair::Pair;
use super::row::Verdict;
use super::{Group, Options};
use crate::saved::{Run, labels};

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
    /// Who is better; nobody, for a member of the front.
    pub dominated_by: Vec<Dominance>,
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
    front_of(&groups, &Options::default())
}

/// The front of groups of runs.
#[must_use]
pub fn front_of(groups: &[Group<'_>], options: &Options) -> Front {
    let (mut aims, mut left_out, mut columns) = (Vec::new(), Vec::new(), Vec::new());
    for names in [&["accuracy"][..], &["e2e_p50", "ttft_p50"], &["joules_per_query"]] {
        let mut tried =
            names.iter().filter_map(|name| Metric::find(name)).map(|metric| (metric, column(metric, groups)));
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
    let certain = |by: usize, of: usize| {
        let pair = Pair::of(&groups[of], &groups[by]);
        let mut rows = aims.iter().filter_map(|metric| pair.row(metric, options));
        rows.all(|row| matches!(row.verdict, Verdict::Better | Verdict::Same))
    };
    let points = points.into_iter().zip(dominators).enumerate().map(|(place, (values, dominators))| FrontPoint {
        label: groups[place].label.to_owned(),
        values,
        dominated_by: dominators
            .unwrap_or_default()
            .into_iter()
            .map(|by| Dominance { by, is_certain: certain(by, place) })
            .collect(),
    });
    let points = points.collect();
    Front { aims, left_out, points }
}

/// The values of a metric of all groups, or why it is no aim.
fn column(metric: &'static Metric, groups: &[Group<'_>]) -> Result<Vec<f64>, String> {
    let mut sources: Vec<_> = groups.iter().flat_map(|group| group.runs).map(|run| run.energy).collect();
    sources.dedup();
    if metric.is_energy() && sources.len() > 1 {
        return Err(String::from("some of it is measured and some modelled or absent"));
    }
    let mean = |group: &Group<'_>| {
        let values: Vec<f64> = group.runs.iter().filter_map(|run| metric.value(run)).collect();
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
            row.extend(values.map(|(value, metric)| Cell::number(Some(*value), |value| metric.unit.shown(value))));
            let beaten = |dominance: &Dominance| {
                let label = &self.points[dominance.by].label;
                if dominance.is_certain { label.clone() } else { format!("{label} (within intervals)") }
            };
            let beaten: Vec<String> = point.dominated_by.iter().map(beaten).collect();
            row.push(if beaten.is_empty() { Cell::text("none") } else { Cell::text(beaten.join(", ")) });
            table.rows.push(row);
        }
        table.notes.push(line);
        table.notes.extend(self.left_out.iter().map(|why| format!("not judged by {why}")));
        Some(table)
    }
}
