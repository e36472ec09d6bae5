//! The power of one device over a whole run, as one curve that every window is read off: so adjacent windows add up.

use ergometer_units::{Joules, Seconds, Timestamp, Window};

use super::cells::{Cells, Grading};
use super::fit::{CellSize, fit};
use super::jumps::{knowledge, surprises};
use super::model::{Levels, Model, Parameters, Shape};
use super::observations::{Observations, PowerKind, PowerSamples};
use super::slow::SlowMean;

/// What the estimate of a constant power is off by even over a long time, as a standard deviation: an H200's counter
/// and power ring differ by up to 0.5 % over 13 s, and one kernel at one clock draws 1 % more when the chip is hot.
/// Settled with the truth recording in view, see `docs/design/energy-estimator.md`.
const CALIBRATION: f64 = 0.0065;

/// The share of a cell and the sensor's memory by which an unknown jump of power may be misplaced.
const BLUR: f64 = 0.5;

/// What may go by where no counter counts it, as a standard deviation: a prefill that draws more than the rest of its
/// window, for a quarter of it or one period of the power sensor, is one sample, taken for an outlier, or none. A
/// surge of up to 40 % is 23 % off in the root mean square where it is missed, and that is every other time.
const MISSED: f64 = 0.2;

/// How far above the highest power of the curve and the samples the true power may go. A burst of 5 ms that never comes
/// again shows as a third of its height in a sample; the curve has it back, less what its smoothness takes.
const BEYOND_HIGHEST: f64 = 2.0;

/// Cells far from every edge may be this many times longer: only their sum is asked for.
const COARSE: f64 = 5.0;

/// About how many cells there may be far from every edge; a gap of days or a stray time must not fill the memory.
const MOST_CELLS: f64 = 200_000.0;

/// How a sensor was found to behave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SensorModel {
    /// The time constant of its low-pass or the width of its window; zero where it shows the present.
    pub memory: Seconds,
    /// How late the power samples are.
    pub power_lag: Seconds,
    /// How late the counter is.
    pub counter_lag: Seconds,
    /// The noise of one power sample, in watts.
    pub noise_watts: f64,
}

/// The power of one device and scope over time, with its uncertainty.
#[derive(Debug)]
pub(super) struct Curve {
    base: Timestamp,
    cells: Cells,
    levels: Levels,
    parameters: Parameters,
    size: CellSize,
    /// Whether a counter has seen all of the energy.
    is_counted: bool,
    /// The power samples as they were shown.
    samples: Option<PowerSamples>,
    /// The highest power of the curve and the samples, in watts; `None` where samples are too slow to show a burst.
    highest: Option<f64>,
    /// Where all there is is a mean that is seldom renewed.
    slow: Option<SlowMean>,
    /// Where nothing was shown for long.
    silences: Vec<(f64, f64)>,
    span: (f64, f64),
}

/// Energy with the two parts of its uncertainty.
#[derive(Debug, Clone, Copy)]
pub(super) struct CurveEnergy {
    pub(super) joules: Joules,
    /// The half-width of the 95 % interval.
    pub(super) margin: Joules,
}

