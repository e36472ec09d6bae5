//! Fits the parameters of the sensors to their readings: a compass search maximizes the evidence, and outliers get
//! smaller weights between rounds.

use super::cells::{Cells, Grading};
use super::jumps::EdgeCoverage;
use super::model::{Model, Parameters, Shape};
use super::observations::{Observations, PowerKind, upper_median};

/// The maximum number of samples to fit: two minutes of an H200's ring. More samples take longer and do not help.
const MOST_SAMPLES: usize = 6000;

/// The approximate maximum number of cells, besides one for each sample; samples may be days apart.
const MOST_CELLS: f64 = 20_000.0;

/// The number of search rounds. On the recordings the parameters converge after about ten.
const ROUNDS: usize = 12;

/// The size of cells in seconds: at most `longest`; edges closer together than `shortest` are merged.
#[derive(Debug, Clone, Copy)]
pub(super) struct CellSize {
    pub(super) longest: f64,
    pub(super) shortest: f64,
}

impl CellSize {
    /// One period of the finest sensor. Edges can be located to a twentieth of it.
    pub(super) fn for_observations(observations: &Observations) -> Self {
        let power = observations.power.as_ref().map(|power| power.period);
        let counter = observations.counter.as_ref().map(|counter| counter.period);
        let longest = power.or(counter).unwrap_or(0.1).clamp(1e-3, 1.0);
        Self { longest, shortest: longest / 20.0 }
    }

    /// The cell size for this many edges per second. No sensor resolves more than two edges per cell, and the cost of
    /// dividing at each edge (500 per second with 512 concurrent requests) grows with the square of their number: then
    /// edges closer together than a quarter of a cell are merged.
    pub(super) fn for_edges(self, per_second: f64) -> Self {
        let is_crowded = per_second * self.longest > 2.0;
        Self { shortest: if is_crowded { self.longest / 4.0 } else { self.shortest }, ..self }
    }
}

/// Fits the parameters to the part of the observations with the most changes of power.
pub(super) fn fit(
    observations: &Observations,
    edges: &[f64],
    size: CellSize,
    coverage: EdgeCoverage,
) -> Option<Parameters> {
    let (from, to) = most_active_interval(observations)?;
    let part = observations.within(from, to);
    let search = |parameters: Parameters, free: FreeParameters| {
        let coarse = ((to - from) / (size.longest * MOST_CELLS)).max(1.0);
        let most = MOST_CELLS + part.count() as f64;
        let grading = Grading { longest: size.longest, shortest: size.shortest, coarse, most };
        let cells = Cells::graded(from - 0.2, to + 0.2, edges, grading);
        let mut search = Search { model: Model::new(part.clone(), cells), parameters, free };
        search.run().map(|evidence| (evidence, search.parameters))
    };
    let found = match usual_parameters(&part) {
        Some(parameters) if coverage == EdgeCoverage::Insufficient => search(parameters, FreeParameters::Noise),
        _ => {
            let found = starting_points(&part).iter().filter_map(|&(shape, periods)| {
                search(starting_parameters(&part, shape, periods), FreeParameters::All)
            });
            found.max_by(|a, b| a.0.total_cmp(&b.0))
        }
    };
    found.map(|(_, parameters)| parameters)
}

/// The parameters to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FreeParameters {
    /// All parameters.
    All,
    /// The noise parameters; memory and lags have the usual values of the sensor's kind.
    Noise,
}

/// The usual parameters of this kind of sensor; `None` without a power sensor.
fn usual_parameters(observations: &Observations) -> Option<Parameters> {
    let power = observations.power.as_ref()?;
    let low_pass = if observations.counter.is_some() { Shape::LowPassBoth } else { Shape::LowPassPower };
    let (shape, memory, lag) = match power.kind {
        // An H200's ring: 13 ms of memory and 3.4 ms of lag in samples of 20 ms.
        PowerKind::Ring if power.period < 0.05 => (low_pass, 0.65 * power.period, 0.17 * power.period),
        // A100 and H100 average over a quarter of the period.
        PowerKind::Ring | PowerKind::Instant => (Shape::BoxcarPower, 0.25 * power.period, 0.0),
        PowerKind::Average => (Shape::BoxcarPower, 1.0, 0.0),
    };
    Some(Parameters { memory, power_lag: lag, ..starting_parameters(observations, shape, 0.0) })
}

