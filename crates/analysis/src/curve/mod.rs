//! The load curve of a sweep: throughput, latency and energy per token by load, the knee, and the best loads.
//!
//! The knee is where throughput / latency is largest (L. Kleinrock, "Power and deterministic rules of thumb for
//! probabilistic problems in computer communications", 1979), with output tokens per second and median E2E latency. There
//! is no knee if the maximum is at an end of the sweep, or if a run is incomplete or limited by its client.

mod findings;

use ergometer_diagnostics::{Message, hint, option};
use ergometer_statistics::{knee, power};

use ergometer_runs::config::Axis;
use ergometer_runs::metrics::{Metric, named};
use ergometer_runs::sweep::{Point, Spread, Sweep};
use ergometer_statistics::Estimate;

// The metrics of a curve.
const OUTPUT_TOKENS_PER_SECOND: &Metric = named("output_tokens_per_second");
const REQUESTS_PER_SECOND: &Metric = named("requests_per_second");
const E2E_P50: &Metric = named("e2e_p50");
const TTFT_P50: &Metric = named("ttft_p50");
const JOULES_PER_TOKEN: &Metric = named("joules_per_token");
const JOULES_PER_INPUT_TOKEN: &Metric = named("joules_per_input_token");
const DECODE_JOULES_PER_OUTPUT_TOKEN: &Metric = named("decode_joules_per_output_token");
const GOODPUT: &Metric = named("goodput");
const COMPLETED: &Metric = named("completed");
const FAILED: &Metric = named("failed");

/// The share of requests that must be good for a load to be within the limits.
pub const GOOD_ENOUGH: f64 = 0.99;

/// A load curve, sorted by load.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The kind of load: `concurrency`, `rate` or `replay`.
    pub axis: String,
    /// The points.
    pub points: Vec<CurvePoint>,
    /// The index of the knee, or why there is none.
    pub knee: Result<usize, String>,
    /// The index of the point with the lowest energy per token.
    pub least_joules: Option<usize>,
    /// The index of the point with the highest throughput.
    pub most_tokens: Option<usize>,
    /// The index of the point with the highest throughput among those with at least 99 % of requests within the limits;
    /// `None` without limits or such a point.
    pub most_tokens_within_limits: Option<usize>,
    /// Whether there are limits.
    pub has_limits: bool,
    /// Warnings, with hints.
    pub warnings: Vec<Message>,
}

/// One load. Values of repeats are means with Student's t interval.
#[derive(Debug, Clone, PartialEq)]
pub struct CurvePoint {
    /// The load.
    pub load: f64,
    /// Output tokens per second.
    pub tokens_per_second: Option<Estimate>,
    /// Completed requests per second.
    pub requests_per_second: Option<Estimate>,
    /// Median E2E latency, in milliseconds.
    pub e2e_p50_ms: Option<Estimate>,
    /// Median time to first token, in milliseconds.
    pub ttft_p50_ms: Option<Estimate>,
    /// Gross joules per output token.
    pub joules_per_token: Option<Estimate>,
    /// Net joules of prompts per computed input token.
    pub prefill_joules_per_token: Option<Estimate>,
    /// Net joules of outputs per output token.
    pub decode_joules_per_token: Option<Estimate>,
    /// Requests per second within the limits.
    pub goodput: Option<Estimate>,
    /// The share of requests within the limits.
    pub good_share: Option<f64>,
    /// Kleinrock's power: tokens per second / seconds of latency.
    pub power: Option<f64>,
    /// Whether all its runs are complete.
    pub is_whole: bool,
    /// Whether the client limited the load of one of its runs.
    pub is_client_limited: bool,
}

impl Curve {
    /// The curve of a sweep.
    #[must_use]
    pub fn from_sweep(sweep: &Sweep) -> Self {
        let mut points: Vec<CurvePoint> = sweep.points.iter().map(CurvePoint::new).collect();
        points.sort_by(|one, other| one.load.total_cmp(&other.load));
        Self::through(sweep.axis.to_string(), points)
    }

    fn through(axis: String, points: Vec<CurvePoint>) -> Self {
        let doubtful = points.iter().find_map(|point| {
            let load = format!("{axis} {}", point.load);
            match point {
                CurvePoint { is_whole: false, .. } => Some(format!("the run at {load} is incomplete")),
                CurvePoint { is_client_limited: true, .. } => Some(format!("the client limited the load at {load}")),
                _ => None,
            }
        });
        let both = |point: &CurvePoint| {
            let value = |estimate: Option<Estimate>| estimate.map_or(f64::NAN, |estimate| estimate.value);
            (value(point.tokens_per_second), value(point.e2e_p50_ms) / 1e3)
        };
        let pairs: Vec<(f64, f64)> = points.iter().map(both).collect();
        let knee = match doubtful {
            Some(why) => Err(why),
            None => knee(&pairs).map_err(|why| why.to_string()),
        };
        let has_limits = points.iter().any(|point| point.goodput.is_some());
        let keeps = |point: &CurvePoint| point.good_share.is_some_and(|share| share >= GOOD_ENOUGH);
        let tokens = |point: &CurvePoint| point.tokens_per_second.map(|estimate| estimate.value);
        let least = |point: &CurvePoint| point.joules_per_token.map(|estimate| -estimate.value);
        Self {
            least_joules: best(&points, |_| true, least),
            most_tokens: best(&points, |_| true, tokens),
            most_tokens_within_limits: best(&points, keeps, tokens),
            warnings: warnings(&axis, &points),
            axis,
            points,
            knee,
            has_limits,
        }
    }
}

