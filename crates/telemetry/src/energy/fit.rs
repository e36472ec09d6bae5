//! The sensors' constants, fitted to what they showed: by a compass search for the largest evidence, with outliers
//! weighed down between the rounds.

use super::cells::{Cells, Grading};
use super::jumps::Knowledge;
use super::model::{Model, Parameters, Shape};
use super::observations::{Observations, PowerKind, upper_median};

/// The most samples the constants are fitted on; more would only cost time. Two minutes of an H200's ring.
const MOST_SAMPLES: usize = 6000;

/// The most cells the samples may be spread over: there may be days between them.
const MOST_CELLS: f64 = 20_000.0;

/// Rounds of the search; on the recordings the constants stand still after about ten.
const ROUNDS: usize = 12;

/// The length of cells: at most `longest`, and edges closer than `shortest` are one.
#[derive(Debug, Clone, Copy)]
pub(super) struct CellSize {
    pub(super) longest: f64,
    pub(super) shortest: f64,
}

impl CellSize {
    /// One sample of the finest sensor; a twentieth of it is as well as an edge can be placed.
    pub(super) fn for_observations(observations: &Observations) -> Self {
        let power = observations.power.as_ref().map(|power| power.period);
        let counter = observations.counter.as_ref().map(|counter| counter.period);
        let longest = power.or(counter).unwrap_or(0.1).clamp(1e-3, 1.0);
        Self { longest, shortest: longest / 20.0 }
    }

    /// For this many edges a second. Where there are more than two in a cell no sensor tells them apart, and cutting
    /// at each (500 a second with 512 requests in flight) costs the square of their number: a quarter is as fine as it gets.
    pub(super) fn for_edges(self, per_second: f64) -> Self {
        let is_crowded = per_second * self.longest > 2.0;
        Self { shortest: if is_crowded { self.longest / 4.0 } else { self.shortest }, ..self }
    }
}

/// Fits the constants on the liveliest stretch of the observations.
pub(super) fn fit(
    observations: &Observations,
    edges: &[f64],
    size: CellSize,
    knowledge: Knowledge,
) -> Option<Parameters> {
    let (from, to) = liveliest(observations)?;
    let part = observations.within(from, to);
    let search = |parameters: Parameters, free: Free| {
        let coarse = ((to - from) / (size.longest * MOST_CELLS)).max(1.0);
        let grading = Grading { longest: size.longest, shortest: size.shortest, coarse };
        let cells = Cells::graded(from - 0.2, to + 0.2, edges, grading);
        let mut search = Search { model: Model::new(part.clone(), cells), parameters, free };
        search.run().map(|evidence| (evidence, search.parameters))
    };
    let found = match usual(&part) {
        Some(parameters) if knowledge == Knowledge::Little => search(parameters, Free::Noise),
        _ => {
            let found =
                starts(&part).iter().filter_map(|&(shape, periods)| search(start(&part, shape, periods), Free::All));
            found.max_by(|a, b| a.0.total_cmp(&b.0))
        }
    };
    found.map(|(_, parameters)| parameters)
}

/// Which constants are fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Free {
    /// All of them.
    All,
    /// Those of the noise; memory and lags are as usual for the sensor's kind.
    Noise,
}

/// The constants a sensor of this kind usually has; `None` where there is no power sensor.
fn usual(observations: &Observations) -> Option<Parameters> {
    let power = observations.power.as_ref()?;
    let low_pass = if observations.counter.is_some() { Shape::LowPassBoth } else { Shape::LowPassPower };
    let (shape, memory, lag) = match power.kind {
        // An H200's ring: 13 ms of memory and 3.4 ms of lag in samples of 20 ms.
        PowerKind::Ring if power.period < 0.05 => (low_pass, 0.65 * power.period, 0.17 * power.period),
        // A quarter of the time is seen on A100 and H100.
        PowerKind::Ring | PowerKind::Instant => (Shape::BoxcarPower, 0.25 * power.period, 0.0),
        PowerKind::Average => (Shape::BoxcarPower, 1.0, 0.0),
    };
    Some(Parameters { memory, power_lag: lag, ..start(observations, shape, 0.0) })
}