/// The shapes to try, each with the memory to start from, in periods: the search finds only the nearest optimum.
fn starting_points(observations: &Observations) -> &'static [(Shape, f64)] {
    const BOTH: [(Shape, f64); 4] = [
        (Shape::LowPassBoth, 0.5),
        (Shape::LowPassPower, 0.5),
        (Shape::BoxcarPower, 1.0),
        // A counter that sums the means of a power sensor misses what they miss; an A100 covers a quarter of a period.
        (Shape::BoxcarBoth, 0.25),
    ];
    match (&observations.power, &observations.counter) {
        (Some(_), Some(_)) if is_in_step(observations) => &BOTH,
        (Some(_), Some(_)) => &BOTH[..3],
        // Without a counter it may be an average over a second, ten periods: NVML's power since Ampere.
        (Some(_), None) => &[(Shape::LowPassPower, 0.5), (Shape::BoxcarPower, 1.0), (Shape::BoxcarPower, 10.0)],
        (None, Some(_)) => &[(Shape::Instant, 0.0)],
        (None, None) => &[],
    }
}

/// Whether the periods of the counter and the power sensor are equal within 10 %.
fn is_in_step(observations: &Observations) -> bool {
    match (&observations.power, &observations.counter) {
        (Some(power), Some(counter)) => (power.period / counter.period - 1.0).abs() < 0.1,
        _ => false,
    }
}

/// The interval of [`MOST_SAMPLES`] in which power changed most, or all of it if there are fewer samples.
fn most_active_interval(observations: &Observations) -> Option<(f64, f64)> {
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

fn starting_parameters(observations: &Observations, shape: Shape, periods: f64) -> Parameters {
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

/// The longest known period of a counter, in seconds: NVML's.
const LONGEST_STEP: f64 = 0.1;

/// A compass search: it tries each parameter a step up and a step down, and halves the step if neither helps.
struct Search {
    model: Model,
    parameters: Parameters,
    free: FreeParameters,
}

/// Changes one parameter by a number of steps, within its bounds.
type Move = fn(&Parameters, f64, Scale) -> Parameters;

/// The sensor periods in seconds; bounds and step sizes are multiples of them.
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
    // A longer memory with a shorter lag gives similar samples, so this moves both at once.
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
// Errors of power samples are correlated over seconds. With few counter steps the fit would attribute them to the
// counter, so the jitter of its clock is bounded.
const COUNTER_JITTER: Move = |p, by, scale| Parameters {
    counter_jitter: (p.counter_jitter * (0.5 * by).exp()).clamp(1e-4 * scale.counter, 0.02 * scale.counter),
    ..*p
};
const WANDER: Move = |p, by, _| Parameters { wander: (p.wander * by.exp()).max(1e-9), ..*p };
const GAIN: Move = |p, by, _| Parameters { gain: (p.gain + 0.002 * by).clamp(0.9, 1.1), ..*p };

/// The standard deviation of the prior of the gain: two sensors of one board agree within a percent.
const GAIN_SPREAD: f64 = 0.01;

impl Search {
    fn run(&mut self) -> Option<f64> {
        let observations = self.model.observations();
        let (has_power, has_counter) = (observations.power.is_some(), observations.counter.is_some());
        let scale = Scale {
            power: CellSize::for_observations(observations).longest,
            // The lag of a counter does not depend on how many of its steps were read.
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
        if self.free == FreeParameters::All && has_power {
            moves.extend(RESPONSE_MOVES);
        }
        // Counter steps that are far apart do not determine the lag, so it stays at its usual value, zero.
        let is_dense = observations.counter.as_ref().is_some_and(|counter| counter.period < 2.0 * LONGEST_STEP);
        if self.free == FreeParameters::All && is_dense {
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
