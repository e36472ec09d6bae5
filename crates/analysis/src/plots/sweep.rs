//! Plots latency and energy per token of a sweep over throughput.

use ergometer_charts::{Axis, Chart, Mark, Panel, Points, Side, Stroke};

use super::{Plot, PlotInput, hue};
use crate::AnalysisError;
use crate::curve::Curve;
use ergometer_runs::config::Axis as LoadAxis;
use ergometer_runs::metrics::{Metric, named};
use ergometer_runs::sweep::{Point, Spread, Sweep};

const THROUGHPUT: &Metric = named("output_tokens_per_second");
const LATENCIES: [&Metric; 3] = [named("ttft_p50"), named("ttft_p99"), named("itl_p50")];

pub(super) struct SweepCurve;

impl Plot for SweepCurve {
    fn id(&self) -> &'static str {
        "sweep"
    }

    fn about(&self) -> &'static str {
        "latency and joules per token over throughput, for a sweep"
    }

    fn needs(&self) -> &'static str {
        "a sweep folder"
    }

    fn draw(&self, input: &PlotInput) -> Result<Vec<Chart>, AnalysisError> {
        let several = input.sweeps.len() > 1;
        let mut charts = Vec::new();
        for (place, sweep) in input.sweeps.iter().enumerate() {
            charts.extend(draw(&sweep.sweep, &Curve::from_sweep(&sweep.sweep), several.then_some(place)));
        }
        Ok(charts)
    }
}

/// A metric over throughput, for the points of a sweep that have both.
fn pairs(sweep: &Sweep, metric: &Metric) -> Points {
    let mut points = Points::default();
    for point in &sweep.points {
        let of = |metric: &Metric| point.figures.get(metric.key).map(Spread::estimate);
        let (Some(throughput), Some(found)) = (of(THROUGHPUT), of(metric)) else { continue };
        let (low, high) = found.ends().unwrap_or((f64::NAN, f64::NAN));
        points.x.push(throughput.value);
        points.y.push(metric.in_unit(found.value));
        points.low.push(metric.in_unit(low));
        points.high.push(metric.in_unit(high));
        points.names.push(name(point));
    }
    points
}

fn name(point: &Point) -> String {
    let value = LoadAxis::value(&point.schedule);
    match LoadAxis::from_schedule(&point.schedule) {
        LoadAxis::Concurrency => value.to_string(),
        LoadAxis::Rate => format!("{value}/s"),
        LoadAxis::Replay => format!("×{value}"),
    }
}

fn draw(sweep: &Sweep, curve: &Curve, place: Option<usize>) -> Option<Chart> {
    // Each curve is a metric with its label; all metrics of a panel have the same unit.
    let panel = |label: &str, curves: &[(&str, &Metric)]| {
        let unit = curves.first().map_or("", |(_, metric)| metric.unit.name());
        let mut marks = Vec::new();
        let (mut lowest, mut highest) = (f64::INFINITY, 0.0_f64);
        for (place, (label, metric)) in curves.iter().enumerate() {
            let mut points = pairs(sweep, metric);
            if points.x.is_empty() {
                continue;
            }
            for y in &points.y {
                (lowest, highest) = (lowest.min(*y), highest.max(*y));
            }
            let (x, y) = (points.x.clone(), points.y.clone());
            marks.push(Mark::Line { label: String::new(), hue: hue(place), stroke: Stroke::Solid, x, y });
            (points.label, points.hue) = ((*label).to_owned(), hue(place));
            if place > 0 {
                points.names.clear();
            }
            marks.push(Mark::Points(points));
        }
        let y = if highest > 30.0 * lowest { Axis::log(label, unit) } else { Axis::from_zero(label, unit) };
        (!marks.is_empty()).then_some(Panel { y, marks, share: 1.0 })
    };
    let mut latency = panel("latency", &LATENCIES.map(|metric| (metric.label, metric)));
    let energy = panel("gross energy per output token", &[("", const { named("joules_per_token") })]);
    let phases = panel(
        "net energy per token",
        &[
            ("prefill, per input token", const { named("joules_per_input_token") }),
            ("decode, per output token", const { named("decode_joules_per_output_token") }),
        ],
    );
    let mut notes = vec![format!("Numbers beside the dots: {}.", axis_name(sweep))];
    match &curve.knee {
        Ok(place) => {
            let point = &curve.points[*place];
            notes.push(format!(
                "The knee is where throughput / latency is largest (Kleinrock's power): at {}.",
                point.load
            ));
            if let (Some(latency), Some(at)) = (&mut latency, point.tokens_per_second) {
                let hue = ergometer_charts::Hue::Muted;
                latency.marks.push(Mark::Rule { side: Side::X, at: at.value, label: String::from("knee"), hue });
            }
        }
        Err(why) => notes.push(format!("No knee: {why}.")),
    }
    let panels: Vec<Panel> = [latency, energy, phases].into_iter().flatten().collect();
    (!panels.is_empty()).then(|| Chart {
        id: place.map_or_else(|| String::from("sweep"), |place| format!("sweep_{}", place + 1)),
        title: String::from("Latency and energy over throughput"),
        subtitle: format!(
            "{} · {}, {} points",
            sweep.identity.model,
            sweep.identity.hardware_label,
            sweep.points.len()
        ),
        notes,
        x: Axis::from_zero("output tokens per second", ""),
        panels,
    })
}

fn axis_name(sweep: &Sweep) -> &'static str {
    match sweep.axis {
        LoadAxis::Concurrency => "requests in flight",
        LoadAxis::Rate => "requested rates",
        LoadAxis::Replay => "replay speeds",
    }
}
