//! Computes when the requests of an open loop are due, as times from the start. The same seed gives the same times.
//!
//! Gaps are drawn with a mean of 1; their sum is the expected number of arrivals so far. The rate converts it to time.
//! During a ramp the rate increases linearly: t seconds into a ramp of T seconds to R requests a second, R t² / 2T
//! arrivals are expected.

use std::time::Duration;

use ergometer_datasets::random::Random;

use super::Arrivals;

/// Generates the times at which requests are due.
#[derive(Debug, Clone)]
pub struct ArrivalTimes {
    rate: f64,
    arrivals: Arrivals,
    ramp_s: f64,
    random: Random,
    /// The expected number of arrivals up to the next request.
    expected: f64,
    /// When the first request that is not skipped would have been due.
    skipped_s: f64,
}

/// Changes the seed, so that arrival times do not repeat the random numbers of a dataset with the same seed.
const SEED_MASK: u64 = 0x6172_7269_7661_6c73;

impl ArrivalTimes {
    /// The times of requests at this rate per second, after a ramp of this many seconds.
    #[must_use]
    pub fn new(rate: f64, arrivals: Arrivals, ramp_s: f64, seed: u64) -> Self {
        Self { rate, arrivals, ramp_s, random: Random::new(seed ^ SEED_MASK), expected: 0.0, skipped_s: 0.0 }
    }

    /// Skips requests that were sent in an earlier session: the next request is due at once, and the gaps after it stay
    /// the same.
    pub fn skip(&mut self, count: u64) {
        for _ in 0..count {
            self.next_due();
        }
        self.skipped_s = self.time_for(self.expected);
    }

    /// When the next request is due. The first is due at once.
    pub fn next_due(&mut self) -> Duration {
        let at = self.time_for(self.expected) - self.skipped_s;
        self.expected += match self.arrivals {
            Arrivals::Constant => 1.0,
            Arrivals::Poisson => -self.random.unit().ln(),
            Arrivals::Gamma(shape) => gamma(shape, &mut self.random) / shape,
        };
        Duration::try_from_secs_f64(at.max(0.0)).unwrap_or(Duration::MAX)
    }

    /// The time by which this many arrivals are expected.
    fn time_for(&self, expected: f64) -> f64 {
        let by_end_of_ramp = self.rate * self.ramp_s / 2.0;
        if expected < by_end_of_ramp {
            (2.0 * self.ramp_s * expected / self.rate).sqrt()
        } else {
            expected / self.rate + self.ramp_s / 2.0
        }
    }
}

/// Draws from a gamma distribution of this shape and scale 1 (Marsaglia and Tsang, "A Simple Method for Generating
/// Gamma Variables", ACM Transactions on Mathematical Software 26, 2000). For a shape below 1, it draws with shape + 1
/// and scales down.
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

    fn times(due: &mut ArrivalTimes, count: usize) -> Vec<f64> {
        (0..count).map(|_| due.next_due().as_secs_f64()).collect()
    }

    fn gaps(arrivals: Arrivals) -> (f64, f64) {
        let times = times(&mut ArrivalTimes::new(50.0, arrivals, 0.0, 3), 40_001);
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        (mean, variance.sqrt() / mean)
    }

    #[test]
    fn gaps_have_the_mean_and_variation_of_their_distribution() {
        // The coefficient of variation of a gamma distribution is 1 / sqrt(shape).
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
    fn a_ramp_is_linear_and_delays_by_half_its_length() {
        let mut due = ArrivalTimes::new(10.0, Arrivals::Constant, 4.0, 0);
        let times = times(&mut due, 61);
        // 20 arrivals are expected during the ramp, a quarter of them in its first half.
        assert_eq!((times[0], times[5], times[20], times[60]), (0.0, 2.0, 4.0, 8.0));
    }

    #[test]
    fn skipping_does_not_change_later_gaps() {
        let all = times(&mut ArrivalTimes::new(7.0, Arrivals::Poisson, 3.0, 5), 40);
        let mut rest = ArrivalTimes::new(7.0, Arrivals::Poisson, 3.0, 5);
        rest.skip(15);
        for (found, wanted) in times(&mut rest, 25).iter().zip(&all[15..]) {
            assert!((found - (wanted - all[15])).abs() < 1e-6, "{found}, not {}", wanted - all[15]);
        }
    }

    proptest! {
        #[test]
        fn times_ascend_and_depend_on_the_seed(seed: u64, rate in 0.001_f64..10_000.0, ramp in 0.0_f64..100.0, kind in 0_usize..4) {
            let arrivals = [Arrivals::Constant, Arrivals::Poisson, Arrivals::Gamma(0.05), Arrivals::Gamma(20.0)][kind];
            let drawn = |seed| times(&mut ArrivalTimes::new(rate, arrivals, ramp, seed), 50);
            let one = drawn(seed);
            prop_assert!(one.is_sorted() && one[0] == 0.0, "{:?}", one);
            prop_assert_eq!(&one, &drawn(seed));
            prop_assert!(arrivals == Arrivals::Constant || one != drawn(!seed));
        }
    }
}
