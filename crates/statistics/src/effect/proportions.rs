//! Computes the interval of the difference of two proportions, of which one may be 0 or 1.

use crate::{Interval, proportion_interval};

/// The 95 % interval of the second proportion less the first, each successes of trials, from Wilson's intervals of
/// both: R. G. Newcombe, "Interval estimation for the difference between independent proportions" (Statistics in
/// Medicine 17, 1998), method 10. For paired trials it is wider than necessary. `None` without trials, or with more
/// successes than trials.
///
/// Use it where resampling fails: if no request of a run failed, no resample has a failure, although the next run
/// might.
#[must_use]
pub fn proportion_effect(first: (u64, u64), second: (u64, u64)) -> Option<Interval> {
    let (one, two) = (proportion_interval(first.0, first.1)?, proportion_interval(second.0, second.1)?);
    let (p, q) = (first.0 as f64 / first.1 as f64, second.0 as f64 / second.1 as f64);
    Some(Interval { low: q - p - (q - two.low).hypot(one.high - p), high: q - p + (two.high - q).hypot(p - one.low) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Newcombe's table II, method 10: 56/70 less 48/80, 9/10 less 3/10, 10/10 less 0/20.
    #[test]
    fn intervals_are_the_published_ones() {
        for (second, first, low, high) in
            [((56, 70), (48, 80), 0.0524, 0.3339), ((9, 10), (3, 10), 0.1705, 0.8090), ((10, 10), (0, 20), 0.6791, 1.0)]
        {
            let found = proportion_effect(first, second).unwrap();
            assert!(
                (found.low - low).abs() < 1e-4 && (found.high - high).abs() < 1e-4,
                "{second:?} {first:?} {found:?}"
            );
        }
        assert_eq!(proportion_effect((0, 0), (1, 2)), None);
    }
}
