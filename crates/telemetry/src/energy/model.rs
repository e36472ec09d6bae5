//! The model of one device: power is constant in each cell, and sensors delay, smooth and add noise to it.
//!
//! The input is observations, cells and parameters. The output is the most likely power level of every cell, with its
//! covariance and the evidence for the parameters. Between edges of activity power is a random walk; at an edge it may
//! jump. The estimate of a constant power is exact for all parameters.

use super::banded::{Rows, Solution, robust_weight};
use super::cells::Cells;
use super::observations::{CounterSteps, Observations, upper_median};
use super::response::{Response, Weights};

/// The shape of the sensors' response; its numbers are in [`Parameters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The power sensor is a low-pass; the counter integrates its output.
    LowPassBoth,
    /// The power sensor is a low-pass; the counter integrates the true power.
    LowPassPower,
    /// The power sensor is a mean over a window; the counter integrates the true power.
    BoxcarPower,
    /// The power sensor is a mean over a window; the counter uses each mean for a whole period.
    BoxcarBoth,
    /// No sensor has a memory.
    Instant,
}

/// The parameters of the sensors and of the noise.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameters {
    pub(super) shape: Shape,
    /// The memory of the power sensor: the time constant of its low-pass or the width of its window, in seconds.
    pub(super) memory: f64,
    /// The delay of the power sensor, in seconds.
    pub(super) power_lag: f64,
    /// The delay of the counter, in seconds.
    pub(super) counter_lag: f64,
    /// The variance of the random walk of power between edges, in W²/s.
    pub(super) wander: f64,
    /// The noise of a power sample, in watts.
    pub(super) power_noise: f64,
    /// The scatter of the times of power samples, in seconds. It is fixed, because a fit would trade it for memory.
    pub(super) power_jitter: f64,
    /// The scatter of the times of counter steps, in seconds.
    pub(super) counter_jitter: f64,
    /// The ratio of the power sensor's scale to the counter's scale.
    pub(super) gain: f64,
}

impl Parameters {
    pub(super) fn power_response(&self) -> Response {
        match self.shape {
            Shape::LowPassBoth | Shape::LowPassPower => Response::LowPass { tau: self.memory },
            Shape::BoxcarPower | Shape::BoxcarBoth => Response::Boxcar { width: self.memory },
            Shape::Instant => Response::Instant,
        }
    }

    /// The seconds of each cell in the energy that the counter adds between `from` and `to`.
    fn counter_weights(&self, cells: &Cells, from: f64, to: f64) -> Weights {
        match self.shape {
            Shape::LowPassBoth => Response::LowPass { tau: self.memory }.integral(cells, from, to),
            Shape::BoxcarBoth => self.power_response().sample(cells, to).times(to - from),
            Shape::LowPassPower | Shape::BoxcarPower | Shape::Instant => Response::Instant.integral(cells, from, to),
        }
    }
}

/// The noise of a power sample that is proportional to power. At a steady 640 W an H200's ring scatters by 2 W and
/// drifts against the counter by as much. Without this term the counter would have almost no weight in long windows.
/// The value was chosen with the truth recording, see `docs/design/energy-estimator.md`.
const SCALE_NOISE: f64 = 0.003;

/// The resolution of a counter in joules: NVML counts millijoules.
const COUNTER_RESOLUTION: f64 = 1e-3;

/// The tolerance of the energy carried between the cuts of a counter step, in joules: far below the counter resolution.
const CARRIED: f64 = 1e-5;

/// A counter step is cut every this many cells.
const CELLS_PER_CUT: usize = 8;

/// A device's sensors and cells, and the state of the robust fit.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) cells: Cells,
    observations: Observations,
    cell_unknowns: Vec<usize>,
    step_unknowns: Vec<usize>,
    /// The cuts of each counter step.
    cuts: Vec<Vec<Cut>>,
    /// The time used for each power sample: its timestamp, or its tick if that fits better.
    sample_times: Vec<f64>,
    sample_weights: Vec<f64>,
    /// The slope of the sensor's output at each sample, in W/s.
    sample_slopes: Vec<f64>,
    step_weights: Vec<f64>,
    /// The robust weights of the steps between neighbouring cells. Power also jumps without a known edge (a prefill
    /// ends, clocks fall): with Gaussian steps, a ring without a counter lost 3 % of the energy of windows whose first
    /// quarter drew up to 40 % more power.
    wander_weights: Vec<f64>,
    /// The output of the power sensor at each counter step, in watts.
    step_watts: Vec<f64>,
    typical: f64,
    spread: f64,
    highest: f64,
}

