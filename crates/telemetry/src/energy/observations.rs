//! What the sensors of one device and scope showed, made ready for the estimator: times in seconds from a base,
//! steady clocks found, counters split where they were reset.

use super::grid::Grid;

/// The shortest silence that counts as one, in seconds, as [`Timeline::gaps`](crate::Timeline::gaps) has it.
const SILENCE: f64 = 0.25;

/// What kind of power sensor it is; says what memory it usually has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PowerKind {
    /// Samples at the driver's own times.
    Ring,
    /// The latest power whenever it is asked for.
    Instant,
    /// An average over about a second.
    Average,
}

/// Samples of power.
#[derive(Debug, Clone)]
pub(super) struct PowerSamples {
    pub(super) kind: PowerKind,
    /// The time each sample is stamped with.
    pub(super) stamps: Vec<f64>,
    /// The tick of the sensor's own clock each sample belongs to, where it has one.
    pub(super) ticks: Option<Vec<f64>>,
    /// The power shown, in watts.
    pub(super) watts: Vec<f64>,
    /// The typical time between samples.
    pub(super) period: f64,
    /// How often a mean is renewed, which may be less often than it was read.
    pub(super) renewal: Option<f64>,
}

/// Steps of an energy counter.
#[derive(Debug, Clone, Default)]
pub(super) struct CounterSteps {
    /// When each step happened, as well as is known.
    pub(super) at: Vec<f64>,
    /// The standard deviation of that time by itself, zero where a clock gives it.
    pub(super) doubt: Vec<f64>,
    /// The counter's value in joules.
    pub(super) joules: Vec<f64>,
    /// Whether the difference to the step before is energy; false at the first and after a reset.
    pub(super) follows: Vec<bool>,
    /// The typical time between steps.
    pub(super) period: f64,
}

/// All that is known of one device and scope.
#[derive(Debug, Clone, Default)]
pub(super) struct Observations {
    pub(super) power: Option<PowerSamples>,
    pub(super) counter: Option<CounterSteps>,
}

/// One step of a counter as it was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawStep {
    /// The counter can have stepped from here…
    pub(super) after: f64,
    /// …to here.
    pub(super) at: f64,
    pub(super) joules: f64,
    pub(super) follows: bool,
}

impl PowerSamples {
    /// From stamps in order and the watts they carry. `None` below two samples.
    pub(super) fn new(kind: PowerKind, stamps: Vec<f64>, watts: Vec<f64>) -> Option<Self> {
        let period = median_spacing(&stamps)?;
        let ticks = Grid::of_late_stamps(&stamps)
            .map(|grid| stamps.iter().map(|&stamp| grid.at_or_before(stamp)).collect::<Vec<f64>>());
        Some(Self { kind, stamps, ticks, watts, period, renewal: None })
    }

    /// The watts of the samples stamped inside `from..to`.
    pub(super) fn shown(&self, from: f64, to: f64) -> &[f64] {
        &self.watts[between(&self.stamps, from, to)]
    }

    /// The samples stamped inside `from..to`.
    fn within(&self, from: f64, to: f64) -> Option<Self> {
        let range = between(&self.stamps, from, to);
        (range.len() > 1).then(|| Self {
            kind: self.kind,
            stamps: self.stamps[range.clone()].to_vec(),
            ticks: self.ticks.as_ref().map(|ticks| ticks[range.clone()].to_vec()),
            watts: self.watts[range].to_vec(),
            period: self.period,
            renewal: self.renewal,
        })
    }
}

impl CounterSteps {
    /// From steps in order. The first read of a counter is no step: its caller leaves it out. `None` below two.
    pub(super) fn new(raw: &[RawStep]) -> Option<Self> {
        let intervals: Vec<(f64, f64)> = raw.iter().map(|step| (step.after, step.at)).collect();
        let grid = Grid::of_intervals(&intervals);
        let mut steps = Self::default();
        for step in raw {
            let tick = grid.map(|grid| grid.nearest(f64::midpoint(step.after, step.at)));
            let on_grid = tick.filter(|tick| (step.after..=step.at).contains(tick));
            steps.at.push(on_grid.unwrap_or(f64::midpoint(step.after, step.at)));
            // Anywhere in the interval is as likely: the standard deviation of a uniform is its width over sqrt(12).
            steps.doubt.push(if on_grid.is_some() { 0.0 } else { (step.at - step.after) / 12_f64.sqrt() });
            steps.joules.push(step.joules);
            steps.follows.push(step.follows && !steps.follows.is_empty());
        }
        steps.period = median_spacing(&steps.at)?;
        // A counter that only ever starts anew has counted nothing that is known.
        steps.follows.contains(&true).then_some(steps)
    }

