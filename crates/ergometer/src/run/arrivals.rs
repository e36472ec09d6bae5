//! When the requests of an open loop are due: a schedule and a seed go in; times from the start come out, one after the
//! other. The same seed gives the same times.
//!
//! Gaps are drawn with a mean of 1 and summed up: the number of arrivals expected so far. The rate turns it into time,
//! and a ramp, over which the rate rises in a straight line, bends it: after t seconds of a ramp of T seconds to R a
//! second, R t² / 2T are expected.

use std::time::Duration;

use ergometer_datasets::random::Random;
use ergometer_runs::config::Arrivals;

/// When requests are due.
#[derive(Debug, Clone)]
pub(super) struct Due {
    rate: f64,
    arrivals: Arrivals,
    ramp_s: f64,
    random: Random,
    /// How many are expected up to the next one.
    expected: f64,
    /// When the first one that is not left out would have been due.
    skipped_s: f64,
}

/// So that the times of arrival do not repeat the draws of a dataset with the same seed.
const APART: u64 = 0x6172_7269_7661_6c73;

impl Due {
    pub(super) fn new(rate: f64, arrivals: Arrivals, ramp_s: f64, seed: u64) -> Self {
        Self { rate, arrivals, ramp_s, random: Random::new(seed ^ APART), expected: 0.0, skipped_s: 0.0 }
    }

    /// Leaves out so many, which were sent in an earlier session: the next is due at once, and the others as they would have
    /// been.
    pub(super) fn skip(&mut self, count: u64) {
        for _ in 0..count {
            self.next();
        }
        self.skipped_s = self.time_of(self.expected);
    }

    /// When the next one is due. The first is due at once.
    pub(super) fn next(&mut self) -> Duration {
        let at = self.time_of(self.expected) - self.skipped_s;
        self.expected += match self.arrivals {
            Arrivals::Constant => 1.0,
            Arrivals::Poisson => -self.random.unit().ln(),
            Arrivals::Gamma(shape) => gamma(shape, &mut self.random) / shape,
        };
        Duration::try_from_secs_f64(at.max(0.0)).unwrap_or(Duration::MAX)
    }

    /// When so many are expected.
    fn time_of(&self, expected: f64) -> f64 {
        let by_end_of_ramp = self.rate * self.ramp_s / 2.0;
        if expected < by_end_of_ramp {
            (2.0 * self.ramp_s * expected / self.rate).sqrt()
        } else {
            expected / self.rate + self.ramp_s / 2.0
        }
    }
}

/// A draw of a gamma distribution of this shape and scale 1 (Marsaglia and Tsang, "A Simple Method for Generating Gamma
/// Variables", ACM Transactions on Mathematical Software 26, 2000). A shape below 1 is drawn one larger and scaled down.
fn gamma(shape: f64, random: &mut Random) -> f64 {
    if shape < 1.0 {
        let larger = gamma(shape + 1.0, random);
        return larger * random.unit().powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let normal = random.normal();
        let v = (1.0 + c * normal).powi(3);
        if v > 0.0 && random.unit().ln() < 0.5 * normal * normal + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times(due: &mut Due, count: usize) -> Vec<f64> {
        (0..count).map(|_| due.next().as_secs_f64()).collect()
    }

    fn gaps(arrivals: Arrivals) -> (f64, f64) {
        let times = times(&mut Due::new(50.0, arrivals, 0.0, 3), 40_001);
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        (mean, variance.sqrt() / mean)
    }

    #[test]
    fn gaps_have_the_mean_and_the_spread_of_their_distribution() {
        // The coefficient of variation of a gamma distribution is one over the root of its shape.
        let expected = [
            (Arrivals::Constant, 0.0_f64),
            (Arrivals::Poisson, 1.0),
            (Arrivals::Gamma(0.25), 2.0),
            (Arrivals::Gamma(1.0), 1.0),
            (Arrivals::Gamma(4.0), 0.5),
        ];
        for (arrivals, variation) in expected {
            let found = gaps(arrivals);
            assert!((found.0 - 0.02).abs() < 0.02 * 0.05 * variation.max(0.01), "{arrivals}: {found:?}");
            assert!((found.1 - variation).abs() < 0.06 * variation.max(0.01), "{arrivals}: {found:?}");
        }
    }

    #[test]
    fn a_ramp_delays_by_half_its_length_and_rises_in_a_straight_line() {
        let mut due = Due::new(10.0, Arrivals::Constant, 4.0, 0);
        let times = times(&mut due, 61);
        // 20 are expected over the ramp, a quarter of them over its first half.
        assert_eq!((times[0], times[5], times[20], times[60]), (0.0, 2.0, 4.0, 8.0));
    }

    #[test]
    fn those_left_out_change_nothing_for_the_others() {
        let all = times(&mut Due::new(7.0, Arrivals::Poisson, 3.0, 5), 40);
        let mut rest = Due::new(7.0, Arrivals::Poisson, 3.0, 5);
        rest.skip(15);
        for (found, wanted) in times(&mut rest, 25).iter().zip(&all[15..]) {
            assert!((found - (wanted - all[15])).abs() < 1e-6, "{found}, not {}", wanted - all[15]);
        }
    }

    proptest! {
        #[test]
        fn times_never_go_back_and_are_those_of_the_seed(seed: u64, rate in 0.001_f64..10_000.0, ramp in 0.0_f64..100.0, kind in 0_usize..4) {
            let arrivals = [Arrivals::Constant, Arrivals::Poisson, Arrivals::Gamma(0.05), Arrivals::Gamma(20.0)][kind];
            let drawn = |seed| times(&mut Due::new(rate, arrivals, ramp, seed), 50);
            let one = drawn(seed);
            prop_assert!(one.is_sorted() && one[0] == 0.0, "{:?}", one);
            prop_assert_eq!(&one, &drawn(seed));
            prop_assert!(arrivals == Arrivals::Constant || one != drawn(!seed));
        }
    }
}
