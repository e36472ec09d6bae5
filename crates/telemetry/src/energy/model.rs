//! The model of one device: power constant in cells, sensors that show it late and smeared, noise on both.
//!
//! In go observations, cells and parameters; out comes the most likely power level of every cell, with its
//! covariance and the evidence for the parameters. Between edges of activity power is a random walk; at an edge it may
//! jump. A constant power is always estimated as itself, whatever the parameters.

use super::banded::{Rows, Solution, robust_weight};
use super::cells::Cells;
use super::observations::{CounterSteps, Observations, upper_median};
use super::response::{Response, Weights};

/// The shape of the sensors; the numbers are in [`Parameters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The power sensor is a low-pass, and the counter integrates what it shows.
    LowPassBoth,
    /// The power sensor is a low-pass; the counter integrates the true power.
    LowPassPower,
    /// The power sensor is a mean over a window; the counter integrates the true power.
    BoxcarPower,
    /// The power sensor is a mean over a window, and the counter takes each mean for a whole period.
    BoxcarBoth,
    /// No sensor has a memory.
    Instant,
}

/// The constants of the sensors and of the noise.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameters {
    pub(super) shape: Shape,
    /// The time constant or the width of the power sensor's memory, in seconds.
    pub(super) memory: f64,
    /// How late the power sensor is, in seconds.
    pub(super) power_lag: f64,
    /// How late the counter is, in seconds.
    pub(super) counter_lag: f64,
    /// How fast power wanders between edges, in W²/s.
    pub(super) wander: f64,
    /// The noise of a power sample, in watts.
    pub(super) power_noise: f64,
    /// The scatter of the times of power samples, in seconds; given, not fitted: fitted, it swallows the memory.
    pub(super) power_jitter: f64,
    /// The scatter of the times of counter steps, in seconds.
    pub(super) counter_jitter: f64,
    /// What the power sensor shows of what the counter counts.
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

    /// The seconds of each cell in what the counter adds between `from` and `to`.
    fn counted(&self, cells: &Cells, from: f64, to: f64) -> Weights {
        match self.shape {
            Shape::LowPassBoth => Response::LowPass { tau: self.memory }.integral(cells, from, to),
            Shape::BoxcarBoth => self.power_response().sample(cells, to).times(to - from),
            Shape::LowPassPower | Shape::BoxcarPower | Shape::Instant => Response::Instant.integral(cells, from, to),
        }
    }
}

/// The noise of a power sample that grows with power. Steady at 640 W an H200's ring scatters by 2 W and wanders
/// against the counter by as much; without it the counter would have no say in long windows.
/// Settled with the truth recording in view, see `docs/design/energy-estimator.md`.
const SCALE_NOISE: f64 = 0.003;

/// The resolution of a counter in joules: NVML counts millijoules.
const COUNTER_RESOLUTION: f64 = 1e-3;

/// How exactly energy is carried from cut to cut of a step: far better than it is counted.
const CARRIED: f64 = 1e-5;

/// A counter's step over more cells than this is cut.
const CELLS_A_CUT: usize = 8;

/// A device's sensors and cells, and the state of the robust fit.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) cells: Cells,
    observations: Observations,
    cell_unknowns: Vec<usize>,
    step_unknowns: Vec<usize>,
    /// Where each long step of the counter is cut.
    cuts: Vec<Vec<Cut>>,
    /// The time taken for each power sample: its stamp, or its tick where that fits better.
    sample_times: Vec<f64>,
    sample_weights: Vec<f64>,
    /// How fast what is shown changes at each sample, in W/s.
    sample_slopes: Vec<f64>,
    step_weights: Vec<f64>,
    /// Of the steps from each cell to the next. Power also jumps where nobody said so (a prefill ends, clocks fall):
    /// with Gaussian steps a ring alone lost 3 % of windows whose first quarter drew up to 40 % more.
    wander_weights: Vec<f64>,
    /// What power is shown at each counter step.
    step_watts: Vec<f64>,
    typical: f64,
    spread: f64,
    highest: f64,
}

/// The levels a [`Model`] finds.
#[derive(Debug)]
pub(super) struct Levels {
    /// The power of each cell, in watts.
    pub(super) watts: Vec<f64>,
    /// How far apart the powers shown were, in watts.
    pub(super) spread: f64,
    /// The energy by which each counter step is off, in joules.
    step_errors: Vec<f64>,
    solution: Solution,
    cell_unknowns: Vec<usize>,
}

impl Levels {
    pub(super) fn log_evidence(&self) -> f64 {
        self.solution.log_evidence
    }

    /// The variance of a sum of levels weighted by `seconds`, from cell `first` on, in J².
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
        let Unknowns { cells: cell_unknowns, steps: step_unknowns, cuts } = number(&cells, steps, &cuts);
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

    /// The levels under these parameters. `None` where the numbers break down.
    pub(super) fn levels(&self, parameters: &Parameters) -> Option<Levels> {
        self.levels_with(parameters, &[])
    }