/// The shapes to try and the memory to start each from, in periods: a search for a memory ends in the nearest valley.
fn starts(observations: &Observations) -> &'static [(Shape, f64)] {
    const BOTH: [(Shape, f64); 4] = [
        (Shape::LowPassBoth, 0.5),
        (Shape::LowPassPower, 0.5),
        (Shape::BoxcarPower, 1.0),
        // A counter that sums the means of a power sensor is blind where they are; an A100 sees a quarter of a period.
        (Shape::BoxcarBoth, 0.25),
    ];
    match (&observations.power, &observations.counter) {
        (Some(_), Some(_)) if is_in_step(observations) => &BOTH,
        (Some(_), Some(_)) => &BOTH[..3],
        // Without a counter it can be an average over a second, ten of its periods: NVML's power since Ampere.
        (Some(_), None) => &[(Shape::LowPassPower, 0.5), (Shape::BoxcarPower, 1.0), (Shape::BoxcarPower, 10.0)],
        (None, Some(_)) => &[(Shape::Instant, 0.0)],
        (None, None) => &[],
    }
}

/// Whether counter and power sensor move equally often, to a tenth.
fn is_in_step(observations: &Observations) -> bool {
    match (&observations.power, &observations.counter) {
        (Some(power), Some(counter)) => (power.period / counter.period - 1.0).abs() < 0.1,
        _ => false,
    }
}

/// The whole where it is short, else the stretch of [`MOST_SAMPLES`] in which power moved most.
fn liveliest(observations: &Observations) -> Option<(f64, f64)> {
    let span = observations.span()?;
    let times_and_watts: Vec<(f64, f64)> = match (&observations.power, &observations.counter) {
        (Some(power), _) => power.stamps.iter().copied().zip(power.watts.iter().copied()).collect(),
        (None, Some(counter)) => counter.powers().collect(),
        (None, None) => return None,
    };
    if times_and_watts.len() <= MOST_SAMPLES {
        return Some(span);
    }
    let movement = |start: usize| -> f64 {
        times_and_watts[start..(start + MOST_SAMPLES).min(times_and_watts.len())]
            .windows(2)
            .map(|pair| (pair[1].1 - pair[0].1).abs())
            .sum()
    };
    let start = (0..times_and_watts.len() - MOST_SAMPLES / 2)
        .step_by(MOST_SAMPLES / 2)
        .max_by(|&a, &b| movement(a).total_cmp(&movement(b)))?;
    let end = (start + MOST_SAMPLES).min(times_and_watts.len()) - 1;
    Some((times_and_watts[start].0, times_and_watts[end].0))
}

fn start(observations: &Observations, shape: Shape, periods: f64) -> Parameters {
    let period = CellSize::for_observations(observations).longest;
    let counter_period = observations.counter.as_ref().map_or(period, |counter| counter.period.min(LONGEST_STEP));
    let watts = observations.watts();
    let step = upper_median(watts.windows(2).map(|pair| (pair[1] - pair[0]).abs())).unwrap_or(1.0);
    let typical = upper_median(watts).unwrap_or(1.0).abs();
    let noise = step.max(1e-3 * typical).max(1e-3);
    Parameters {
        shape,
        memory: periods * period,
        power_lag: 0.0,
        counter_lag: 0.0,
        wander: noise * noise / period,
        power_noise: noise,
        power_jitter: period / 40.0,
        counter_jitter: counter_period / 200.0,
        gain: 1.0,
    }
}

/// The longest time between two steps of a counter, in seconds, as far as is known: NVML's.
const LONGEST_STEP: f64 = 0.1;

/// A compass search: each constant is tried a step up and a step down, and steps halve when nothing helps.
struct Search {
    model: Model,
    parameters: Parameters,
    free: Free,
}

/// One constant: how to move it by a number of its steps, within its bounds.
type Move = fn(&Parameters, f64, Scale) -> Parameters;

/// The periods the bounds and steps are measured in.
#[derive(Clone, Copy)]
struct Scale {
    power: f64,
    counter: f64,
}

