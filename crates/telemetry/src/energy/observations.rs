//! The readings of the sensors of one device and scope, prepared for the estimator: times are in seconds from a base,
//! steady sensor clocks are detected, and counters are split at resets.

use super::grid::Grid;

/// The minimum length of a gap in seconds, as in [`Timeline::gaps`](crate::Timeline::gaps).
const MIN_GAP: f64 = 0.25;

/// The kind of a power sensor; it determines the usual memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PowerKind {
    /// Samples that the driver takes and timestamps.
    Ring,
    /// The latest power at the time of the read.
    Instant,
    /// An average over about a second.
    Average,
}

/// Samples of power.
#[derive(Debug, Clone)]
pub(super) struct PowerSamples {
    pub(super) kind: PowerKind,
    /// The timestamp of each sample.
    pub(super) stamps: Vec<f64>,
    /// The tick of the sensor's clock for each sample; `None` without a steady clock.
    pub(super) ticks: Option<Vec<f64>>,
    /// The power of each sample, in watts.
    pub(super) watts: Vec<f64>,
    /// The typical time between samples.
    pub(super) period: f64,
    /// The typical time between updates of a mean, which may be longer than the time between reads.
    pub(super) update_period: Option<f64>,
}

/// Steps of an energy counter.
#[derive(Debug, Clone, Default)]
pub(super) struct CounterSteps {
    /// The best estimate of the time of each step.
    pub(super) at: Vec<f64>,
    /// The standard deviation of that time; zero if it is a tick of a steady clock.
    pub(super) time_error: Vec<f64>,
    /// The counter's value in joules.
    pub(super) joules: Vec<f64>,
    /// Whether the difference to the previous step is energy; false at the first step and after a reset.
    pub(super) follows: Vec<bool>,
    /// The typical time between steps.
    pub(super) period: f64,
}

/// The power samples and counter steps of one device and scope.
#[derive(Debug, Clone, Default)]
pub(super) struct Observations {
    pub(super) power: Option<PowerSamples>,
    pub(super) counter: Option<CounterSteps>,
}

/// One step of a counter as it was read: it happened between `after` and `at`.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawStep {
    /// The time of the last read before the step.
    pub(super) after: f64,
    /// The time of the first read after the step.
    pub(super) at: f64,
    pub(super) joules: f64,
    pub(super) follows: bool,
}

impl PowerSamples {
    /// Creates samples from sorted timestamps and their watts. `None` for fewer than two samples.
    pub(super) fn new(kind: PowerKind, stamps: Vec<f64>, watts: Vec<f64>) -> Option<Self> {
        let period = median_spacing(&stamps)?;
        let ticks = Grid::from_late_stamps(&stamps)
            .map(|grid| stamps.iter().map(|&stamp| grid.at_or_before(stamp)).collect::<Vec<f64>>());
        Some(Self { kind, stamps, ticks, watts, period, update_period: None })
    }

    /// The watts of the samples from `from` to `to`.
    pub(super) fn watts_between(&self, from: f64, to: f64) -> &[f64] {
        &self.watts[between(&self.stamps, from, to)]
    }

    /// The samples from `from` to `to`; `None` for fewer than two.
    fn within(&self, from: f64, to: f64) -> Option<Self> {
        let range = between(&self.stamps, from, to);
        (range.len() > 1).then(|| Self {
            kind: self.kind,
            stamps: self.stamps[range.clone()].to_vec(),
            ticks: self.ticks.as_ref().map(|ticks| ticks[range.clone()].to_vec()),
            watts: self.watts[range].to_vec(),
            period: self.period,
            update_period: self.update_period,
        })
    }
}

impl CounterSteps {
    /// Creates steps from sorted raw steps. `None` for fewer than two steps, or if none is energy.
    pub(super) fn new(raw: &[RawStep]) -> Option<Self> {
        let intervals: Vec<(f64, f64)> = raw.iter().map(|step| (step.after, step.at)).collect();
        let grid = Grid::from_intervals(&intervals);
        let mut steps = Self::default();
        for step in raw {
            let tick = grid.map(|grid| grid.nearest(f64::midpoint(step.after, step.at)));
            let on_grid = tick.filter(|tick| (step.after..=step.at).contains(tick));
            steps.at.push(on_grid.unwrap_or(f64::midpoint(step.after, step.at)));
            // The step is equally likely anywhere in the interval: the standard deviation is its width over sqrt(12).
            steps.time_error.push(if on_grid.is_some() { 0.0 } else { (step.at - step.after) / 12_f64.sqrt() });
            steps.joules.push(step.joules);
            steps.follows.push(step.follows && !steps.follows.is_empty());
        }
        steps.period = median_spacing(&steps.at)?;
        // A counter that is reset at every step gives no energy.
        steps.follows.contains(&true).then_some(steps)
    }

