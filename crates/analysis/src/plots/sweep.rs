//! A sweep: what more load buys in throughput, and what it costs in latency and joules per token.

use ergometer_charts::{Axis, Chart, Mark, Panel, Points, Side, Stroke};
use ergometer_statistics::knee;
use ergometer_units::shown::significant;

use super::{Plot, Shown, hue};
use crate::AnalysisError;
use crate::saved::{Estimate, Sweep, SweepPoint};

pub(super) struct SweepCurve;

impl Plot for SweepCurve {
    fn id(&self) -> &'static str {
        "sweep"
    }

    fn about(&self) -> &'static str {
        "throughput, latency and joules per token over the load of a sweep"
    }

    fn draw(&self, shown: &Shown) -> Result<Vec<Chart>, AnalysisError> {
        let several = shown.sweeps.len() > 1;
        Ok(shown.sweeps.iter().enumerate().filter_map(|(place, sweep)| draw(sweep, several.then_some(place))).collect())
    }
}

/// The figures of the points that have both: throughput, and something else by a factor.
fn pairs(sweep: &Sweep, figure: &str, factor: f64) -> Points {
    let mut points = Points::default();
    for point in &sweep.points {
        let of = |name: &str| point.figures.get(name).copied();
        let (Some(throughput), Some(found)) = (of("output_tokens_per_second"), of(figure)) else { continue };
        let (low, high) = found.interval.unwrap_or((f64::NAN, f64::NAN));
        points.x.push(throughput.value);
        points.y.push(found.value * factor);
        points.low.push(low * factor);
        points.high.push(high * factor);
        points.names.push(name(sweep, point));
    }
    points
}

fn name(sweep: &Sweep, point: &SweepPoint) -> String {
    match sweep.axis.as_str() {
        "concurrency" => format!("{}", point.value),
        "rate" => format!("{}/s", point.value),
        _ => format!("×{}", point.value),
    }
}

fn draw(sweep: &Sweep, place: Option<usize>) -> Option<Chart> {
    let panel = |label: &str, unit: &str, curves: &[(&str, &str, f64)]| {
        let mut marks = Vec::new();
        let (mut lowest, mut highest) = (f64::INFINITY, 0.0_f64);
        for (place, (label, figure, factor)) in curves.iter().enumerate() {
            let mut points = pairs(sweep, figure, *factor);
            if points.x.is_empty() {
                continue;
            }
            for y in &points.y {
                (lowest, highest) = (lowest.min(*y), highest.max(*y));
            }
            let (x, y) = (points.x.clone(), points.y.clone());
            marks.push(Mark::Line { label: (*label).to_owned(), hue: hue(place), stroke: Stroke::Solid, x, y });
            points.hue = hue(place);
            if place > 0 {
                points.names.clear();
            }
            marks.push(Mark::Points(points));
        }
        let y = if highest > 30.0 * lowest { Axis::log(label, unit) } else { Axis::from_zero(label, unit) };
        (!marks.is_empty()).then_some(Panel { y, marks, share: 1.0 })
    };
    let mut latency = panel(
        "latency",
        "s",
        &[("TTFT p50", "ttft_p50_ms", 1e-3), ("TTFT p99", "ttft_p99_ms", 1e-3), ("ITL p50", "itl_p50_ms", 1e-3)],
    );
    let energy = panel("gross energy per output token", "J", &[("", "gross_j_per_output_token", 1.0)]);
    let mut notes = vec![format!("Numbers beside the dots are the {} of the sweep.", axis_name(sweep))];
    match knee_of(sweep) {
        Some((at, name)) => {
            notes.push(format!("The knee is where throughput / latency is largest (Kleinrock's power): at {name}."));
            if let Some(latency) = &mut latency {
                let hue = ergometer_charts::Hue::Muted;
                latency.marks.push(Mark::Rule { side: Side::X, at, label: String::from("knee"), hue });
            }
        }
        None => notes.push(String::from("No knee lies within the sweep.")),
    }
    let panels: Vec<Panel> = [latency, energy].into_iter().flatten().collect();
    (!panels.is_empty()).then(|| Chart {
        id: place.map_or_else(|| String::from("sweep"), |place| format!("sweep_{}", place + 1)),
        title: String::from("Latency and energy over throughput"),
        subtitle: format!("{} · {}, {} points", sweep.model, sweep.hardware, sweep.points.len()),
        notes,
        x: Axis::from_zero("output tokens per second", ""),
        panels,
    })
}

fn axis_name(sweep: &Sweep) -> &'static str {
    match sweep.axis.as_str() {
        "concurrency" => "requests in flight",
        "rate" => "rates asked for",
        _ => "speeds of the replay",
    }
}

/// Where the knee is, on the axis of throughput, and which point it is.
fn knee_of(sweep: &Sweep) -> Option<(f64, String)> {
    let of = |point: &SweepPoint, name: &str| point.figures.get(name).map(|figure: &Estimate| figure.value);
    let points: Vec<(&SweepPoint, (f64, f64))> = sweep
        .points
        .iter()
        .filter_map(|point| Some((point, (of(point, "output_tokens_per_second")?, of(point, "e2e_p50_ms")?))))
        .collect();
    let place = knee(&points.iter().map(|(_, pair)| *pair).collect::<Vec<_>>()).ok()?;
    let (point, (throughput, _)) = points[place];
    Some((throughput, format!("{} ({} tok/s)", name(sweep, point), significant(throughput))))
}