const RESPONSE_MOVES: [Move; 3] = [
    |p, by, scale| Parameters {
        memory: (p.memory * (0.25 * by).exp()).clamp(0.02 * scale.power, 60.0 * scale.power),
        ..*p
    },
    |p, by, scale| Parameters {
        power_lag: (p.power_lag + 0.15 * by * scale.power).clamp(-scale.power, 10.0 * scale.power),
        ..*p
    },
    // A longer memory and a shorter lag look alike: a step along the valley.
    |p, by, scale| Parameters {
        memory: (p.memory + 0.1 * by * scale.power).clamp(0.02 * scale.power, 60.0 * scale.power),
        power_lag: (p.power_lag - 0.1 * by * scale.power).clamp(-scale.power, 10.0 * scale.power),
        ..*p
    },
];
const POWER_NOISE: Move = |p, by, _| Parameters { power_noise: (p.power_noise * (0.5 * by).exp()).max(1e-3), ..*p };
const COUNTER_LAG: Move = |p, by, scale| Parameters {
    counter_lag: (p.counter_lag + 0.03 * by * scale.counter).clamp(-0.1 * scale.counter, 0.5 * scale.counter),
    ..*p
};
// Power samples err alike for seconds, and a counter of which few steps were read would be blamed for it: what its
// clock scatters by is bounded.
const COUNTER_JITTER: Move = |p, by, scale| Parameters {
    counter_jitter: (p.counter_jitter * (0.5 * by).exp()).clamp(1e-4 * scale.counter, 0.02 * scale.counter),
    ..*p
};
const WANDER: Move = |p, by, _| Parameters { wander: (p.wander * by.exp()).max(1e-9), ..*p };
const GAIN: Move = |p, by, _| Parameters { gain: (p.gain + 0.002 * by).clamp(0.9, 1.1), ..*p };

/// The prior on the gain: two sensors of one board agree within a percent.
const GAIN_SPREAD: f64 = 0.01;

impl Search {
    fn run(&mut self) -> Option<f64> {
        let observations = self.model.observations();
        let (has_power, has_counter) = (observations.power.is_some(), observations.counter.is_some());
        let scale = Scale {
            power: CellSize::for_observations(observations).longest,
            // A counter of which few steps were read is no later than one of which all were.
            counter: observations.counter.as_ref().map_or(0.1, |counter| counter.period.min(LONGEST_STEP)),
        };
        let mut moves: Vec<Move> = vec![WANDER];
        if has_power {
            moves.push(POWER_NOISE);
        }
        if has_counter {
            moves.push(COUNTER_JITTER);
        }
        if has_power && has_counter {
            moves.push(GAIN);
        }
        if self.free == Free::All && has_power {
            moves.extend(RESPONSE_MOVES);
        }
        // Steps far apart tell how much, not when: their lag is left at what it usually is, nothing.
        let is_dense = observations.counter.as_ref().is_some_and(|counter| counter.period < 2.0 * LONGEST_STEP);
        if self.free == Free::All && is_dense {
            moves.push(COUNTER_LAG);
        }
        let mut steps: Vec<f64> = vec![1.0; moves.len()];
        let mut evidence = f64::NEG_INFINITY;
        for _ in 0..ROUNDS {
            for _ in 0..2 {
                let levels = self.model.levels(&self.parameters)?;
                self.model.reweight(&self.parameters, &levels);
            }
            evidence = self.evidence(&self.parameters)?;
            for (index, change) in moves.iter().enumerate() {
                let improved = [steps[index], -steps[index]].into_iter().find_map(|by| {
                    let parameters = change(&self.parameters, by, scale);
                    let found = self.evidence(&parameters)?;
                    (found > evidence + 0.01).then_some((found, parameters, by))
                });
                if let Some((found, parameters, by)) = improved {
                    (evidence, self.parameters) = (found, parameters);
                    steps[index] = 1.3 * by;
                } else {
                    steps[index] *= 0.5;
                }
            }
        }
        Some(evidence)
    }

    fn evidence(&self, parameters: &Parameters) -> Option<f64> {
        let prior = ((parameters.gain - 1.0) / GAIN_SPREAD).powi(2) / 2.0;
        Some(self.model.levels(parameters)?.log_evidence() - prior)
    }
}