/// The power levels of a [`Model`]'s cells.
#[derive(Debug)]
pub(super) struct Levels {
    /// The power of each cell, in watts.
    pub(super) watts: Vec<f64>,
    /// The range of the observed power, in watts.
    pub(super) spread: f64,
    /// The error of each counter step, in joules.
    step_errors: Vec<f64>,
    solution: Solution,
    cell_unknowns: Vec<usize>,
}

impl Levels {
    pub(super) fn log_evidence(&self) -> f64 {
        self.solution.log_evidence
    }

    /// The variance of the sum of levels weighted by `seconds`, starting at cell `first`, in J².
    pub(super) fn variance(&self, first: usize, seconds: &[f64]) -> f64 {
        let Some(last) = seconds.len().checked_sub(1) else { return 0.0 };
        let start = self.cell_unknowns[first];
        let mut direction = vec![0.0; self.cell_unknowns[first + last] - start + 1];
        for (offset, &weight) in seconds.iter().enumerate() {
            direction[self.cell_unknowns[first + offset] - start] = weight;
        }
        self.solution.variance(start, &direction)
    }
}

impl Model {
    pub(super) fn new(observations: Observations, cells: Cells) -> Self {
        let steps: &[f64] = observations.counter.as_ref().map_or(&[], |counter| &counter.at);
        let cuts = observations.counter.as_ref().map_or_else(Vec::new, |counter| cut_steps(counter, &cells));
        let Unknowns { cells: cell_unknowns, steps: step_unknowns, cuts } = index_unknowns(&cells, steps, &cuts);
        let watts = observations.watts();
        let typical = upper_median(watts.iter().copied()).unwrap_or(0.0).max(0.0);
        let highest = watts.iter().copied().fold(0.0, f64::max);
        let lowest = watts.iter().copied().fold(highest, f64::min);
        let sample_times = observations.power.as_ref().map_or_else(Vec::new, |power| power.stamps.clone());
        Self {
            sample_weights: vec![1.0; sample_times.len()],
            sample_slopes: vec![0.0; sample_times.len()],
            step_weights: vec![1.0; steps.len()],
            wander_weights: vec![1.0; cells.len()],
            step_watts: vec![typical; steps.len()],
            sample_times,
            cell_unknowns,
            step_unknowns,
            cuts,
            typical,
            spread: (highest - lowest).max(0.05 * highest).max(0.1),
            highest,
            cells,
            observations,
        }
    }

    pub(super) fn observations(&self) -> &Observations {
        &self.observations
    }

    fn unknowns(&self) -> usize {
        self.cell_unknowns.len() + self.step_unknowns.len() + self.cuts.iter().map(Vec::len).sum::<usize>()
    }

    /// The levels for these parameters. `None` if the numerical solution fails.
    pub(super) fn levels(&self, parameters: &Parameters) -> Option<Levels> {
        self.levels_with(parameters, &[])
    }

    /// Like [`levels`](Self::levels), with no level below zero or far above the highest observed power.
    pub(super) fn bounded_levels(&self, parameters: &Parameters) -> Option<Levels> {
        let ceiling = 2.0 * self.highest + 1.0;
        let mut pinned: Vec<(usize, f64)> = Vec::new();
        let mut levels = self.levels(parameters)?;
        for _ in 0..5 {
            let outside = levels.watts.iter().enumerate().filter_map(|(cell, &watts)| {
                let slack = 0.01;
                (watts < -slack).then_some((cell, 0.0)).or((watts > ceiling + slack).then_some((cell, ceiling)))
            });
            let before = pinned.len();
            pinned.extend(outside);
            if pinned.len() == before {
                break;
            }
            levels = self.levels_with(parameters, &pinned)?;
        }
        Some(levels)
    }

