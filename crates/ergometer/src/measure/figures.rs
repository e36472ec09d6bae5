//! Means over repeated runs, with 95 % intervals, and idle power between two rests.

use ergometer_statistics::{Estimate, mean};
use ergometer_telemetry::EnergyEstimate;
use ergometer_units::{Seconds, Timestamp, Window};
use serde::{Serialize, Serializer};

use ergometer_runs::sweep::Spread;

/// The energy and power of one device, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EnergyFigures {
    /// Energy per run, in joules.
    #[serde(serialize_with = "as_mean")]
    pub gross_j: Estimate,
    /// Energy per run less idle power over the same time, in joules; absent without an idle measurement.
    #[serde(serialize_with = "as_optional_mean")]
    pub net_j: Option<Estimate>,
    /// Mean power, in watts.
    #[serde(serialize_with = "as_mean")]
    pub average_w: Estimate,
    /// Idle power, in watts; absent without an idle measurement.
    pub idle_w: Option<f64>,
}

/// Estimates the energy of a window, of one device or of all.
pub(super) type EstimateWindow<'a> = &'a dyn Fn(Window) -> Option<EnergyEstimate>;

impl EnergyFigures {
    /// The figures of these runs; `None` if the energy of a run is unknown.
    pub(super) fn new(runs: &[Window], rests: &[Window], estimate: EstimateWindow) -> Option<Self> {
        let estimates: Vec<EnergyEstimate> = runs.iter().filter_map(|&window| estimate(window)).collect();
        if estimates.len() < runs.len() {
            return None;
        }
        let rested: Vec<(Window, EnergyEstimate)> =
            rests.iter().filter_map(|&rest| Some((rest, estimate(rest)?))).collect();
        let rest_watts: Vec<(Timestamp, f64)> =
            rested.iter().map(|(rest, energy)| (middle(*rest), (energy.joules / rest.length()).get())).collect();
        let idle: Option<Vec<f64>> = runs.iter().map(|&run| idle_power(&rest_watts, middle(run))).collect();
        let gross: Vec<f64> = estimates.iter().map(|estimate| estimate.joules.get()).collect();
        let seconds: Vec<f64> = runs.iter().map(|run| run.length().get()).collect();
        let own = mean(estimates.iter().map(half_width)).unwrap_or(0.0);
        // An error of the idle power counts for as long as the command ran.
        let rest_halves = rested.iter().map(|(rest, energy)| half_width(energy) / rest.length().get());
        let mean_seconds = mean(seconds.iter().copied()).unwrap_or(0.0);
        let own_net = own.hypot(mean(rest_halves).unwrap_or(0.0) * mean_seconds);
        let net: Option<Vec<f64>> = idle.as_ref().map(|idle| {
            gross.iter().zip(idle).zip(&seconds).map(|((gross, idle), seconds)| gross - idle * seconds).collect()
        });
        let average: Vec<f64> = gross.iter().zip(&seconds).map(|(gross, seconds)| gross / seconds).collect();
        Some(Self {
            gross_j: at_least_zero(mean_of_runs(&gross, Some(own))),
            net_j: net.map(|net| mean_of_runs(&net, Some(own_net))),
            average_w: at_least_zero(mean_of_runs(&average, Some(own / mean_seconds))),
            idle_w: idle.and_then(mean),
        })
    }
}

/// The mean over the runs with its 95 % interval, from the scatter of the runs and the uncertainty of each estimate. `own`
/// is half the width of one estimate's interval: the sensor or model is the same in every run, so this part does not shrink
/// with the number of runs, and their scatter is added to it.
pub(super) fn mean_of_runs(values: &[f64], own: Option<f64>) -> Estimate {
    let Some(spread) = Spread::new(values) else { return Estimate::exact(0.0) };
    let half = match (spread.half_width(), own) {
        (Some(scatter), Some(own)) => Some(scatter.hypot(own)),
        (scatter, own) => scatter.or(own),
    };
    let mean = spread.mean;
    Estimate::with_ends(mean, half.map(|half| (mean - half, mean + half)))
}

