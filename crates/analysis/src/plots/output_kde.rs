//! Plots the density of answer lengths.

use ergometer_charts::{Axis, Chart, Mark, Panel, Scale, Side, Stroke};
use ergometer_statistics::{Density, Distribution};
use ergometer_units::format::digits;

use super::{Plot, PlotInput};
use crate::AnalysisError;

pub(super) struct OutputKde;

impl Plot for OutputKde {
    fn id(&self) -> &'static str {
        "output_kde"
    }

    fn about(&self) -> &'static str {
        "density of answer lengths"
    }

    fn needs(&self) -> &'static str {
        "answers of different lengths, with token counts"
    }

    fn draw(&self, input: &PlotInput) -> Result<Vec<Chart>, AnalysisError> {
        let (mut marks, mut notes) = (Vec::new(), Vec::new());
        for (run, label, hue) in input.each() {
            let lengths: Vec<f64> =
                run.completed().filter_map(|query| query.output_tokens).map(|tokens| tokens as f64).collect();
            let (Some(density), Some(lengths)) = (Density::from_values(&lengths), Distribution::from_values(&lengths))
            else {
                continue;
            };
            let low = vec![0.0; density.at.len()];
            marks.push(Mark::Band { hue, x: density.at.clone(), low, high: density.density.clone() });
            marks.push(Mark::Line {
                label: input.series(label).to_owned(),
                hue,
                stroke: Stroke::Solid,
                x: density.at,
                y: density.density,
            });
            let rule = |at: f64, label: String| Mark::Rule { side: Side::X, at, label, hue };
            if input.runs.len() == 1 {
                notes.push(format!("Mean {}, from {} to {} tokens.", digits(lengths.mean), lengths.min, lengths.max));
                marks.push(rule(lengths.p50, format!("median {}", digits(lengths.p50))));
            }
            notes.push(format!(
                "{}{} answers; density with Gaussian kernels, bandwidth {} tokens (0.9 × standard deviation × count^-1/5).",
                if input.runs.len() > 1 { format!("{label}: ") } else { String::new() },
                ergometer_units::format::thousands(lengths.count as f64),
                digits(density.bandwidth),
            ));
        }
        if marks.is_empty() {
            return Ok(Vec::new());
        }
        let y = Axis { scale: Scale::Plain, ..Axis::from_zero("share of answers", "") };
        Ok(vec![Chart {
            id: String::from("completion_tokens_kde"),
            title: String::from("Answer lengths"),
            subtitle: input.subtitle(),
            notes,
            x: Axis::linear("output tokens", ""),
            panels: vec![Panel { y, marks, share: 1.0 }],
        }])
    }
}
