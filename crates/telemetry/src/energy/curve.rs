//! The power of one device over a whole run, as one curve. All windows are integrals of it, so adjacent windows add up.

use ergometer_units::{Joules, Seconds, Timestamp, Window};

use super::cells::{Cells, Grading};
use super::fit::{CellSize, fit};
use super::jumps::{edge_coverage, unexplained_jumps};
use super::model::{Levels, Model, Parameters, Shape};
use super::observations::{Observations, PowerKind, PowerSamples};
use super::slow::SlowMean;

/// The relative calibration error of the sensors, as a standard deviation: an H200's counter and power ring differ by
/// up to 0.5 % over 13 s, and the same kernel at the same clock draws 1 % more when the chip is hot. The value was
/// chosen with the truth recording, see `docs/design/energy-estimator.md`.
const CALIBRATION: f64 = 0.0065;

/// How far an unknown jump of power may be misplaced, as a share of the cell length plus the sensor's memory.
const BLUR: f64 = 0.5;

/// The relative error from short surges that power samples miss when there is no counter, as a standard deviation. A
/// prefill that draws more power than the rest of its window, for a quarter of the window or one period of the power
/// sensor, appears in one sample, which is treated as an outlier, or in none. A missed surge of up to 40 % causes an
/// error of 23 % (root mean square), and about half of the surges are missed.
const MISSED: f64 = 0.2;

/// The maximum of the true power, as a multiple of the highest power of the curve and the samples. A single burst of
/// 5 ms appears in a sample at a third of its height; the curve recovers most of the rest, but smooths it.
const BEYOND_HIGHEST: f64 = 2.0;

/// Cells far from all edges may be this many times longer, because only their sum is needed.
const COARSE: f64 = 5.0;

/// The approximate maximum number of cells, besides a few for each observation. It bounds memory use if a recording has
/// gaps of days or a wrong timestamp.
const MOST_CELLS: f64 = 200_000.0;

/// The fitted behaviour of a device's sensors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SensorModel {
    /// The time constant of the power sensor's low-pass, or the width of its averaging window; zero without smoothing.
    pub memory: Seconds,
    /// The delay of the power samples.
    pub power_lag: Seconds,
    /// The delay of the counter.
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
    /// Whether a counter covers all of the energy.
    is_counted: bool,
    /// The power samples as they were read.
    samples: Option<PowerSamples>,
    /// The highest power of the curve and the samples, in watts; `None` if the samples are too slow to show a burst.
    highest: Option<f64>,
    /// The samples of a device whose only sensor is a slowly updated mean.
    slow: Option<SlowMean>,
    /// The gaps in the readings of all sensors.
    gaps: Vec<(f64, f64)>,
    span: (f64, f64),
}

/// Energy with its uncertainty.
#[derive(Debug, Clone, Copy)]
pub(super) struct CurveEnergy {
    pub(super) joules: Joules,
    /// The half-width of the 95 % interval.
    pub(super) margin: Joules,
}

impl Curve {
    /// Fits the sensors and solves for the power. `edges` are the known edges of activity, in seconds from `base`,
    /// sorted. `None` if there are too few observations.
    pub(super) fn new(base: Timestamp, observations: Observations, edges: &[f64]) -> Option<Self> {
        let span = observations.span()?;
        let size = CellSize::for_observations(&observations).for_edges(edges.len() as f64 / (span.1 - span.0));
        let coverage = edge_coverage(&observations, edges);
        let gaps = observations.gaps();
        let has_known_edges = !edges.is_empty();
        let mut edges = edges.to_vec();
        // Without these edges, bursts inside one long cell would be treated as outliers and their energy lost.
        let unexplained = unexplained_jumps(&observations, &edges);
        edges.extend(unexplained);
        // The activity in a gap is unknown, so power may have jumped: at its start, and well before its end, because
        // the first samples after the gap still include some of it.
        edges.extend(gaps.iter().flat_map(|&(from, to)| [from, from + 0.25 * (to - from), to - 0.25 * (to - from)]));
        edges.sort_by(f64::total_cmp);
        let edges = &edges;
        let parameters = fit(&observations, edges, size, coverage)?;
        let reach = 0.2_f64.max(2.0 * size.longest);
        // If no edge is known, all cells have the same length.
        let coarse = (if has_known_edges { COARSE } else { 1.0 }).max((span.1 - span.0) / (size.longest * MOST_CELLS));
        let most = MOST_CELLS + 4.0 * observations.count() as f64;
        let grading = Grading { longest: size.longest, shortest: size.shortest, coarse, most };
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
        let sampled = samples.as_ref().map_or(&[][..], |samples| samples.watts.as_slice());
        let highest = levels.watts.iter().chain(sampled).fold(0.0, |highest: f64, &watts| highest.max(watts));
        let shows_bursts = samples.as_ref().is_some_and(|samples| samples.kind == PowerKind::Ring);
        let highest = shows_bursts.then_some(highest);
        let cells = model.cells;
        Some(Self { base, cells, levels, parameters, size, is_counted, samples, highest, slow, gaps, span })
    }

