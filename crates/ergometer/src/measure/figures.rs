//! Means over repeated runs, with 95 % intervals, and idle power between two rests.

use ergometer_statistics::mean;
use ergometer_telemetry::Estimate;
use ergometer_units::{Seconds, Timestamp, Window};
use serde::Serialize;

use ergometer_runs::sweep::Spread;

/// A mean over the runs with its 95 % interval, from the scatter of the runs and the uncertainty of each estimate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeanInterval {
    /// The mean.
    pub mean: f64,
    /// The low end of the interval.
    pub low: Option<f64>,
    /// The high end of the interval.
    pub high: Option<f64>,
}

/// The energy and power of one device, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EnergyFigures {
    /// Energy per run, in joules.
    pub gross_j: MeanInterval,
    /// Energy per run less idle power over the same time, in joules; absent without an idle measurement.
    pub net_j: Option<MeanInterval>,
    /// Mean power, in watts.
    pub average_w: MeanInterval,
    /// Idle power, in watts; absent without an idle measurement.
    pub idle_w: Option<f64>,
}

/// Estimates the energy of a window, of one device or of all.
pub(super) type EstimateWindow<'a> = &'a dyn Fn(Window) -> Option<Estimate>;

impl EnergyFigures {
    /// The figures of these runs; `None` if the energy of a run is unknown.
    pub(super) fn new(runs: &[Window], rests: &[Window], estimate: EstimateWindow) -> Option<Self> {
        let estimates: Vec<Estimate> = runs.iter().filter_map(|&window| estimate(window)).collect();
        if estimates.len() < runs.len() {
            return None;
        }
        let rested: Vec<(Window, Estimate)> = rests.iter().filter_map(|&rest| Some((rest, estimate(rest)?))).collect();
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
            gross_j: MeanInterval::new(&gross, Some(own)).at_least_zero(),
            net_j: net.map(|net| MeanInterval::new(&net, Some(own_net))),
            average_w: MeanInterval::new(&average, Some(own / mean_seconds)).at_least_zero(),
            idle_w: idle.and_then(mean),
        })
    }
}

impl MeanInterval {
    /// The mean of some values. `own` is half the width of one estimate's interval: the sensor or model is the same in
    /// every run, so this part does not shrink with the number of runs, and their scatter is added to it.
    pub(super) fn new(values: &[f64], own: Option<f64>) -> Self {
        let Some(spread) = Spread::new(values) else { return Self { mean: 0.0, low: None, high: None } };
        let half = match (spread.half_width(), own) {
            (Some(scatter), Some(own)) => Some(scatter.hypot(own)),
            (scatter, own) => scatter.or(own),
        };
        let mean = spread.mean;
        Self { mean, low: half.map(|half| mean - half), high: half.map(|half| mean + half) }
    }

    fn at_least_zero(self) -> Self {
        Self { low: self.low.map(|low| low.max(0.0)), ..self }
    }
}

/// Half the width of an interval. Its low end stops at zero, so the high end counts.
fn half_width(estimate: &Estimate) -> f64 {
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
        let mean = MeanInterval::new(&[9.0, 10.0, 11.0], Some(1.0));
        // s = 1, t(2) = 4.302653: 4.302653 / sqrt(3) = 2.484138, and its root sum of squares with 1.
        assert!((mean.high.unwrap() - 10.0 - 2.484_138_f64.hypot(1.0)).abs() < 1e-6);
        assert_eq!(MeanInterval::new(&[5.0], Some(2.0)), MeanInterval { mean: 5.0, low: Some(3.0), high: Some(7.0) });
        assert_eq!(MeanInterval::new(&[5.0], None).low, None);
        assert_eq!(MeanInterval::new(&[1.0], Some(2.0)).at_least_zero().low, Some(0.0));
    }
}