    fn within(&self, from: f64, to: f64) -> Option<Self> {
        let range = between(&self.at, from, to);
        (range.len() > 1).then(|| {
            let mut follows = self.follows[range.clone()].to_vec();
            follows[0] = false;
            Self {
                at: self.at[range.clone()].to_vec(),
                doubt: self.doubt[range.clone()].to_vec(),
                joules: self.joules[range].to_vec(),
                follows,
                period: self.period,
            }
        })
    }

    /// The mean power of each step that is energy: its end and the watts.
    pub(super) fn powers(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        (1..self.at.len()).filter(|&step| self.follows[step] && self.at[step] > self.at[step - 1]).map(|step| {
            (self.at[step], (self.joules[step] - self.joules[step - 1]) / (self.at[step] - self.at[step - 1]))
        })
    }
}

impl Observations {
    /// From the first to the last of what was shown.
    pub(super) fn span(&self) -> Option<(f64, f64)> {
        let power = self.power.iter().flat_map(|power| ends(&power.stamps));
        let counter = self.counter.iter().flat_map(|counter| ends(&counter.at));
        power.chain(counter).fold(None, |span: Option<(f64, f64)>, at| {
            Some(span.map_or((at, at), |(first, last)| (first.min(at), last.max(at))))
        })
    }

    /// The stretches in which nothing was shown for longer than [`SILENCE`] and five periods of the slowest sensor.
    pub(super) fn silences(&self) -> Vec<(f64, f64)> {
        let power = self.power.as_ref().map(|power| (&power.stamps, power.period));
        let counter = self.counter.as_ref().map(|counter| (&counter.at, counter.period));
        let sensors: Vec<(&Vec<f64>, f64)> = [power, counter].into_iter().flatten().collect();
        let longest = sensors.iter().fold(SILENCE, |longest, &(_, period)| longest.max(5.0 * period));
        let mut times: Vec<f64> = sensors.into_iter().flat_map(|(times, _)| times.iter().copied()).collect();
        times.sort_by(f64::total_cmp);
        times.windows(2).filter(|pair| pair[1] - pair[0] > longest).map(|pair| (pair[0], pair[1])).collect()
    }

    /// What was shown inside `from..to`.
    pub(super) fn within(&self, from: f64, to: f64) -> Self {
        Self {
            power: self.power.as_ref().and_then(|power| power.within(from, to)),
            counter: self.counter.as_ref().and_then(|counter| counter.within(from, to)),
        }
    }

    /// The powers shown, by whichever sensor shows them finest.
    pub(super) fn watts(&self) -> Vec<f64> {
        match (&self.power, &self.counter) {
            (Some(power), _) => power.watts.clone(),
            (None, Some(counter)) => counter.powers().map(|(_, watts)| watts).collect(),
            (None, None) => Vec::new(),
        }
    }
}

/// The median, the upper one of an even number of values. Unlike the median of `ergometer-statistics`, it is always one of
/// the values, so that a typical spacing is one that occurred. `None` without values.
pub(super) fn upper_median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    let middle = sorted.len() / 2;
    (!sorted.is_empty()).then(|| *sorted.select_nth_unstable_by(middle, f64::total_cmp).1)
}

/// The median of the positive spacings: single misses and doubles don't count.
pub(super) fn median_spacing(times: &[f64]) -> Option<f64> {
    upper_median(times.windows(2).map(|pair| pair[1] - pair[0]).filter(|&gap| gap > 0.0))
}

fn between(times: &[f64], from: f64, to: f64) -> std::ops::Range<usize> {
    times.partition_point(|&at| at < from)..times.partition_point(|&at| at <= to)
}

fn ends(times: &[f64]) -> impl Iterator<Item = f64> {
    [times.first().copied(), times.last().copied()].into_iter().flatten()
}
