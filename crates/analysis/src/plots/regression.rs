//! Plots time, energy and power of queries over tokens, with a least-squares line and a robust line.

use ergometer_charts::{Axis, Chart, Mark, Panel, Points, Stroke};
use ergometer_statistics::{Interval, LeastSquares, TheilSen, mean, t_quantile};
use ergometer_units::format::quantity;

use super::{Plot, PlotInput, QuerySample};
use crate::AnalysisError;
use ergometer_runs::saved::Query;

pub(super) struct Regression;

/// Two values of queries that are plotted over each other.
struct Pair {
    id: &'static str,
    title: &'static str,
    x: &'static str,
    y: (&'static str, &'static str),
    of: fn(&Query) -> Option<(f64, f64)>,
    is_energy: bool,
    /// Whether a fit on the logarithm of x is drawn too.
    on_logarithm: bool,
}

const PAIRS: [Pair; 4] = [
    Pair {
        id: "ttft",
        title: "Time to first token by prompt length",
        x: "input tokens",
        y: ("time to first token", "s"),
        of: |query| Some((query.input_tokens? as f64, query.ttft_s?)),
        is_energy: false,
        on_logarithm: false,
    },
    Pair {
        id: "latency",
        title: "E2E latency by tokens",
        x: "input and output tokens",
        y: ("E2E latency, to the end of the stream", "s"),
        of: |query| Some((query.all_tokens()? as f64, query.total_s?)),
        is_energy: false,
        on_logarithm: false,
    },
    Pair {
        id: "energy",
        title: "Energy per query by tokens",
        x: "input and output tokens",
        y: ("gross energy", "J"),
        of: |query| Some((query.all_tokens()? as f64, query.energy?.gross)),
        is_energy: true,
        on_logarithm: false,
    },
    Pair {
        id: "power",
        title: "GPU power during a query by tokens",
        x: "input and output tokens",
        y: ("mean GPU power", "W"),
        of: |query| Some((query.all_tokens()? as f64, query.gpu_watts.filter(|watts| watts.abs() >= 1e-12)?)),
        is_energy: false,
        on_logarithm: true,
    },
];

impl Plot for Regression {
    fn id(&self) -> &'static str {
        "regression"
    }

    fn about(&self) -> &'static str {
        "time, energy and power of queries by tokens, with fitted lines"
    }

    fn needs(&self) -> &'static str {
        "completed queries with token counts"
    }

    fn draw(&self, input: &PlotInput) -> Result<Vec<Chart>, AnalysisError> {
        Ok(PAIRS.iter().filter_map(|pair| draw(pair, input)).collect())
    }
}

fn draw(pair: &Pair, input: &PlotInput) -> Option<Chart> {
    let (mut dots, mut lines, mut fits) = (Vec::new(), Vec::new(), Vec::new());
    let mut notes = if pair.is_energy { input.energy_note() } else { Vec::new() };
    for (run, label, hue) in input.each() {
        let sampled =
            QuerySample::from_queries(run.completed(), pair.of, input.detail.queries() / input.runs.len().max(1));
        if sampled.pairs.is_empty() {
            continue;
        }
        notes.extend(sampled.note());
        let all: Vec<(f64, f64)> = run.completed().filter_map(pair.of).collect();
        let (marks, words) = fitted(pair, &all, input.series(label), hue);
        lines.extend(marks);
        fits.extend(words);
        let (x, y) = sampled.pairs.into_iter().unzip();
        dots.push(Mark::Points(Points {
            label: input.series(label).to_owned(),
            hue,
            x,
            y,
            requests: input.leading(run, sampled.requests),
            ..Points::default()
        }));
    }
    if dots.is_empty() {
        return None;
    }
    if lines.is_empty() {
        notes.push(String::from("No fitted line: all queries have the same length."));
    } else {
        notes.push(String::from(
            "Completed queries. Solid: least squares with a 95 % interval that assumes independent queries. Dashed: Theil-Sen, which is robust to outliers.",
        ));
        notes.extend(fits);
    }
    dots.extend(lines);
    Some(Chart {
        id: pair.id.to_owned(),
        title: pair.title.to_owned(),
        subtitle: input.subtitle(),
        notes,
        x: Axis::from_zero(pair.x, ""),
        panels: vec![Panel { y: Axis::from_zero(pair.y.0, pair.y.1), marks: dots, share: 1.0 }],
    })
}

