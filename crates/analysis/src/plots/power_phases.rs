//! Plots power over time, split into idle power, decode and prefill as stacked areas.

use ergometer_charts::{Axis, Chart, Hue, Mark, Panel};
use ergometer_runs::saved::Run;
use ergometer_units::format::quantity;

use super::{Plot, PlotInput};
use crate::AnalysisError;
use crate::phase_power::{Division, Layers, PhasePower};
use crate::time_axis::TimeAxis;

pub(super) struct PowerPhases;

impl Plot for PowerPhases {
    fn id(&self) -> &'static str {
        "power_phases"
    }

    fn about(&self) -> &'static str {
        "power over time, split into idle power, prefill and decode"
    }

    fn needs(&self) -> &'static str {
        "power readings and idle power"
    }

    fn draw(&self, input: &PlotInput) -> Result<Vec<Chart>, AnalysisError> {
        let charts: Result<Vec<Option<Chart>>, _> =
            input.each().enumerate().map(|(place, (run, label, _))| draw(input, place, run, label)).collect();
        Ok(charts?.into_iter().flatten().collect())
    }
}

/// A layer of the stack, from the bottom up.
struct Layer {
    label: &'static str,
    hue: Hue,
    watts: fn(&Layers) -> f64,
}

const LAYERS: [Layer; 4] = [
    Layer { label: "idle", hue: Hue::Muted, watts: |layers| layers.idle },
    Layer { label: "+ decode", hue: Hue::Series(0), watts: |layers| layers.decode },
    Layer { label: "+ prefill", hue: Hue::Series(1), watts: |layers| layers.prefill },
    Layer { label: "+ above idle", hue: Hue::Series(2), watts: |layers| layers.undivided },
];

fn draw(input: &PlotInput, place: usize, run: &Run, label: &str) -> Result<Option<Chart>, AnalysisError> {
    let Some(power) = PhasePower::read(run, &TimeAxis::from_run(run))? else { return Ok(None) };
    let marks = marks(&power);
    if marks.is_empty() {
        return Ok(None);
    }
    let several = input.runs.len() > 1;
    let id = if several { format!("power_phases_{}", place + 1) } else { String::from("power_phases") };
    let of_run = if several { format!(": {label}") } else { String::new() };
    let is_divided = power.division == Division::CostModel;
    let phases = if is_divided { "idle, decode and prefill" } else { "idle and above idle" };
    let mut notes = input.energy_note();
    notes.extend(rule(&power));
    Ok(Some(Chart {
        id,
        title: format!("Power over time: {phases}{of_run}"),
        subtitle: if several { run.name() } else { input.subtitle() },
        notes,
        x: Axis::linear("time since the first request", "s"),
        panels: vec![Panel { y: Axis::from_zero("power", "W"), marks, share: 1.0 }],
    }))
}

/// How the power was divided.
fn rule(power: &PhasePower) -> Vec<String> {
    let width = quantity(power.width_s, "s");
    let reason = match &power.division {
        Division::CostModel => None,
        Division::NoCostModel => Some(String::from("The run has no cost model")),
        Division::Unreadable(why) => Some(format!("The cost model cannot be read ({why})")),
    };
    if let Some(reason) = reason {
        return vec![
            format!("Mean power in intervals of {width}."),
            format!("{reason}, so prefill and decode are not separated."),
        ];
    }
    let mut notes = vec![format!(
        "Mean power in intervals of {width}, stacked. The total is measured. Power above idle is split into \
         prefill and decode in proportion to the energy that the cost model predicts for each interval: the \
         energy of a prompt is placed at the arrival of its first output token, that of each later token at its own \
         arrival. A decode step is shared equally by the requests that were decoding. The energy of the first tokens after a pause is spread over the \
         pause."
    )];
    if power.bins.iter().flatten().any(|layers| layers.undivided > 0.0) {
        notes.push(String::from(
            "Above idle: no token arrived during or after the interval, so its power is not divided.",
        ));
    }
    notes
}

/// The areas with a line at the top of each, for each stretch of time with known power.
fn marks(power: &PhasePower) -> Vec<Mark> {
    let mut marks = Vec::new();
    let bins: Vec<(usize, &Layers)> =
        power.bins.iter().enumerate().filter_map(|(place, layers)| Some((place, layers.as_ref()?))).collect();
    let stretches: Vec<&[(usize, &Layers)]> = bins.chunk_by(|one, other| one.0 + 1 == other.0).collect();
    for (number, stretch) in stretches.iter().enumerate() {
        let mut below = vec![0.0; stretch.len()];
        for layer in LAYERS {
            let is_there = bins.iter().any(|(_, layers)| (layer.watts)(layers) > 0.0);
            if !is_there {
                continue;
            }
            let above: Vec<f64> =
                below.iter().zip(*stretch).map(|(below, (_, layers))| below + (layer.watts)(layers)).collect();
            // Each bin has a start and an end, so that the area has steps.
            let edges = |(place, _): &(usize, &Layers)| [*place, place + 1].map(|edge| edge as f64 * power.width_s);
            let twice = |values: &[f64]| values.iter().flat_map(|&value| [value, value]).collect::<Vec<f64>>();
            let x: Vec<f64> = stretch.iter().flat_map(edges).collect();
            let (low, high) = (twice(&below), twice(&above));
            marks.push(Mark::Band { hue: layer.hue, x: x.clone(), low, high: high.clone() });
            let label = if number + 1 == stretches.len() { layer.label } else { "" };
            let label = label.to_owned();
            marks.push(Mark::Step { label, hue: layer.hue, x, y: high });
            below = above;
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_stacked_and_end_at_gaps() {
        let layers = |idle: f64, decode: f64| Some(Layers { idle, decode, ..Layers::default() });
        let bins = vec![layers(100.0, 50.0), layers(100.0, 60.0), None, layers(90.0, 0.0)];
        let power = PhasePower { width_s: 0.5, bins, division: Division::CostModel };
        let marks = marks(&power);
        let bands: Vec<(&[f64], &[f64], &[f64])> = marks
            .iter()
            .filter_map(|mark| match mark {
                Mark::Band { x, low, high, .. } => Some((&x[..], &low[..], &high[..])),
                _ => None,
            })
            .collect();
        assert_eq!(bands.len(), 4, "idle and decode of two stretches");
        assert_eq!(bands[1].0, [0.0, 0.5, 0.5, 1.0]);
        assert_eq!((bands[1].1, bands[1].2), (&[100.0; 4][..], &[150.0, 150.0, 160.0, 160.0][..]));
        assert_eq!(bands[3].0, [1.5, 2.0]);
        let labels: Vec<&str> = marks
            .iter()
            .filter_map(|mark| if let Mark::Step { label, .. } = mark { Some(label.as_str()) } else { None })
            .collect();
        assert_eq!(labels, ["", "", "idle", "+ decode"]);
    }
}
