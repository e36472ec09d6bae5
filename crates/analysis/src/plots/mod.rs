//! The plots: saved runs go in; charts come out, which become `plots/<id>.svg` and `.png` and stand on the page of a report.
//!
//! A plot is one file that implements [`Plot`] and one line in [`ALL`]. Several runs are drawn together, a colour each.

mod accuracy_per_joule;
mod energy_per_token;
mod latency_cdf;
mod output_kde;
mod pareto;
mod power_timeline;
mod regression;
mod sweep;

use ergometer_charts::{Chart, Hue};
use ergometer_units::format::thousands;

use crate::AnalysisError;
use ergometer_runs::saved::{Query, Run, SavedSweep, labels};
use ergometer_runs::{EnergySource, Summary};

/// Every plot, in the order in which people look at them.
pub static ALL: &[&dyn Plot] = &[
    &power_timeline::PowerTimeline,
    &latency_cdf::LatencyCdf,
    &regression::Regression,
    &output_kde::OutputKde,
    &energy_per_token::EnergyPerToken,
    &accuracy_per_joule::AccuracyPerJoule,
    &pareto::Pareto,
    &sweep::SweepCurve,
];

/// Something to be seen.
pub trait Plot: Sync {
    /// Its name.
    fn id(&self) -> &'static str;

    /// What it shows, in a line.
    fn about(&self) -> &'static str;

    /// What runs must have for it.
    fn needs(&self) -> &'static str;

    /// Draws it; no chart, or fewer, where the runs don't have what it takes.
    fn draw(&self, shown: &Shown) -> Result<Vec<Chart>, AnalysisError>;
}

/// What is drawn.
#[derive(Debug)]
pub struct Shown {
    /// The runs.
    pub runs: Vec<Run>,
    /// A short name for each.
    pub labels: Vec<String>,
    /// The sweeps that runs come from.
    pub sweeps: Vec<SavedSweep>,
    /// How much of it.
    pub detail: Detail,
}

/// For whom a chart is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// A picture some hundred dots wide.
    Still,
    /// A page on which one can look closer.
    Page,
}

impl Detail {
    /// How many readings of a curve are drawn at most.
    const fn readings(self) -> usize {
        match self {
            Self::Still => 4_000,
            Self::Page => 60_000,
        }
    }

    /// How many queries are drawn one by one at most.
    const fn queries(self) -> usize {
        match self {
            Self::Still => 5_000,
            Self::Page => 20_000,
        }
    }
}

impl Shown {
    /// These runs, called by what tells them apart.
    #[must_use]
    pub fn new(runs: Vec<Run>, sweeps: Vec<SavedSweep>, detail: Detail) -> Self {
        // Points of one sweep are called by their load, all others by what tells their folders apart.
        let of_sweep = match &sweeps[..] {
            [sweep] => Some(sweep.labels()).filter(|labels| labels.len() == runs.len()),
            _ => None,
        };
        Self { labels: of_sweep.unwrap_or_else(|| labels(&runs)), runs, sweeps, detail }
    }

    /// The runs with their names and colours.
    fn each(&self) -> impl Iterator<Item = (&Run, &str, Hue)> {
        let runs = self.runs.iter().zip(&self.labels).enumerate();
        runs.map(|(place, (run, label))| (run, label.as_str(), hue(place)))
    }

    /// A name where there is something to tell apart.
    fn series<'a>(&self, label: &'a str) -> &'a str {
        if self.runs.len() > 1 { label } else { "" }
    }

    /// The numbers of requests, where they lead to the request: those of the first run.
    fn leading(&self, run: &Run, requests: Vec<u64>) -> Vec<u64> {
        let is_first = self.runs.first().is_some_and(|first| std::ptr::eq(first, run));
        if is_first { requests } else { Vec::new() }
    }

    /// Of what, on what.
    fn subtitle(&self) -> String {
        let [run] = &self.runs[..] else {
            let of_sweep = self.sweeps.first().filter(|_| self.sweeps.len() == 1);
            let of_sweep = of_sweep
                .map(|sweep| format!("{} · {}: ", sweep.sweep.identity.model, sweep.sweep.identity.hardware_label));
            return format!("{}{}", of_sweep.unwrap_or_default(), self.labels.join(", "));
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

    /// What to say of energy: nothing where it is measured.
    fn energy_note(&self) -> Vec<String> {
        let is_modelled = self.runs.iter().any(|run| run.energy == Some(EnergySource::Modelled));
        is_modelled
            .then(|| String::from("Energy is modelled from the use of the processor, not measured."))
            .into_iter()
            .collect()
    }
}

/// The colour of the run at a place.
fn hue(place: usize) -> Hue {
    Hue::Series(u8::try_from(place % 8).unwrap_or(0))
}

/// The plot of a name.
#[must_use]
pub fn find(id: &str) -> Option<&'static dyn Plot> {
    ALL.iter().copied().find(|plot| plot.id() == id)
}

/// Pairs of values with the request each is of; where there are too many, evenly fewer, with the extremes of y kept.
struct Sampled {
    pairs: Vec<(f64, f64)>,
    requests: Vec<u64>,
    left_out: usize,
}

impl Sampled {
    fn of<'a>(
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
            format!("{} of {all} queries are drawn; lines come from all.", thousands(drawn))
        })
    }
}
