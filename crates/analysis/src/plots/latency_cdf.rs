//! Plots cumulative distributions of TTFT, TPOT and E2E latency.

use ergometer_charts::{Axis, Chart, Mark, Panel, Side};

use super::{Plot, PlotInput};
use crate::AnalysisError;
use ergometer_runs::config::LimitedMetric;
use ergometer_runs::saved::Query;

pub(super) struct LatencyCdf;

/// A latency metric with its title and axis label.
struct Latency {
    id: &'static str,
    title: &'static str,
    label: &'static str,
    /// The metric of its limit in the run's configuration.
    limit: LimitedMetric,
    of: fn(&Query) -> Option<f64>,
}

const LATENCIES: [Latency; 3] = [
    Latency {
        id: "ttft_cdf",
        title: "Time to first token (TTFT)",
        label: "time to first token",
        limit: LimitedMetric::Ttft,
        of: Query::ttft,
    },
    Latency {
        id: "tpot_cdf",
        title: "Time per output token (TPOT)",
        label: "TPOT",
        limit: LimitedMetric::Tpot,
        of: Query::tpot,
    },
    Latency { id: "e2e_cdf", title: "E2E latency", label: "E2E latency", limit: LimitedMetric::E2e, of: Query::e2e },
];

/// Maximum number of steps of a distribution: more than a picture has pixels.
const STEPS: usize = 1_000;

impl Plot for LatencyCdf {
    fn id(&self) -> &'static str {
        "latency_cdf"
    }

    fn about(&self) -> &'static str {
        "cumulative distributions of TTFT, TPOT and E2E latency"
    }

    fn needs(&self) -> &'static str {
        "completed queries"
    }

    fn draw(&self, input: &PlotInput) -> Result<Vec<Chart>, AnalysisError> {
        Ok(LATENCIES.iter().filter_map(|latency| draw(latency, input)).collect())
    }
}

fn draw(latency: &Latency, input: &PlotInput) -> Option<Chart> {
    let (mut marks, mut lowest, mut highest) = (Vec::new(), f64::INFINITY, 0.0_f64);
    for (run, label, hue) in input.each() {
        let mut sorted: Vec<f64> = run.completed().filter_map(latency.of).filter(|value| *value > 0.0).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let (Some(&first), Some(&last)) = (sorted.first(), sorted.last()) else { continue };
        (lowest, highest) = (lowest.min(first), highest.max(last));
        let (x, y) = distribution(&sorted);
        marks.push(Mark::Step { label: input.series(label).to_owned(), hue, x, y });
    }
    let first = input.runs.first()?;
    if marks.is_empty() {
        return None;
    }
    let config = first.summary.profiler_config.known().filter(|_| input.runs.len() == 1);
    let limit = config.and_then(|config| config.slo.limit(latency.limit));
    marks.extend(limit.map(|at| Mark::Rule {
        side: Side::X,
        at,
        label: String::from("limit"),
        hue: ergometer_charts::Hue::Bad,
    }));
    // On a linear axis, a tail of more than fifty times the shortest latency would squeeze the rest.
    let x = if highest > 50.0 * lowest {
        Axis::log(latency.label, "s")
    } else if lowest > 0.5 * highest {
        Axis::linear(latency.label, "s")
    } else {
        Axis::from_zero(latency.label, "s")
    };
    Some(Chart {
        id: latency.id.to_owned(),
        title: latency.title.to_owned(),
        subtitle: input.subtitle(),
        notes: vec![String::from("Share of completed queries with at most this latency. The median is at 50 %.")],
        x,
        panels: vec![Panel { y: Axis::from_zero("share of queries", "%").within(0.0, 100.0), marks, share: 1.0 }],
    })
}

/// The steps of the cumulative distribution of sorted values.
fn distribution(sorted: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let count = sorted.len();
    let step = count.div_ceil(STEPS).max(1);
    let places = (0..count).filter(|place| (place + 1) % step == 0 || place + 1 == count || *place == 0);
    let start = std::iter::once((sorted[0], 0.0));
    start.chain(places.map(|place| (sorted[place], 100.0 * (place + 1) as f64 / count as f64))).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_steps_at_its_values() {
        let (x, y) = distribution(&[1.0, 2.0, 4.0, 8.0]);
        assert_eq!((x, y), (vec![1.0, 1.0, 2.0, 4.0, 8.0], vec![0.0, 25.0, 50.0, 75.0, 100.0]));
        let many: Vec<f64> = (1..=100_000).map(f64::from).collect();
        let (x, y) = distribution(&many);
        assert!(x.len() <= STEPS + 2 && x.iter().zip(&y).skip(1).all(|(x, y)| (x / 1000.0 - y).abs() < 1e-9));
    }
}