    fn within(&self, from: f64, to: f64) -> Option<Self> {
        let range = between(&self.at, from, to);
        (range.len() > 1).then(|| {
            let mut follows = self.follows[range.clone()].to_vec();
            follows[0] = false;
            Self {
                at: self.at[range.clone()].to_vec(),
                time_error: self.time_error[range.clone()].to_vec(),
                joules: self.joules[range].to_vec(),
                follows,
                period: self.period,
            }
        })
    }

    /// The end and the mean power in watts of each step that is energy.
    pub(super) fn powers(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        (1..self.at.len()).filter(|&step| self.follows[step] && self.at[step] > self.at[step - 1]).map(|step| {
            (self.at[step], (self.joules[step] - self.joules[step - 1]) / (self.at[step] - self.at[step - 1]))
        })
    }
}

impl Observations {
    /// The number of power samples and counter steps.
    pub(super) fn count(&self) -> usize {
        let power = self.power.as_ref().map_or(0, |power| power.stamps.len());
        power + self.counter.as_ref().map_or(0, |counter| counter.at.len())
    }

    /// The times of the first and the last observation.
    pub(super) fn span(&self) -> Option<(f64, f64)> {
        let power = self.power.iter().flat_map(|power| ends(&power.stamps));
        let counter = self.counter.iter().flat_map(|counter| ends(&counter.at));
        power.chain(counter).fold(None, |span: Option<(f64, f64)>, at| {
            Some(span.map_or((at, at), |(first, last)| (first.min(at), last.max(at))))
        })
    }

    /// The intervals without observations that are longer than [`MIN_GAP`] and five periods of the slowest sensor.
    pub(super) fn gaps(&self) -> Vec<(f64, f64)> {
        let power = self.power.as_ref().map(|power| (&power.stamps, power.period));
        let counter = self.counter.as_ref().map(|counter| (&counter.at, counter.period));
        let sensors: Vec<(&Vec<f64>, f64)> = [power, counter].into_iter().flatten().collect();
        let shortest = sensors.iter().fold(MIN_GAP, |shortest, &(_, period)| shortest.max(5.0 * period));
        let mut times: Vec<f64> = sensors.into_iter().flat_map(|(times, _)| times.iter().copied()).collect();
        times.sort_by(f64::total_cmp);
        times.windows(2).filter(|pair| pair[1] - pair[0] > shortest).map(|pair| (pair[0], pair[1])).collect()
    }

    /// The observations from `from` to `to`.
    pub(super) fn within(&self, from: f64, to: f64) -> Self {
        Self {
            power: self.power.as_ref().and_then(|power| power.within(from, to)),
            counter: self.counter.as_ref().and_then(|counter| counter.within(from, to)),
        }
    }

    /// The power samples in watts, or the mean power of the counter steps without a power sensor.
    pub(super) fn watts(&self) -> Vec<f64> {
        match (&self.power, &self.counter) {
            (Some(power), _) => power.watts.clone(),
            (None, Some(counter)) => counter.powers().map(|(_, watts)| watts).collect(),
            (None, None) => Vec::new(),
        }
    }
}

/// The median; for an even number of values, the upper of the two middle values. Unlike the median of
/// `ergometer-statistics` it is always one of the values. `None` without values.
pub(super) fn upper_median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    let middle = sorted.len() / 2;
    (!sorted.is_empty()).then(|| *sorted.select_nth_unstable_by(middle, f64::total_cmp).1)
}

/// The median of the positive differences; a few missing or repeated times do not affect it.
pub(super) fn median_spacing(times: &[f64]) -> Option<f64> {
    upper_median(times.windows(2).map(|pair| pair[1] - pair[0]).filter(|&gap| gap > 0.0))
}

fn between(times: &[f64], from: f64, to: f64) -> std::ops::Range<usize> {
    times.partition_point(|&at| at < from)..times.partition_point(|&at| at <= to)
}

fn ends(times: &[f64]) -> impl Iterator<Item = f64> {
    [times.first().copied(), times.last().copied()].into_iter().flatten()
}