/// The fitted lines, and a description of each.
fn fitted(pair: &Pair, all: &[(f64, f64)], series: &str, hue: ergometer_charts::Hue) -> (Vec<Mark>, Vec<String>) {
    let Ok(fit) = LeastSquares::fit(all) else { return (Vec::new(), Vec::new()) };
    let low = all.iter().map(|pair| pair.0).fold(f64::INFINITY, f64::min);
    let high = all.iter().map(|pair| pair.0).fold(f64::NEG_INFINITY, f64::max);
    let steps: Vec<f64> = (0..=60).map(|step| low + (high - low) * f64::from(step) / 60.0).collect();
    let at = |x: f64| fit.intercept.value + fit.slope.value * x;
    let mut marks = Vec::new();
    let ends: Option<Vec<Interval>> = steps.iter().map(|&x| interval_at(&fit, all, x)).collect();
    if let Some(ends) = ends {
        // Values are never negative, and the axis starts at zero.
        let (low, high) = ends.iter().map(|ends| (ends.low.max(0.0), ends.high.max(0.0))).unzip();
        marks.push(Mark::Band { hue, x: steps.clone(), low, high });
    }
    let of = if series.is_empty() { String::new() } else { format!(" of {series}") };
    let sign = if fit.slope.value < 0.0 { '-' } else { '+' };
    let mut words = vec![format!(
        "Least squares{of}: {} {sign} {} per token, r² {:.2}.",
        quantity(fit.intercept.value, pair.y.1),
        quantity(fit.slope.value.abs(), pair.y.1),
        fit.r2
    )];
    let line = |label: String, stroke, x: Vec<f64>, y: Vec<f64>| Mark::Line { label, hue, stroke, x, y };
    marks.push(line(series.to_owned(), Stroke::Solid, vec![low, high], vec![at(low), at(high)]));
    if let Ok(robust) = TheilSen::fit(all) {
        let at = |x: f64| robust.intercept + robust.slope * x;
        marks.push(line(String::new(), Stroke::Dashed, vec![low, high], vec![at(low), at(high)]));
    }
    if pair.on_logarithm && low > 0.0 {
        let logarithms: Vec<(f64, f64)> = all.iter().map(|(x, y)| (x.ln(), *y)).collect();
        if let Ok(fit) = LeastSquares::fit(&logarithms) {
            let y = steps.iter().map(|x| fit.intercept.value + fit.slope.value * x.ln()).collect();
            marks.push(line(String::new(), Stroke::Dotted, steps, y));
            words.push(format!("Dotted line{of}: least squares on the logarithm of tokens, r² {:.2}.", fit.r2));
        }
    }
    (marks, words)
}

/// The 95 % interval of the line at x: t s √(1/n + (x - mean)²/Sxx), where s / √Sxx is the slope's standard error.
fn interval_at(fit: &LeastSquares, all: &[(f64, f64)], x: f64) -> Option<Interval> {
    let (count, spread) = (fit.count as f64, fit.residual_std?);
    let mean = mean(all.iter().map(|pair| pair.0))?;
    let error = (spread * spread / count + ((x - mean) * fit.slope.standard_error?).powi(2)).sqrt();
    let half = t_quantile(0.975, count - 2.0)? * error;
    let middle = fit.intercept.value + fit.slope.value * x;
    Some(Interval { low: middle - half, high: middle + half })
}