    /// As [`levels`](Self::levels), with no level below zero or far above what was ever shown.
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
            // The weakest of priors, so that a cell nothing shows is the typical power, give or take all there is.
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
            let jitter = parameters.counter_jitter.hypot(counter.doubt[step]);
            let variance = (jitter * self.step_watts[step]).powi(2) + COUNTER_RESOLUTION.powi(2);
            rows.push_robust([(error, 1.0)], 0.0, variance, self.step_weights[step]);
            if !counter.follows[step] {
                continue;
            }
            // The energy counted since the last step is carried from cut to cut, so that no row reaches over many cells.
            let mut from = counter.at[step - 1] - parameters.counter_lag;
            let mut carried = (self.step_unknowns[step - 1], -1.0);
            for cut in &self.cuts[step] {
                let to = cut.at - parameters.counter_lag;
                let weights = parameters.counted(&self.cells, from, to);
                rows.push(self.terms(&weights, 1.0).chain([carried, (cut.unknown, -1.0)]), 0.0, CARRIED.powi(2));
                (from, carried) = (to, (cut.unknown, 1.0));
            }
            let to = counter.at[step] - parameters.counter_lag;
            let weights = parameters.counted(&self.cells, from, to);
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

    /// Takes the levels as true for a moment: which samples are outliers, which stamps are late, where it is steep.
    pub(super) fn reweight(&mut self, parameters: &Parameters, levels: &Levels) {
        let response = parameters.power_response();
        let shown =
            |at: f64| parameters.gain * response.sample(&self.cells, at - parameters.power_lag).apply(&levels.watts);
        if let Some(power) = &self.observations.power {
            let nudge = power.period / 40.0;
            for (sample, &watts) in power.watts.iter().enumerate() {
                let stamp = power.stamps[sample];
                let mut time = stamp;
                let mut residual = watts - shown(stamp);
                if let Some(tick) = power.ticks.as_ref().map(|ticks| ticks[sample]) {
                    let at_tick = watts - shown(tick);
                    if at_tick.abs() < residual.abs() {
                        (time, residual) = (tick, at_tick);
                    }
                }
                let slope = (shown(time + nudge) - shown(time - nudge)) / (2.0 * nudge);
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
                let watts = shown(counter.at[step] - parameters.counter_lag + parameters.power_lag);
                self.step_watts[step] = watts.max(0.1 * self.typical);
                let jitter = parameters.counter_jitter.hypot(counter.doubt[step]);
                let variance = (jitter * watts).powi(2) + COUNTER_RESOLUTION.powi(2);
                self.step_weights[step] = robust_weight(levels.step_errors[step].powi(2) / variance);
            }
        }
    }
}

/// Noise of the sensor, of its stamp where what it shows is steep, and of its scale.
fn sample_variance(parameters: &Parameters, slope: f64, watts: f64) -> f64 {
    parameters.power_noise.powi(2) + (parameters.power_jitter * slope).powi(2) + (SCALE_NOISE * watts).powi(2)
}

/// A place at which a long step of a counter is cut, and the unknown energy counted up to it.
#[derive(Debug, Clone, Copy)]
struct Cut {
    at: f64,
    unknown: usize,
}

/// The times at which the steps of a counter are cut: none for a step over few cells.
fn cut_steps(counter: &CounterSteps, cells: &Cells) -> Vec<Vec<f64>> {
    let cut = |step: usize| {
        if !counter.follows[step] {
            return Vec::new();
        }
        let (first, last) = (cells.containing(counter.at[step - 1]), cells.containing(counter.at[step]));
        let is_inside = |at: &f64| *at > counter.at[step - 1] && *at < counter.at[step];
        (first + CELLS_A_CUT..last).step_by(CELLS_A_CUT).map(|cell| cells.start(cell)).filter(is_inside).collect()
    };
    (0..counter.at.len()).map(cut).collect()
}

/// The numbers of the unknowns, in the order of time, so that each row touches only neighbours.
struct Unknowns {
    cells: Vec<usize>,
    steps: Vec<usize>,
    cuts: Vec<Vec<Cut>>,
}

fn number(cells: &Cells, steps: &[f64], cuts: &[Vec<f64>]) -> Unknowns {
    #[derive(Clone, Copy)]
    enum Place {
        Cell(usize),
        Step(usize),
        Cut(usize),
    }
    let of_cells = (0..cells.len()).map(|cell| (cells.middle(cell), Place::Cell(cell)));
    let of_steps = steps.iter().enumerate().map(|(step, &at)| (at, Place::Step(step)));
    let of_cuts = cuts.iter().enumerate().flat_map(|(step, cuts)| cuts.iter().map(move |&at| (at, Place::Cut(step))));
    let mut places: Vec<(f64, Place)> = of_cells.chain(of_steps).chain(of_cuts).collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut unknowns =
        Unknowns { cells: vec![0; cells.len()], steps: vec![0; steps.len()], cuts: vec![Vec::new(); steps.len()] };
    for (unknown, &(at, place)) in places.iter().enumerate() {
        match place {
            Place::Cell(cell) => unknowns.cells[cell] = unknown,
            Place::Step(step) => unknowns.steps[step] = unknown,
            Place::Cut(step) => unknowns.cuts[step].push(Cut { at, unknown }),
        }
    }
    unknowns
}