impl Curve {
    /// Fits the sensors and solves for the power. `edges` are the known edges of activity, in seconds from `base`,
    /// in order. `None` where there is too little to go by.
    pub(super) fn new(base: Timestamp, observations: Observations, edges: &[f64]) -> Option<Self> {
        let span = observations.span()?;
        let size = CellSize::for_observations(&observations).for_edges(edges.len() as f64 / (span.1 - span.0));
        let knowledge = knowledge(&observations, edges);
        let silences = observations.silences();
        // What ran in a silence is not known, so power may have jumped: as it began, and well before it ended, since
        // the first samples after it still show some of it.
        let is_blind = edges.is_empty();
        let mut edges = edges.to_vec();
        // Also far from every known edge: bursts inside one long cell pass for outliers, and their energy is lost.
        let surprising = surprises(&observations, &edges);
        edges.extend(surprising);
        edges
            .extend(silences.iter().flat_map(|&(from, to)| [from, from + 0.25 * (to - from), to - 0.25 * (to - from)]));
        edges.sort_by(f64::total_cmp);
        let edges = &edges;
        let parameters = fit(&observations, edges, size, knowledge)?;
        let reach = 0.2_f64.max(2.0 * size.longest);
        // Where no edge is known every cell is as good as another.
        let coarse = (if is_blind { 1.0 } else { COARSE }).max((span.1 - span.0) / (size.longest * MOST_CELLS));
        let grading = Grading { longest: size.longest, shortest: size.shortest, coarse };
        let cells = Cells::graded(span.0 - reach, span.1 + reach, edges, grading);
        let is_counted = observations.counter.is_some() && parameters.shape != Shape::BoxcarBoth;
        let samples = observations.power.clone();
        let slow = SlowMean::from_observations(&observations);
        let mut model = Model::new(observations, cells);
        for _ in 0..4 {
            let levels = model.levels(&parameters)?;
            model.reweight(&parameters, &levels);
        }
        let mut levels = model.bounded_levels(&parameters)?;
        if let Some(slow) = &slow {
            for (cell, watts) in levels.watts.iter_mut().enumerate() {
                *watts = slow.mean(model.cells.start(cell), model.cells.end(cell));
            }
        }
        let shown = samples.as_ref().map_or(&[][..], |samples| samples.shown(f64::NEG_INFINITY, f64::INFINITY));
        let highest = levels.watts.iter().chain(shown).fold(0.0, |highest: f64, &watts| highest.max(watts));
        let shows_bursts = samples.as_ref().is_some_and(|samples| samples.kind == PowerKind::Ring);
        let highest = shows_bursts.then_some(highest);
        let cells = model.cells;
        Some(Self { base, cells, levels, parameters, size, is_counted, samples, highest, slow, silences, span })
    }

    /// The energy of a window; `known` says of its start and its end whether they are among the edges of activity.
    pub(super) fn energy(&self, window: Window, known: [bool; 2]) -> CurveEnergy {
        let (from, to) = (seconds(self.base, window.start()), seconds(self.base, window.end()));
        let joules = self.joules(window).get();
        let (first, overlap) = self.cells.overlaps(from, to);
        let near = self.size.longest;
        let fitted = self.levels.variance(first, &overlap);
        // An edge that is off by δ moves δ·P of this side out, or of the other side in; δ is what an edge can be
        // placed to. Between two busy windows both are large: back-to-back windows are harder to tell apart.
        let edges: f64 = [from, to]
            .into_iter()
            .map(|edge| {
                let around = self.mean(edge - near, edge) + self.mean(edge, edge + near);
                (self.size.shortest.min(to - from) * around).powi(2)
            })
            .sum();
        let unchecked = if self.is_counted { 0.0 } else { MISSED * (near / (to - from)).min(0.25) };
        let calibration = CALIBRATION.hypot(unchecked) * joules;
        // A window that rises out of idle loses energy at both edges: these don't average out, they add.
        let blurred: f64 =
            [from, to].into_iter().zip(known).filter(|&(_, known)| !known).map(|(edge, _)| self.blur(edge)).sum();
        let unheard: f64 = [from, to].into_iter().map(|edge| self.unheard(edge)).sum();
        // What a window reaches past the readings is as nobody knows, and taken as it was last seen.
        let beyond = (self.span.0 - from).max(0.0) * self.mean(self.span.0, self.span.0 + near)
            + (to - self.span.1).max(0.0) * self.mean(self.span.1 - near, self.span.1);
        let seldom = self.slow.as_ref().map_or(0.0, |slow| slow.doubt(from, to, joules));
        let margin = 1.96 * (fitted + edges + calibration.powi(2)).sqrt() + blurred + unheard + beyond + seldom;
        CurveEnergy { joules: Joules::new(joules), margin: Joules::new(margin) }
    }