    #[cfg(test)]
    pub(super) fn cell_count(&self) -> usize {
        self.cells.len()
    }

    /// The energy of a window. `known`: whether its start and its end are known edges of activity.
    pub(super) fn energy(&self, window: Window, known: [bool; 2]) -> CurveEnergy {
        let (from, to) = (seconds(self.base, window.start()), seconds(self.base, window.end()));
        let joules = self.joules(window).get();
        let (first, overlap) = self.cells.overlaps(from, to);
        let near = self.size.longest;
        let fitted = self.levels.variance(first, &overlap);
        // An edge misplaced by δ loses δ·P from this side, or gains δ·P from the other side; δ is the accuracy of an
        // edge. Between two busy windows both terms are large, so back-to-back windows are harder to separate.
        let edges: f64 = [from, to]
            .into_iter()
            .map(|edge| {
                let around = self.mean(edge - near, edge) + self.mean(edge, edge + near);
                (self.size.shortest.min(to - from) * around).powi(2)
            })
            .sum();
        let unchecked = if self.is_counted { 0.0 } else { MISSED * (near / (to - from)).min(0.25) };
        let calibration = CALIBRATION.hypot(unchecked) * joules;
        // A window that rises out of idle loses energy at both edges: these errors add up.
        let blurred: f64 =
            [from, to].into_iter().zip(known).filter(|&(_, known)| !known).map(|(edge, _)| self.blur(edge)).sum();
        let in_gaps: f64 = [from, to].into_iter().map(|edge| self.gap_error(edge)).sum();
        // Beyond the readings power is unknown: the curve assumes the last known power, and that energy is uncertain.
        let beyond = (self.span.0 - from).max(0.0) * self.mean(self.span.0, self.span.0 + near)
            + (to - self.span.1).max(0.0) * self.mean(self.span.1 - near, self.span.1);
        let slow = self.slow.as_ref().map_or(0.0, |slow| slow.error(from, to, joules));
        let margin = 1.96 * (fitted + edges + calibration.powi(2)).sqrt() + blurred + in_gaps + beyond + slow;
        CurveEnergy { joules: Joules::new(joules), margin: Joules::new(margin) }
    }

    /// An upper bound of the energy of a window. The interval of a very short window would be many times its energy,
    /// but power does not go far above the highest power of the run.
    pub(super) fn upper_bound(&self, window: Window) -> Option<Joules> {
        self.highest.map(|highest| Joules::new(BEYOND_HIGHEST * highest * window.length().get()))
    }

    /// The energy of a window, without its uncertainty.
    pub(super) fn joules(&self, window: Window) -> Joules {
        let (from, to) = (seconds(self.base, window.start()), seconds(self.base, window.end()));
        let (first, overlap) = self.cells.overlaps(from, to);
        let joules: f64 = overlap.iter().zip(&self.levels.watts[first..]).map(|(s, watts)| s * watts).sum();
        Joules::new(joules.max(0.0))
    }

    /// The joules that may lie on the wrong side of an edge inside a gap. A counter that continues after the gap gives
    /// its total energy, but not when the energy was used.
    fn gap_error(&self, edge: f64) -> f64 {
        let gap = self.gaps.iter().find(|&&(from, to)| from < edge && edge < to);
        gap.map_or(0.0, |&(from, to)| (edge - from).min(to - edge) * self.levels.spread / 2.0)
    }

    /// The joules that may lie on the wrong side of an edge that is unknown to the curve: a jump of power there is
    /// spread over a cell and the sensor's memory, so the curve shows only part of it.
    fn blur(&self, edge: f64) -> f64 {
        let cell = self.cells.containing(edge);
        let memory = if self.parameters.shape == Shape::Instant { 0.0 } else { self.parameters.memory };
        let width = self.cells.end(cell) - self.cells.start(cell) + memory;
        let (from, to) = (edge - width, edge + width);
        let levels = &self.levels.watts[self.cells.containing(from)..=self.cells.containing(to)];
        // The curve treats a single high sample as an outlier, but it may be the whole window.
        let samples = self.samples.as_ref().map_or(&[][..], |samples| samples.watts_between(from, to));
        let (lowest, highest) = levels
            .iter()
            .chain(samples)
            .fold((f64::INFINITY, 0.0_f64), |(lowest, highest), &watts| (watts.min(lowest), watts.max(highest)));
        BLUR * width * (highest - lowest).max(0.0)
    }

    /// The times of the first and the last observation.
    pub(super) fn span(&self) -> (f64, f64) {
        self.span
    }

    /// The shortest window the sensors can resolve: half of their period, or the whole update period of a slow mean.
    pub(super) fn resolution(&self) -> Seconds {
        Seconds::new(self.slow.as_ref().map_or(self.size.longest / 2.0, SlowMean::update_period))
    }

    /// How far a window may extend beyond the readings: one period of the sensor.
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

/// The seconds from `base` to `at`, exact to a nanosecond for months.
pub(super) fn seconds(base: Timestamp, at: Timestamp) -> f64 {
    (at - base).get()
}