fn at_least_zero(estimate: Estimate) -> Estimate {
    Estimate { low: estimate.low.map(|low| low.max(0.0)), ..estimate }
}

/// Writes an estimate as `ergo measure --format json` does: its value is called `mean`.
pub(super) fn as_mean<S: Serializer>(estimate: &Estimate, serializer: S) -> Result<S::Ok, S::Error> {
    as_optional_mean(&Some(*estimate), serializer)
}

#[expect(clippy::ref_option, reason = "serde passes the field")]
fn as_optional_mean<S: Serializer>(estimate: &Option<Estimate>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct MeanOfRuns {
        mean: f64,
        low: Option<f64>,
        high: Option<f64>,
    }
    let mean = estimate.map(|Estimate { value, low, high }| MeanOfRuns { mean: value, low, high });
    mean.serialize(serializer)
}

/// Half the width of an interval. Its low end stops at zero, so the high end counts.
fn half_width(estimate: &EnergyEstimate) -> f64 {
    (estimate.high - estimate.joules).get()
}

/// Idle power at a time between two rests, interpolated linearly; one rest alone holds for all times.
fn idle_power(rests: &[(Timestamp, f64)], at: Timestamp) -> Option<f64> {
    match *rests {
        [] => None,
        [(_, watts)] => Some(watts),
        [(first, before), .., (last, after)] => {
            let share = (at - first) / (last - first);
            Some(before + (after - before) * share.clamp(0.0, 1.0))
        }
    }
}

/// The middle of a window.
fn middle(window: Window) -> Timestamp {
    window.start() + Seconds::new(window.length().get() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_power_is_interpolated_between_the_rests() {
        let at = Timestamp::from_nanos_since_epoch;
        assert_eq!(idle_power(&[], at(5)), None);
        assert_eq!(idle_power(&[(at(0), 80.0)], at(5)), Some(80.0));
        let two = [(at(0), 80.0), (at(10_000_000_000), 120.0)];
        assert_eq!(idle_power(&two, at(5_000_000_000)), Some(100.0));
        assert_eq!(idle_power(&two, at(20_000_000_000)), Some(120.0));
    }

    #[test]
    fn scatter_and_own_uncertainty_add_up() {
        let mean = mean_of_runs(&[9.0, 10.0, 11.0], Some(1.0));
        // s = 1, t(2) = 4.302653: 4.302653 / sqrt(3) = 2.484138, and its root sum of squares with 1.
        assert!((mean.high.unwrap() - 10.0 - 2.484_138_f64.hypot(1.0)).abs() < 1e-6);
        assert_eq!(mean_of_runs(&[5.0], Some(2.0)), Estimate::with_ends(5.0, Some((3.0, 7.0))));
        assert_eq!(mean_of_runs(&[5.0], None).low, None);
        assert_eq!(at_least_zero(mean_of_runs(&[1.0], Some(2.0))).low, Some(0.0));
    }

    #[test]
    fn figures_are_written_with_their_mean() {
        let figure = Estimate::with_ends(5.0, Some((3.0, 7.0)));
        let figures = EnergyFigures { gross_j: figure, net_j: None, average_w: Estimate::exact(2.0), idle_w: None };
        let expected = concat!(
            r#"{"gross_j":{"mean":5.0,"low":3.0,"high":7.0},"net_j":null,"#,
            r#""average_w":{"mean":2.0,"low":null,"high":null},"idle_w":null}"#
        );
        assert_eq!(serde_json::to_string(&figures).unwrap(), expected);
        let net = serde_json::to_value(EnergyFigures { net_j: Some(figure), ..figures }).unwrap();
        assert_eq!(net["net_j"], serde_json::json!({"mean": 5.0, "low": 3.0, "high": 7.0}));
    }
}