    /// More than a window can have used: a very short one is uncertain by many times its energy, but power does not go
    /// far above the highest that was seen in the run.
    pub(super) fn most(&self, window: Window) -> Option<Joules> {
        self.highest.map(|highest| Joules::new(BEYOND_HIGHEST * highest * window.length().get()))
    }

    /// The joules of a window alone.
    pub(super) fn joules(&self, window: Window) -> Joules {
        let (from, to) = (seconds(self.base, window.start()), seconds(self.base, window.end()));
        let (first, overlap) = self.cells.overlaps(from, to);
        let joules: f64 = overlap.iter().zip(&self.levels.watts[first..]).map(|(s, watts)| s * watts).sum();
        Joules::new(joules.max(0.0))
    }

    /// The joules that may lie on the wrong side of an edge in a silence: a counter that goes on after it knows the
    /// sum, not when it came about.
    fn unheard(&self, edge: f64) -> f64 {
        let silence = self.silences.iter().find(|&&(from, to)| from < edge && edge < to);
        silence.map_or(0.0, |&(from, to)| (edge - from).min(to - edge) * self.levels.spread / 2.0)
    }

    /// The joules that may lie on the wrong side of an edge the curve does not know: a jump of power there is spread
    /// over a cell and the sensor's memory, and the curve shows only part of it.
    fn blur(&self, edge: f64) -> f64 {
        let cell = self.cells.containing(edge);
        let memory = if self.parameters.shape == Shape::Instant { 0.0 } else { self.parameters.memory };
        let width = self.cells.end(cell) - self.cells.start(cell) + memory;
        let (from, to) = (edge - width, edge + width);
        let levels = &self.levels.watts[self.cells.containing(from)..=self.cells.containing(to)];
        // One sample above the others is an outlier to the curve, and may have been the window all the same.
        let samples = self.samples.as_ref().map_or(&[][..], |samples| samples.shown(from, to));
        let (lowest, highest) = levels
            .iter()
            .chain(samples)
            .fold((f64::INFINITY, 0.0_f64), |(lowest, highest), &watts| (watts.min(lowest), watts.max(highest)));
        BLUR * width * (highest - lowest).max(0.0)
    }

    /// The first and the last time anything was shown.
    pub(super) fn span(&self) -> (f64, f64) {
        self.span
    }

    /// The shortest window that the sensors can tell from nothing: half of their period, and all of it where one figure
    /// was read many times.
    pub(super) fn resolution(&self) -> Seconds {
        Seconds::new(self.slow.as_ref().map_or(self.size.longest / 2.0, SlowMean::renewal))
    }

    /// How far a window may reach past the readings: the edges of the data are as sharp as a sensor's period.
    pub(super) fn slack(&self) -> Seconds {
        Seconds::new(self.size.longest)
    }

    pub(super) fn sensor_model(&self) -> SensorModel {
        let memory = if self.parameters.shape == Shape::Instant { 0.0 } else { self.parameters.memory };
        SensorModel {
            memory: Seconds::new(memory),
            power_lag: Seconds::new(self.parameters.power_lag),
            counter_lag: Seconds::new(self.parameters.counter_lag),
            noise_watts: self.parameters.power_noise,
        }
    }

    fn mean(&self, from: f64, to: f64) -> f64 {
        let (first, overlap) = self.cells.overlaps(from, to);
        let length: f64 = overlap.iter().sum();
        let joules: f64 = overlap.iter().zip(&self.levels.watts[first..]).map(|(s, watts)| s * watts).sum();
        if length > 0.0 { (joules / length).max(0.0) } else { 0.0 }
    }
}

/// Seconds from `base`, exact to a nanosecond for months.
pub(super) fn seconds(base: Timestamp, at: Timestamp) -> f64 {
    (at - base).get()
}
