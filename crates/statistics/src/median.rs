//! Computes the interval of a median for any distribution.
//!
//! Each value is below the median with a probability of one half, so the number of values below it is binomial. The
//! interval from the l-th to the (n + 1 - l)-th order statistic contains the median with at least 95 % if P(fewer than
//! l of n below) ≤ 2.5 % (W. J. Conover, "Practical Nonparametric Statistics", 3rd edition, 1999, section 3.2;
//! `scipy.stats.quantile_test`). Values must be independent.

use super::Interval;

/// The 95 % interval of the median of sorted finite values. `None` below six values, because even the smallest and the
/// largest do not enclose the median with 95 %.
///
/// ```
/// # use ergometer_statistics::{Interval, median_interval};
/// let sorted: Vec<f64> = (1..=10).map(f64::from).collect();
/// assert_eq!(median_interval(&sorted), Some(Interval { low: 2.0, high: 9.0 }));
/// ```
#[must_use]
pub fn median_interval(sorted: &[f64]) -> Option<Interval> {
    median_interval_at(sorted, 0.95)
}

/// Like [`median_interval`], at another level. `None` with too few values for the level, or if it is not between 0 and
/// 1.
///
/// ```
/// # use ergometer_statistics::{Interval, median_interval_at};
/// let sorted: Vec<f64> = (1..=10).map(f64::from).collect();
/// assert_eq!(median_interval_at(&sorted, 0.99), Some(Interval { low: 1.0, high: 10.0 }));
/// assert_eq!(median_interval_at(&sorted, 0.999), None);
/// ```
#[must_use]
pub fn median_interval_at(sorted: &[f64], level: f64) -> Option<Interval> {
    if !(level > 0.0 && level < 1.0) {
        return None;
    }
    let index = lowest(sorted.len(), (1.0 - level) / 2.0)?;
    Some(Interval { low: *sorted.get(index)?, high: *sorted.get(sorted.len().checked_sub(index + 1)?)? })
}

/// The index of the order statistic at the lower end: the largest `l` - 1 with P(X < l) ≤ the probability of a tail.
fn lowest(count: usize, most: f64) -> Option<usize> {
    // Probabilities relative to the middle, outwards. Beyond 20 standard deviations (√n/2 each) they vanish.
    let n = count as f64;
    let middle = count / 2;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the count")]
    let reach = (10.0 * n.sqrt()).min(middle as f64) as usize;
    let downwards = std::iter::successors(Some((middle, 1.0)), |&(below, chance)| {
        let fewer = below.checked_sub(1)?;
        Some((fewer, chance * below as f64 / (n - fewer as f64)))
    });
    let chances: Vec<(usize, f64)> = downwards.take(reach + 1).collect();
    // The distribution is symmetric, so the total is twice the lower half, less the middle if there is one.
    let lower: f64 = chances.iter().rev().map(|(_, chance)| chance).sum();
    let whole = if count.is_multiple_of(2) { 2.0 * lower - 1.0 } else { 2.0 * lower };
    let mut tail = 0.0;
    let mut found = None;
    for (below, chance) in chances.into_iter().rev() {
        tail += chance / whole;
        if tail > most * (1.0 + 1e-12) {
            break;
        }
        found = Some(below);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The ranks of the 95 % interval by number of values, from tables of the sign test (Conover, table A3).
    #[test]
    fn ranks_match_the_tables() {
        for (count, rank) in [
            (6, 1),
            (8, 1),
            (9, 2),
            (10, 2),
            (12, 3),
            (15, 4),
            (20, 6),
            (25, 8),
            (30, 10),
            (40, 14),
            (50, 18),
            (100, 40),
        ] {
            assert_eq!(lowest(count, 0.025), Some(rank - 1), "{count}");
        }
        for count in 0..6 {
            assert_eq!(lowest(count, 0.025), None, "{count}");
        }
        // The normal approximation: n/2 - 0.98 √n.
        let rank = lowest(1_000_000, 0.025).unwrap();
        assert!((499_015..=499_025).contains(&rank), "{rank}");
        assert_eq!(median_interval(&[]), None);
    }

    #[test]
    fn the_interval_contains_the_median_19_times_in_20() {
        let held = (0..2000).filter(|&seed| {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut values: Vec<f64> = (0..25).map(|_| -random.f64().max(1e-12).ln()).collect();
            values.sort_unstable_by(f64::total_cmp);
            median_interval(&values).unwrap().contains(std::f64::consts::LN_2)
        });
        let share = held.count() as f64 / 2000.0;
        assert!((0.945..=0.985).contains(&share), "{share}");
    }

    proptest! {
        #[test]
        fn the_interval_is_around_the_median_and_shrinks(count in 6_usize..5_000) {
            let sorted: Vec<f64> = (0..count).map(|i| i as f64).collect();
            let found = median_interval(&sorted).unwrap();
            prop_assert!(found.contains((count as f64 - 1.0) / 2.0));
            prop_assert!((found.low + found.high - (count as f64 - 1.0)).abs() < 1e-9, "symmetric");
            prop_assert!(found.width() <= 2.0 * (count as f64).sqrt() + 2.0);
        }
    }

    /// Ranks by the binomial distribution at other levels. For 20 values, P(X < 4) = 0.0013 ≤ 0.5 % < P(X < 5) =
    /// 0.0059, and P(X < 6) = 0.0207 ≤ 5 % < P(X < 7) = 0.0577.
    #[test]
    fn other_levels_have_other_ranks() {
        let sorted: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(median_interval_at(&sorted, 0.99), Some(Interval { low: 4.0, high: 17.0 }));
        assert_eq!(median_interval_at(&sorted, 0.90), Some(Interval { low: 6.0, high: 15.0 }));
        for level in [0.0, 1.0, -1.0, 2.0, f64::NAN] {
            assert_eq!(median_interval_at(&sorted, level), None, "{level}");
        }
        assert_eq!(median_interval_at(&[], 0.5), None);
    }
}
