//! Plots accuracy over energy of several runs, with the Pareto-optimal ones.

use ergometer_charts::{Axis, Chart, Hue, Mark, Panel, Points, Stroke};
use ergometer_statistics::{Aim, pareto_front};

use super::{Plot, PlotInput};
use crate::AnalysisError;
use ergometer_runs::EnergySource;
use ergometer_runs::metrics::named;
use ergometer_runs::saved::Run;
use ergometer_statistics::Estimate;

pub(super) struct Pareto;

/// The values of a run that decide whether it is Pareto-optimal.
struct Candidate {
    label: String,
    joules: f64,
    accuracy: Estimate,
    latency_ms: f64,
}

impl Plot for Pareto {
    fn id(&self) -> &'static str {
        "pareto"
    }

    fn about(&self) -> &'static str {
        "accuracy over energy of several runs, with the Pareto-optimal ones"
    }

    fn needs(&self) -> &'static str {
        "two or more runs with accuracy, energy and latency"
    }

    fn draw(&self, input: &PlotInput) -> Result<Vec<Chart>, AnalysisError> {
        // Measured and modelled energy are never compared; measured runs are preferred.
        let is_measured = |run: &&Run| run.energy == Some(EnergySource::Measured);
        let source = if input.runs.iter().any(|run| is_measured(&run)) {
            EnergySource::Measured
        } else {
            EnergySource::Modelled
        };
        let alike = input.each().filter(|(run, _, _)| run.energy == Some(source));
        let candidates: Vec<Candidate> = alike.filter_map(|(run, label, _)| judge(run, label)).collect();
        if candidates.len() < 2 {
            return Ok(Vec::new());
        }
        let values: Vec<[f64; 3]> =
            candidates.iter().map(|run| [run.accuracy.value, run.joules, run.latency_ms]).collect();
        let points: Vec<&[f64]> = values.iter().map(<[f64; 3]>::as_slice).collect();
        let front = pareto_front(&points, &[Aim::Higher, Aim::Lower, Aim::Lower]);
        let is_member = |place: usize| matches!(front.get(place), Some(Some(beaten_by)) if beaten_by.is_empty());
        let of = |hue, is_wanted: &dyn Fn(usize) -> bool, label: &str| {
            let mut points = Points { label: label.to_owned(), hue, ..Points::default() };
            for (_, run) in candidates.iter().enumerate().filter(|(place, _)| is_wanted(*place)) {
                points.x.push(run.joules);
                points.y.push(100.0 * run.accuracy.value);
                let (low, high) = run.accuracy.ends().unwrap_or((f64::NAN, f64::NAN));
                points.low.push(100.0 * low);
                points.high.push(100.0 * high);
                points.names.push(run.label.clone());
            }
            points
        };
        let members = of(Hue::Series(0), &is_member, "Pareto-optimal");
        let others = of(Hue::Muted, &|place| !is_member(place), "dominated");
        let mut line: Vec<(f64, f64)> = members.x.iter().copied().zip(members.y.iter().copied()).collect();
        line.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (x, y) = line.into_iter().unzip();
        let mut marks = vec![Mark::Line { label: String::new(), hue: Hue::Series(0), stroke: Stroke::Dotted, x, y }];
        marks.extend([others, members].into_iter().filter(|points| !points.x.is_empty()).map(Mark::Points));
        let lowest = candidates.iter().map(|run| run.joules).fold(f64::INFINITY, f64::min);
        let highest = candidates.iter().map(|run| run.joules).fold(0.0, f64::max);
        let label = "gross energy per query";
        let mut notes = if source == EnergySource::Modelled { input.energy_note() } else { Vec::new() };
        if candidates.len() < input.runs.len() {
            notes.push(format!("{} runs have accuracy, latency and {} energy.", candidates.len(), source.name()));
        }
        notes.push(String::from(
            "Best is top left. A run is dominated if another run is at least as good in accuracy, energy and median E2E latency, and better in one of them.",
        ));
        Ok(vec![Chart {
            id: String::from("pareto"),
            title: String::from("Accuracy over energy"),
            subtitle: input.subtitle(),
            notes,
            x: if highest > 20.0 * lowest { Axis::log(label, "J") } else { Axis::from_zero(label, "J") },
            panels: vec![Panel { y: Axis::linear("correct answers", "%"), marks, share: 1.0 }],
        }])
    }
}

fn judge(run: &Run, label: &str) -> Option<Candidate> {
    let joules = run.energy_totals()?.gross_j_per_query.value;
    let accuracy = run.summary.accuracy.as_ref()?.rate;
    let latency_ms = const { named("e2e_p50") }.key_value(&run.summary)?;
    (joules > 0.0).then(|| Candidate { label: label.to_owned(), joules, accuracy, latency_ms })
}
