//! Models how a sensor delays and smooths power.
//!
//! Computes the weights of the true power levels in a sample or a counter step. The weights of a sample sum to one,
//! those of a counter step to its length, so a constant power is reproduced exactly.

use super::cells::Cells;

/// How a sensor smooths power.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Response {
    /// No smoothing.
    Instant,
    /// A first-order low-pass: power of `age` seconds ago has the weight `exp(-age / tau) / tau`.
    LowPass {
        /// The time constant in seconds.
        tau: f64,
    },
    /// The mean over a window of this many seconds.
    Boxcar {
        /// The width in seconds.
        width: f64,
    },
}

/// A low-pass is cut off after this many time constants. The rest, `exp(-9)` = 0.01 %, is added to the oldest cell.
const REACH: f64 = 9.0;

/// The shortest time constant or width, in seconds. It prevents a division by zero.
const SHORTEST: f64 = 1e-5;

impl Response {
    /// The weight of all power before `age` seconds ago in the present output: 1 at age 0, falling to 0.
    fn older_than(self, age: f64) -> f64 {
        let age = age.max(0.0);
        match self {
            Self::Instant => f64::from(age <= 0.0),
            Self::LowPass { tau } => (-age / tau.max(SHORTEST)).exp(),
            Self::Boxcar { width } => (1.0 - age / width.max(SHORTEST)).max(0.0),
        }
    }

    /// The integral of [`older_than`](Self::older_than) from age 0 to `age`: the part of the last `age` seconds that an
    /// integrating sensor has not counted yet.
    fn pending(self, age: f64) -> f64 {
        let age = age.max(0.0);
        match self {
            Self::Instant => 0.0,
            Self::LowPass { tau } => tau * (1.0 - (-age / tau.max(SHORTEST)).exp()),
            Self::Boxcar { width } => {
                let inside = age.min(width);
                if width > 0.0 { inside - inside * inside / (2.0 * width) } else { 0.0 }
            }
        }
    }

    fn reach(self) -> f64 {
        match self {
            Self::Instant => 0.0,
            Self::LowPass { tau } => REACH * tau,
            Self::Boxcar { width } => width,
        }
    }

    /// The weights of the cells in a sample of the time `at`.
    pub(super) fn sample(self, cells: &Cells, at: f64) -> Weights {
        let first = cells.containing(at - self.reach());
        let last = cells.containing(at);
        if first == last {
            return Weights { first, weights: vec![1.0] };
        }
        let mut older = 0.0;
        let weights = (first..=last)
            .map(|cell| {
                let newer = if cell == last { 1.0 } else { self.older_than(at - cells.end(cell)) };
                let weight = newer - older;
                older = newer;
                weight
            })
            .collect();
        Weights { first, weights }
    }

    /// The seconds of each cell in the energy that an integrating sensor adds between `from` and `to`.
    pub(super) fn integral(self, cells: &Cells, from: f64, to: f64) -> Weights {
        let first = cells.containing(from - self.reach());
        let last = cells.containing(to);
        // The part of the time from `edge` to `now` that the sensor has counted by `now`.
        let counted = |now: f64, edge: f64| {
            let age = (now - edge).max(0.0);
            age - self.pending(age)
        };
        let mut later = to - from;
        let weights = (first..=last)
            .map(|cell| {
                let after_end =
                    if cell == last { 0.0 } else { counted(to, cells.end(cell)) - counted(from, cells.end(cell)) };
                let weight = later - after_end;
                later = after_end;
                weight
            })
            .collect();
        Weights { first, weights }
    }
}

/// The weights of consecutive cells.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Weights {
    /// The first cell.
    pub(super) first: usize,
    /// The weights of the first and the following cells.
    pub(super) weights: Vec<f64>,
}

impl Weights {
    /// Multiplies all weights by a factor.
    pub(super) fn times(mut self, factor: f64) -> Self {
        for weight in &mut self.weights {
            *weight *= factor;
        }
        self
    }

    /// The weighted sum of the levels.
    pub(super) fn apply(&self, levels: &[f64]) -> f64 {
        self.weights.iter().zip(&levels[self.first..]).map(|(weight, level)| weight * level).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cells() -> Cells {
        Cells::new(0.0, 1.0, &[0.2, 0.21, 0.5, 0.503], 0.02, 0.001)
    }

    fn any_response() -> impl Strategy<Value = Response> {
        prop_oneof![
            Just(Response::Instant),
            (0.001..0.05f64).prop_map(|tau| Response::LowPass { tau }),
            (0.001..0.2f64).prop_map(|width| Response::Boxcar { width }),
        ]
    }

    proptest! {
        #[test]
        fn constant_power_is_reproduced_exactly(response in any_response(), at in 0.0..1.0f64, length in 0.0..0.3f64) {
            let cells = cells();
            let levels = vec![643.0; cells.len()];
            prop_assert!((response.sample(&cells, at).apply(&levels) - 643.0).abs() < 1e-9);
            prop_assert!((response.integral(&cells, at - length, at).apply(&levels) - 643.0 * length).abs() < 1e-9);
        }

        /// A counter is the integral of the samples with the same response.
        #[test]
        fn an_integral_is_the_sum_of_samples(response in any_response(), from in 0.3..0.5f64, length in 0.05..0.2f64) {
            let cells = cells();
            let levels: Vec<f64> =
                (0..cells.len()).map(|cell| if cells.end(cell) > 0.5 { 700.0 } else { 120.0 }).collect();
            let steps = 20_000;
            let step = length / f64::from(steps);
            let sum: f64 = (0..steps)
                .map(|index| response.sample(&cells, from + (f64::from(index) + 0.5) * step).apply(&levels) * step)
                .sum();
            let integral = response.integral(&cells, from, from + length).apply(&levels);
            prop_assert!((sum - integral).abs() < 0.05, "{sum} {integral}");
        }
    }
}