/// The index of the largest value among the points that count; the lowest load of equal values.
fn best(
    points: &[CurvePoint],
    counts: impl Fn(&CurvePoint) -> bool,
    value: impl Fn(&CurvePoint) -> Option<f64>,
) -> Option<usize> {
    let candidates = points.iter().enumerate().filter(|(_, point)| counts(point));
    let valued = candidates.filter_map(|(place, point)| Some((place, value(point)?)));
    valued.reduce(|best, other| if other.1 > best.1 { other } else { best }).map(|(place, _)| place)
}

fn warnings(axis: &str, points: &[CurvePoint]) -> Vec<Message> {
    let mut warnings = Vec::new();
    for point in points {
        if !point.is_whole {
            warnings.push(Message::new(format!("a run at {axis} {} is incomplete", point.load)));
        }
        if point.is_client_limited {
            warnings.push(Message::new(format!(
                "the client limited the load at {axis} {}, so its results may not reflect the server",
                point.load
            )));
        }
    }
    let has_repeats =
        points.iter().any(|point| point.tokens_per_second.is_some_and(|tokens| tokens.interval().is_some()));
    if !has_repeats && !points.is_empty() {
        warnings.push(
            Message::new("each load was run only once, so the variation between runs is unknown")
                .with_hint(hint!("run the sweep with ", option("repeat").value("3"))),
        );
    }
    warnings
}

impl CurvePoint {
    fn new(point: &Point) -> Self {
        let figure = |metric: &Metric| point.figures.get(metric.key).map(Spread::estimate);
        let value = |metric: &Metric| figure(metric).map(|estimate| estimate.value);
        let tokens_per_second = figure(OUTPUT_TOKENS_PER_SECOND);
        let e2e_p50_ms = figure(E2E_P50);
        let failed = value(FAILED).unwrap_or(0.0);
        let share = || {
            let completed = value(COMPLETED)?;
            let good = value(GOODPUT)? / value(REQUESTS_PER_SECOND)?;
            Some(good * completed / (completed + failed)).filter(|share| share.is_finite())
        };
        Self {
            load: Axis::value(&point.schedule),
            power: tokens_per_second.zip(e2e_p50_ms).and_then(|(tokens, e2e)| power(tokens.value, e2e.value / 1e3)),
            tokens_per_second,
            requests_per_second: figure(REQUESTS_PER_SECOND),
            e2e_p50_ms,
            ttft_p50_ms: figure(TTFT_P50),
            joules_per_token: figure(JOULES_PER_TOKEN),
            prefill_joules_per_token: figure(JOULES_PER_INPUT_TOKEN),
            decode_joules_per_token: figure(DECODE_JOULES_PER_OUTPUT_TOKEN),
            goodput: figure(GOODPUT),
            good_share: share(),
            is_whole: point.runs.iter().all(|run| run.complete),
            is_client_limited: point.client_limited.is_some_and(|runs| runs > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(load: f64, tokens: f64, e2e_ms: f64) -> CurvePoint {
        let estimate = |value| Some(Estimate::with_ends(value, Some((value * 0.9, value * 1.1))));
        CurvePoint {
            load,
            tokens_per_second: estimate(tokens),
            requests_per_second: None,
            e2e_p50_ms: estimate(e2e_ms),
            ttft_p50_ms: None,
            joules_per_token: estimate(100.0 / tokens),
            prefill_joules_per_token: None,
            decode_joules_per_token: None,
            goodput: estimate(1.0),
            good_share: Some(if e2e_ms < 300.0 { 1.0 } else { 0.5 }),
            power: power(tokens, e2e_ms / 1e3),
            is_whole: true,
            is_client_limited: false,
        }
    }

    fn points() -> Vec<CurvePoint> {
        vec![point(1.0, 100.0, 100.0), point(4.0, 390.0, 105.0), point(16.0, 900.0, 290.0), point(64.0, 950.0, 900.0)]
    }

    #[test]
    fn the_knee_is_where_throughput_per_latency_is_largest() {
        let curve = Curve::through(String::from("concurrency"), points());
        assert_eq!((curve.knee, curve.most_tokens, curve.least_joules), (Ok(1), Some(3), Some(3)));
        assert_eq!((curve.most_tokens_within_limits, curve.has_limits), (Some(2), true));
        assert!(curve.warnings.is_empty(), "{:?}", curve.warnings);
    }

    #[test]
    fn an_incomplete_or_client_limited_point_leaves_no_knee() {
        let knee = |spoil: fn(&mut CurvePoint)| {
            let mut points = points();
            spoil(&mut points[2]);
            let curve = Curve::through(String::from("rate"), points);
            assert_eq!(curve.warnings.len(), 1);
            curve.knee.unwrap_err()
        };
        assert!(knee(|point| point.is_whole = false).contains("rate 16 is incomplete"));
        assert!(knee(|point| point.is_client_limited = true).contains("client"));
        let few = Curve::through(String::from("rate"), points()[..2].to_vec());
        assert!(few.knee.unwrap_err().contains("three"));
    }
}