    fn levels_with(&self, parameters: &Parameters, pinned: &[(usize, f64)]) -> Option<Levels> {
        let mut rows = Rows::default();
        self.push_power(&mut rows, parameters);
        self.push_counter(&mut rows, parameters);
        for cell in 0..self.cells.len() {
            let here = self.cell_unknowns[cell];
            // A weak prior: a cell without observations gets the typical power, with a variance of the whole range.
            rows.push([(here, 1.0)], self.typical, (4.0 * self.spread).powi(2));
            if cell + 1 < self.cells.len() {
                let apart = self.cells.middle(cell + 1) - self.cells.middle(cell);
                let terms = [(here, -1.0), (self.cell_unknowns[cell + 1], 1.0)];
                if self.cells.jumps_after(cell) {
                    rows.push(terms, 0.0, self.spread.powi(2));
                } else {
                    rows.push_robust(terms, 0.0, parameters.wander * apart, self.wander_weights[cell]);
                }
            }
        }
        for &(cell, watts) in pinned {
            rows.push([(self.cell_unknowns[cell], 1.0)], watts, 1e-4);
        }
        let solution = rows.solve(self.unknowns())?;
        Some(Levels {
            spread: self.spread,
            watts: self.cell_unknowns.iter().map(|&unknown| solution.values[unknown]).collect(),
            step_errors: self.step_unknowns.iter().map(|&unknown| solution.values[unknown]).collect(),
            cell_unknowns: self.cell_unknowns.clone(),
            solution,
        })
    }

    fn push_power(&self, rows: &mut Rows, parameters: &Parameters) {
        let Some(power) = &self.observations.power else { return };
        let response = parameters.power_response();
        for (sample, &watts) in power.watts.iter().enumerate() {
            let weights = response.sample(&self.cells, self.sample_times[sample] - parameters.power_lag);
            let variance = sample_variance(parameters, self.sample_slopes[sample], watts);
            rows.push_robust(self.terms(&weights, parameters.gain), watts, variance, self.sample_weights[sample]);
        }
    }

    fn push_counter(&self, rows: &mut Rows, parameters: &Parameters) {
        let Some(counter) = &self.observations.counter else { return };
        for step in 0..counter.at.len() {
            let error = self.step_unknowns[step];
            let jitter = parameters.counter_jitter.hypot(counter.time_error[step]);
            let variance = (jitter * self.step_watts[step]).powi(2) + COUNTER_RESOLUTION.powi(2);
            rows.push_robust([(error, 1.0)], 0.0, variance, self.step_weights[step]);
            if !counter.follows[step] {
                continue;
            }
            // The energy since the last step is carried from cut to cut, so that no row involves many cells.
            let mut from = counter.at[step - 1] - parameters.counter_lag;
            let mut carried = (self.step_unknowns[step - 1], -1.0);
            for cut in &self.cuts[step] {
                let to = cut.at - parameters.counter_lag;
                let weights = parameters.counter_weights(&self.cells, from, to);
                rows.push(self.terms(&weights, 1.0).chain([carried, (cut.unknown, -1.0)]), 0.0, CARRIED.powi(2));
                (from, carried) = (to, (cut.unknown, 1.0));
            }
            let to = counter.at[step] - parameters.counter_lag;
            let weights = parameters.counter_weights(&self.cells, from, to);
            let joules = counter.joules[step] - counter.joules[step - 1];
            rows.push(self.terms(&weights, 1.0).chain([carried, (error, 1.0)]), joules, COUNTER_RESOLUTION.powi(2));
        }
    }

    fn terms<'a>(&'a self, weights: &'a Weights, factor: f64) -> impl Iterator<Item = (usize, f64)> + 'a {
        weights
            .weights
            .iter()
            .enumerate()
            .map(move |(offset, weight)| (self.cell_unknowns[weights.first + offset], weight * factor))
    }

