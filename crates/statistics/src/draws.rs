//! Computes the 95 % interval of sorted bootstrap draws, for all intervals by bootstrap.
//!
//! Percentile intervals are too narrow for few blocks: by √(n/(n-1)), and by the ratio of Student's t to the normal
//! distribution. They are therefore taken further out, at Φ(-t √(n/(n-1))): T. Hesterberg, "What Teachers Should Know
//! About the Bootstrap" (The American Statistician 69, 2015), section 3.3. For ten blocks that is the 0.9th percentile
//! instead of the 2.5th.

use crate::normal::tails;
use crate::{Interval, percentile, t_quantile};

/// The interval of sorted draws from this many blocks. `None` below two blocks, or without draws.
pub(crate) fn interval_from_draws(draws: &[f64], blocks: usize) -> Option<Interval> {
    let count = blocks as f64;
    let further = t_quantile(0.975, count - 1.0)? * (count / (count - 1.0)).sqrt();
    let percent = 100.0 * tails(further).outside / 2.0;
    Some(Interval { low: percentile(draws, percent)?, high: percentile(draws, 100.0 - percent)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_few_blocks_is_widened() {
        let draws: Vec<f64> = (0..=10_000).map(|place| f64::from(place) / 100.0).collect();
        let low = |blocks| interval_from_draws(&draws, blocks).map(|interval| interval.low);
        // Φ(-2.2622 √(10/9)) and Φ(-1.9840 √(100/99)).
        assert!((low(10).unwrap() - 0.855).abs() < 0.005, "{:?}", low(10));
        assert!((low(100).unwrap() - 2.305).abs() < 0.02, "{:?}", low(100));
        assert!((low(1_000_000).unwrap() - 2.5).abs() < 0.001);
        let both = interval_from_draws(&draws, 10).unwrap();
        assert!((both.low + both.high - 100.0).abs() < 1e-9);
        assert_eq!((low(1), low(0), interval_from_draws(&[], 10)), (None, None, None));
    }
}
