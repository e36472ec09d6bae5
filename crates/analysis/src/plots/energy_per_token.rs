//! Plots energy per output token over answer length.

use ergometer_charts::{Axis, Chart, Hue, Mark, Panel, Points};
use ergometer_statistics::{Resampling, ratio_interval};

use super::{Plot, PlotInput, QuerySample};
use crate::AnalysisError;
use ergometer_runs::saved::{Query, Run};

pub(super) struct EnergyPerToken;

/// Number of groups of equal size.
const GROUPS: usize = 8;

/// Minimum number of queries per group, for its interval.
const LEAST: usize = 12;

impl Plot for EnergyPerToken {
    fn id(&self) -> &'static str {
        "energy_per_token"
    }

    fn about(&self) -> &'static str {
        "joules per output token by answer length"
    }

    fn needs(&self) -> &'static str {
        "energy and token counts, with answers of different lengths"
    }

    fn draw(&self, input: &PlotInput) -> Result<Vec<Chart>, AnalysisError> {
        let (mut marks, mut notes) = (Vec::new(), input.energy_note());
        let (mut lowest, mut highest) = (f64::INFINITY, 0.0_f64);
        for (run, label, hue) in input.each() {
            let pair = |query: &Query| {
                let joules = query.joules_per_output_token().filter(|joules| *joules > 0.0)?;
                Some((query.output_tokens? as f64, joules))
            };
            let sampled =
                QuerySample::from_queries(run.completed(), pair, input.detail.queries() / input.runs.len().max(1));
            let is_one_length = sampled.pairs.iter().all(|pair| pair.0 == sampled.pairs[0].0);
            if sampled.pairs.is_empty() || is_one_length {
                continue;
            }
            notes.extend(sampled.note());
            for (_, joules) in &sampled.pairs {
                (lowest, highest) = (lowest.min(*joules), highest.max(*joules));
            }
            let (x, y) = sampled.pairs.into_iter().unzip();
            let dots = if input.runs.len() > 1 { hue } else { Hue::Muted };
            marks.push(Mark::Points(Points {
                hue: dots,
                x,
                y,
                requests: input.leading(run, sampled.requests),
                ..Points::default()
            }));
            let mut groups = groups(run);
            input.series(label).clone_into(&mut groups.label);
            groups.hue = hue;
            if !groups.x.is_empty() {
                marks.push(Mark::Points(groups));
            }
        }
        if marks.is_empty() {
            return Ok(Vec::new());
        }
        notes.push(String::from(if input.runs.iter().any(|run| run.block() > 1) {
            "Colored dots are groups of queries of similar length: total joules / total output tokens. Queries overlap, so groups have no interval."
        } else {
            "Dots with whiskers are groups of queries of similar length: total joules / total output tokens, with a 95 % interval (bootstrap)."
        }));
        let y = "gross energy per output token";
        Ok(vec![Chart {
            id: String::from("energy_per_token"),
            title: String::from("Energy per token by answer length"),
            subtitle: input.subtitle(),
            notes,
            x: Axis::from_zero("output tokens", ""),
            panels: vec![Panel {
                y: if highest > 30.0 * lowest { Axis::log(y, "J") } else { Axis::from_zero(y, "J") },
                marks,
                share: 1.0,
            }],
        }])
    }
}

/// Σ joules / Σ tokens of groups of queries of similar length.
fn groups(run: &Run) -> Points {
    let mut pairs: Vec<(f64, f64)> = run
        .completed()
        .filter_map(|query| Some((query.energy?.gross, query.output_tokens.filter(|&tokens| tokens > 0)? as f64)))
        .collect();
    pairs.sort_by(|one, other| one.1.total_cmp(&other.1));
    let groups = (pairs.len() / LEAST).min(GROUPS);
    let mut points = Points::default();
    for place in 0..groups {
        let group = &pairs[pairs.len() * place / groups..pairs.len() * (place + 1) / groups];
        let (joules, tokens) = group.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
        // Concurrent queries are correlated, and sorting by length separates them, so a block bootstrap is impossible.
        let is_alone = run.block() == 1;
        let interval = ratio_interval(group, Resampling { draws: 1_000, ..Resampling::default() }).filter(|_| is_alone);
        points.x.push(tokens / group.len() as f64);
        points.y.push(joules / tokens);
        points.low.push(interval.map_or(f64::NAN, |interval| interval.low));
        points.high.push(interval.map_or(f64::NAN, |interval| interval.high));
    }
    points
}