    /// Updates the robust weights, times and slopes of the samples, assuming that these levels are the true power.
    pub(super) fn reweight(&mut self, parameters: &Parameters, levels: &Levels) {
        let response = parameters.power_response();
        let predicted =
            |at: f64| parameters.gain * response.sample(&self.cells, at - parameters.power_lag).apply(&levels.watts);
        if let Some(power) = &self.observations.power {
            let nudge = power.period / 40.0;
            for (sample, &watts) in power.watts.iter().enumerate() {
                let stamp = power.stamps[sample];
                let mut time = stamp;
                let mut residual = watts - predicted(stamp);
                if let Some(tick) = power.ticks.as_ref().map(|ticks| ticks[sample]) {
                    let at_tick = watts - predicted(tick);
                    if at_tick.abs() < residual.abs() {
                        (time, residual) = (tick, at_tick);
                    }
                }
                let slope = (predicted(time + nudge) - predicted(time - nudge)) / (2.0 * nudge);
                self.sample_times[sample] = time;
                self.sample_slopes[sample] = slope;
                self.sample_weights[sample] =
                    robust_weight(residual * residual / sample_variance(parameters, slope, watts));
            }
        }
        for cell in 0..self.cells.len() - 1 {
            let apart = self.cells.middle(cell + 1) - self.cells.middle(cell);
            let step = levels.watts[cell + 1] - levels.watts[cell];
            self.wander_weights[cell] = robust_weight(step * step / (parameters.wander * apart));
        }
        if let Some(counter) = &self.observations.counter {
            for step in 0..counter.at.len() {
                let watts = predicted(counter.at[step] - parameters.counter_lag + parameters.power_lag);
                self.step_watts[step] = watts.max(0.1 * self.typical);
                let jitter = parameters.counter_jitter.hypot(counter.time_error[step]);
                let variance = (jitter * watts).powi(2) + COUNTER_RESOLUTION.powi(2);
                self.step_weights[step] = robust_weight(levels.step_errors[step].powi(2) / variance);
            }
        }
    }
}

/// The sum of the sensor noise, the noise from its timestamp (proportional to the slope) and the noise of its scale.
fn sample_variance(parameters: &Parameters, slope: f64, watts: f64) -> f64 {
    parameters.power_noise.powi(2) + (parameters.power_jitter * slope).powi(2) + (SCALE_NOISE * watts).powi(2)
}

/// A cut of a long counter step, and the unknown for the energy counted up to it.
#[derive(Debug, Clone, Copy)]
struct Cut {
    at: f64,
    unknown: usize,
}

/// The times of the cuts of each counter step; a step over few cells has none.
fn cut_steps(counter: &CounterSteps, cells: &Cells) -> Vec<Vec<f64>> {
    let cut = |step: usize| {
        if !counter.follows[step] {
            return Vec::new();
        }
        let (first, last) = (cells.containing(counter.at[step - 1]), cells.containing(counter.at[step]));
        let is_inside = |at: &f64| *at > counter.at[step - 1] && *at < counter.at[step];
        (first + CELLS_PER_CUT..last).step_by(CELLS_PER_CUT).map(|cell| cells.start(cell)).filter(is_inside).collect()
    };
    (0..counter.at.len()).map(cut).collect()
}

/// The indices of the unknowns in time order, so that each row involves only neighbours.
struct Unknowns {
    cells: Vec<usize>,
    steps: Vec<usize>,
    cuts: Vec<Vec<Cut>>,
}

fn index_unknowns(cells: &Cells, steps: &[f64], cuts: &[Vec<f64>]) -> Unknowns {
    #[derive(Clone, Copy)]
    enum UnknownKind {
        Cell(usize),
        Step(usize),
        Cut(usize),
    }
    let of_cells = (0..cells.len()).map(|cell| (cells.middle(cell), UnknownKind::Cell(cell)));
    let of_steps = steps.iter().enumerate().map(|(step, &at)| (at, UnknownKind::Step(step)));
    let cuts = cuts.iter().enumerate().flat_map(|(step, cuts)| cuts.iter().map(move |&at| (step, at)));
    let of_cuts = cuts.map(|(step, at)| (at, UnknownKind::Cut(step)));
    let mut sorted: Vec<(f64, UnknownKind)> = of_cells.chain(of_steps).chain(of_cuts).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut unknowns =
        Unknowns { cells: vec![0; cells.len()], steps: vec![0; steps.len()], cuts: vec![Vec::new(); steps.len()] };
    for (unknown, &(at, kind)) in sorted.iter().enumerate() {
        match kind {
            UnknownKind::Cell(cell) => unknowns.cells[cell] = unknown,
            UnknownKind::Step(step) => unknowns.steps[step] = unknown,
            UnknownKind::Cut(step) => unknowns.cuts[step].push(Cut { at, unknown }),
        }
    }
    unknowns
}
