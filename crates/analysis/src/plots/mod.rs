//! Plots of saved runs, for `plots/<id>.svg`, `plots/<id>.png` and reports.
//!
//! To add a plot, implement [`Plot`] in a new file and add it to [`ALL`]. Several runs are drawn together, one colour each.

mod accuracy_per_joule;
mod energy_per_token;
mod latency_cdf;
mod output_kde;
mod pareto;
mod power_phases;
mod power_timeline;
mod regression;
mod sweep;

use ergometer_charts::{Chart, Hue};
use ergometer_units::format::thousands;

use crate::AnalysisError;
use ergometer_runs::saved::{Query, Run, SavedSweep, labels};
use ergometer_runs::{EnergySource, Summary};

/// All plots, in reading order.
pub static ALL: &[&dyn Plot] = &[
    &power_timeline::PowerTimeline,
    &power_phases::PowerPhases,
    &latency_cdf::LatencyCdf,
    &regression::Regression,
    &output_kde::OutputKde,
    &energy_per_token::EnergyPerToken,
    &accuracy_per_joule::AccuracyPerJoule,
    &pareto::Pareto,
    &sweep::SweepCurve,
];

/// A plot of saved runs.
pub trait Plot: Sync {
    /// The id.
    fn id(&self) -> &'static str;

    /// A one-line description.
    fn about(&self) -> &'static str;

    /// The data that runs need for the plot.
    fn needs(&self) -> &'static str;

    /// Draws the charts that the runs have data for.
    fn draw(&self, input: &PlotInput) -> Result<Vec<Chart>, AnalysisError>;
}

/// The runs to draw.
#[derive(Debug)]
pub struct PlotInput {
    /// The runs.
    pub runs: Vec<Run>,
    /// A short label for each run.
    pub labels: Vec<String>,
    /// The sweeps that the runs belong to.
    pub sweeps: Vec<SavedSweep>,
    /// The level of detail.
    pub detail: Detail,
}

/// The level of detail of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// A still picture, a few hundred pixels wide.
    Still,
    /// An interactive page with zoom.
    Page,
}

impl Detail {
    /// Maximum number of readings per curve.
    const fn readings(self) -> usize {
        match self {
            Self::Still => 4_000,
            Self::Page => 60_000,
        }
    }

    /// Maximum number of single queries.
    const fn queries(self) -> usize {
        match self {
            Self::Still => 5_000,
            Self::Page => 20_000,
        }
    }
}

impl PlotInput {
    /// The runs, with labels that distinguish them.
    #[must_use]
    pub fn new(runs: Vec<Run>, sweeps: Vec<SavedSweep>, detail: Detail) -> Self {
        // Points of one sweep are labelled by their load, other runs by the differing parts of their folder names.
        let of_sweep = match &sweeps[..] {
            [sweep] => Some(sweep.labels()).filter(|labels| labels.len() == runs.len()),
            _ => None,
        };
        Self { labels: of_sweep.unwrap_or_else(|| labels(&runs)), runs, sweeps, detail }
    }

    /// The runs with their labels and colours.
    fn each(&self) -> impl Iterator<Item = (&Run, &str, Hue)> {
        let runs = self.runs.iter().zip(&self.labels).enumerate();
        runs.map(|(place, (run, label))| (run, label.as_str(), hue(place)))
    }

    /// The label of a series; empty for a single run.
    fn series<'a>(&self, label: &'a str) -> &'a str {
        if self.runs.len() > 1 { label } else { "" }
    }

    /// The request numbers that link to the timeline: only those of the first run.
    fn leading(&self, run: &Run, requests: Vec<u64>) -> Vec<u64> {
        let is_first = self.runs.first().is_some_and(|first| std::ptr::eq(first, run));
        if is_first { requests } else { Vec::new() }
    }

    /// The subtitle: model, hardware, number of queries.
    fn subtitle(&self) -> String {
        let [run] = &self.runs[..] else {
            let of_sweep = self.sweeps.first().filter(|_| self.sweeps.len() == 1);
            let of_sweep = of_sweep
                .map(|sweep| format!("{} · {}: ", sweep.sweep.identity.model, sweep.sweep.identity.hardware_label));
            return format!("{}{}", of_sweep.unwrap_or_default(), self.labels.join("; "));
        };
        let Summary { model, dataset_name, hardware_label, .. } = &run.summary;
        let parts: Vec<&str> = [model, dataset_name, hardware_label]
            .into_iter()
            .map(String::as_str)
            .filter(|part| !part.is_empty())
            .collect();
        let (all, answered) = (run.queries.len(), run.completed().count());
        let counted = if answered == all {
            format!("{} queries", thousands(all as f64))
        } else {
            format!("{} of {} queries answered", thousands(answered as f64), thousands(all as f64))
        };
        format!("{}, {counted}", parts.join(" · "))
    }

    /// A note if the energy is modelled.
    fn energy_note(&self) -> Vec<String> {
        let is_modelled = self.runs.iter().any(|run| run.energy == Some(EnergySource::Modelled));
        is_modelled
            .then(|| String::from("Energy is modelled from CPU utilization, not measured."))
            .into_iter()
            .collect()
    }
}

/// The colour of the run at an index.
fn hue(place: usize) -> Hue {
    Hue::Series(u8::try_from(place % 8).unwrap_or(0))
}

/// Finds a plot by its id.
#[must_use]
pub fn find(id: &str) -> Option<&'static dyn Plot> {
    ALL.iter().copied().find(|plot| plot.id() == id)
}

/// Pairs of values with their request numbers. Too many pairs are thinned evenly, but the extremes of y are kept.
struct QuerySample {
    pairs: Vec<(f64, f64)>,
    requests: Vec<u64>,
    left_out: usize,
}

impl QuerySample {
    fn from_queries<'a>(
        queries: impl Iterator<Item = &'a Query>,
        pair: impl Fn(&Query) -> Option<(f64, f64)>,
        most: usize,
    ) -> Self {
        let all: Vec<(u64, (f64, f64))> = queries.filter_map(|query| Some((query.request, pair(query)?))).collect();
        let step = all.len().div_ceil(most.max(1)).max(1);
        let extreme = |pick: fn(f64, f64) -> f64, start: f64| all.iter().map(|(_, (_, y))| *y).fold(start, pick);
        let (low, high) = (extreme(f64::min, f64::INFINITY), extreme(f64::max, f64::NEG_INFINITY));
        let first_of = |value: f64| all.iter().position(|(_, (_, y))| *y == value);
        let extremes = [first_of(low), first_of(high)];
        let is_kept = |place: usize| place.is_multiple_of(step) || extremes.contains(&Some(place));
        let kept: Vec<(u64, (f64, f64))> =
            all.iter().enumerate().filter(|(place, _)| is_kept(*place)).map(|(_, sample)| *sample).collect();
        let left_out = all.len() - kept.len();
        let (requests, pairs) = kept.into_iter().unzip();
        Self { pairs, requests, left_out }
    }

    fn note(&self) -> Option<String> {
        let drawn = self.pairs.len() as f64;
        (self.left_out > 0).then(|| {
            let all = thousands(drawn + self.left_out as f64);
            format!("{} of {all} queries are drawn; fits use all of them.", thousands(drawn))
        })
    }
}
