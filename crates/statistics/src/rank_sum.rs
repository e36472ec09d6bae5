//! Compares two samples by the rank sum test, and estimates the ratio of their values.
//!
//! Execution times are skewed and have outliers, so the test compares ranks and assumes no distribution:
//! F. Wilcoxon, "Individual comparisons by ranking methods" (1945), and H. B. Mann and D. R. Whitney, "On a test of
//! whether one of two random variables is stochastically larger than the other" (1947). It assumes that executions are
//! independent. The order of samples and of values, and a common factor, change nothing.

use crate::{ConfidenceInterval, normal_p_value, t_quantile};

/// The p value is exact up to this (N·m)², for N values in total and m in the smaller sample: 20 against 20, or 5
/// against 195. Counting every division of the values into two samples then takes less than a millisecond.
const EXACT_UP_TO: usize = 1_000_000;

/// The result of a rank sum test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankSum {
    /// The share of pairs, one value from each sample, in which the first is larger; ties count half.
    pub superiority: f64,
    /// The two-sided p value: twice the share of divisions of all values into samples of these sizes whose rank sum is
    /// at least as low, or at least as high, whichever share is smaller.
    pub p: f64,
    /// Whether all divisions were counted. Otherwise p is from the normal distribution, corrected for ties and for
    /// continuity (E. L. Lehmann, "Nonparametrics", 1975, section 1.4).
    pub exact: bool,
}

/// Compares two samples by their ranks. `None` if one is empty or contains a NaN.
#[must_use]
pub fn rank_sum(first: &[f64], second: &[f64]) -> Option<RankSum> {
    if first.is_empty() || second.is_empty() || first.iter().chain(second).any(|value| value.is_nan()) {
        return None;
    }
    let (few, many) = if first.len() <= second.len() { (first, second) } else { (second, first) };
    let (size, total) = (few.len(), few.len() + many.len());
    let ranks = Ranks::new(few, many);
    let (pairs, exact) = ((few.len() * many.len()) as f64, is_exact(size, total));
    let p = if exact {
        let counts = subset_sums(&ranks.doubled, size);
        let lower: f64 = counts[..=ranks.doubled_sum].iter().sum();
        let upper: f64 = counts[ranks.doubled_sum..].iter().sum();
        2.0 * lower.min(upper) / counts.iter().sum::<f64>()
    } else {
        let variance = pairs / 12.0 * (total as f64 + 1.0 - ranks.ties / (total as f64 * (total as f64 - 1.0)));
        // The mean of a rank sum is size (total + 1) / 2.
        let distance = ranks.doubled_sum.abs_diff(size * (total + 1)) as f64 / 2.0;
        let beyond = (distance - 0.5).max(0.0);
        if variance > 0.0 { normal_p_value(beyond / variance.sqrt()).unwrap_or(1.0) } else { 1.0 }
    };
    let of_few = (ranks.doubled_sum as f64 / 2.0 - (size * (size + 1)) as f64 / 2.0) / pairs;
    Some(RankSum { superiority: if first.len() <= second.len() { of_few } else { 1.0 - of_few }, p: p.min(1.0), exact })
}

/// The smallest p value that samples of these sizes can have: the one of samples that do not overlap.
pub(crate) fn smallest_p(first: usize, second: usize) -> f64 {
    // One over the number of ways to choose, as a product that can't overflow.
    let divisions: f64 = (1..=first).map(|taken| taken as f64 / (second + taken) as f64).product();
    (2.0 * divisions).min(1.0)
}

/// The interval of [`pairwise_ratio`], assuming that the samples differ by a factor only. `None` if the samples are too
/// small for the level, or a value is not positive.
///
/// Its ends are two of the ratios of each first value to each second value: the outermost that the rank sum test cannot
/// distinguish from the median ratio (L. E. Moses; J. L. Hodges and E. L. Lehmann, "Estimates of location based on rank
/// tests", 1963). Without ties it excludes 1 exactly if the p value is at most 1 - level. With ties it is conservative.
#[must_use]
pub fn pairwise_ratio_interval(first: &[f64], second: &[f64], level: f64) -> Option<ConfidenceInterval> {
    if !(level > 0.0 && level < 1.0) {
        return None;
    }
    let (above, below) = (sorted_positive(first)?, sorted_positive(second)?);
    let outermost = pairs_outside(first.len(), second.len(), 1.0 - level)?;
    Some(ConfidenceInterval {
        low: ratio_at(&above, &below, outermost),
        high: ratio_at(&above, &below, first.len() * second.len() + 1 - outermost),
        level,
    })
}

/// The ratio of the first sample to the second: the median of the ratios of each first value to each second value (the
/// Hodges-Lehmann estimate that lies in [`pairwise_ratio_interval`]). With an even number of ratios, it is the
/// geometric mean of the middle two. `None` without values, or if a value is not positive.
///
/// ```
/// # use ergometer_statistics::pairwise_ratio;
/// assert_eq!(pairwise_ratio(&[2.0, 4.0, 6.0], &[1.0]), Some(4.0));
/// ```
#[must_use]
pub fn pairwise_ratio(first: &[f64], second: &[f64]) -> Option<f64> {
    let (above, below) = (sorted_positive(first)?, sorted_positive(second)?);
    let pairs = above.len() * below.len();
    let at = |rank: usize| ratio_at(&above, &below, rank);
    (pairs > 0).then(|| if pairs % 2 == 1 { at(pairs / 2 + 1) } else { (at(pairs / 2) * at(pairs / 2 + 1)).sqrt() })
}

/// The values in order; `None` if one is not positive and finite.
fn sorted_positive(values: &[f64]) -> Option<Vec<f64>> {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values.iter().all(|value| value.is_finite() && *value > 0.0).then_some(values)
}

/// The rank (from 1) of the ratio that bounds the interval: the largest `k` with P(U < k) ≤ alpha/2.
fn pairs_outside(first: usize, second: usize, alpha: f64) -> Option<usize> {
    let (size, total, pairs) = (first.min(second), first + second, first * second);
    let outermost = if is_exact(size, total) {
        let ranks: Vec<usize> = (1..=total).collect();
        let counts = subset_sums(&ranks, size);
        // Slightly above alpha/2, because 1 - 0.95 as a float is not exactly 0.05.
        let mut left = alpha / 2.0 * (1.0 + 1e-12) * counts.iter().sum::<f64>();
        let smallest = size * (size + 1) / 2;
        let fits = |count: &&f64| {
            left -= **count;
            left >= 0.0
        };
        counts[smallest.min(counts.len())..].iter().take_while(fits).count()
    } else {
        let variance = (pairs as f64) * (total as f64 + 1.0) / 12.0;
        let rank = pairs as f64 / 2.0 - t_quantile(1.0 - alpha / 2.0, f64::INFINITY)? * variance.sqrt();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a negative rank becomes 0, which is rejected below"
        )]
        let rank = rank.floor() as usize;
        rank
    };
    (outermost > 0).then_some(outermost.min(pairs.div_ceil(2)))
}

/// The ratio at `rank` (from 1) of the sorted ratios of a value in `above` to a value in `below`, both sorted and
/// positive. Positive floats have the order of their bits, so it bisects the range of bits.
fn ratio_at(above: &[f64], below: &[f64], rank: usize) -> f64 {
    let up_to = |ratio: f64| {
        let mut start = 0;
        above.iter().fold(0, |count, value| {
            // A larger value skips more of the values that it exceeds by more than the ratio.
            start += below[start..].iter().take_while(|&&other| value / other > ratio).count();
            count + below.len() - start
        })
    };
    let (mut low, mut high) = (0_u64, f64::INFINITY.to_bits());
    while low < high {
        let middle = low.midpoint(high);
        if up_to(f64::from_bits(middle)) >= rank {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    f64::from_bits(high)
}

fn is_exact(size: usize, total: usize) -> bool {
    size.checked_mul(total).and_then(|product| product.checked_mul(product)).is_some_and(|work| work <= EXACT_UP_TO)
}

/// The ranks of two samples together. Tied values share the mean of their ranks, so all ranks are doubled.
struct Ranks {
    doubled: Vec<usize>,
    /// The sum over the first sample.
    doubled_sum: usize,
    /// The sum of t³ - t over groups of t tied values.
    ties: f64,
}

impl Ranks {
    fn new(first: &[f64], second: &[f64]) -> Self {
        let tagged = first.iter().map(|&value| (value, true)).chain(second.iter().map(|&value| (value, false)));
        let mut values: Vec<(f64, bool)> = tagged.collect();
        values.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let mut found = Self { doubled: Vec::with_capacity(values.len()), doubled_sum: 0, ties: 0.0 };
        for group in values.chunk_by(|one, other| one.0 == other.0) {
            let (before, tied) = (found.doubled.len(), group.len());
            let doubled = 2 * before + tied + 1;
            found.doubled.extend(std::iter::repeat_n(doubled, tied));
            found.doubled_sum += doubled * group.iter().filter(|(_, is_first)| *is_first).count();
            found.ties += (tied as f64).powi(3) - tied as f64;
        }
        found
    }
}

/// The number of subsets of `size` weights by their sum. Counts up to 2^53 are exact.
fn subset_sums(weights: &[usize], size: usize) -> Vec<f64> {
    let largest: usize = weights.iter().rev().take(size).sum();
    let mut counts = vec![vec![0.0; largest + 1]; size + 1];
    counts[0][0] = 1.0;
    let mut reached = 0;
    for &weight in weights {
        reached = (reached + weight).min(largest);
        for taken in (1..=size).rev() {
            let (fewer, more) = counts.split_at_mut(taken);
            for sum in weight..=reached {
                more[0][sum] += fewer[taken - 1][sum - weight];
            }
        }
    }
    counts.pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By definition: for every choice of the first sample, the pairs in which it is larger.
    fn brute_force(first: &[f64], second: &[f64]) -> f64 {
        let all: Vec<f64> = first.iter().chain(second).copied().collect();
        let doubled_pairs = |chosen: u32| -> usize {
            let side = |bit: u32| all.iter().enumerate().filter(move |(index, _)| chosen >> index & 1 == bit);
            let score = |one: f64, other: f64| if one > other { 2 } else { usize::from(one == other) };
            side(1).map(|(_, &one)| side(0).map(|(_, &other)| score(one, other)).sum::<usize>()).sum()
        };
        let observed = doubled_pairs((1 << first.len()) - 1);
        let choices = (0_u32..1 << all.len()).filter(|chosen| chosen.count_ones() as usize == first.len());
        let scores: Vec<usize> = choices.map(doubled_pairs).collect();
        let lower = scores.iter().filter(|&&score| score <= observed).count();
        let upper = scores.iter().filter(|&&score| score >= observed).count();
        (2.0 * lower.min(upper) as f64 / scores.len() as f64).min(1.0)
    }

    #[test]
    fn samples_that_do_not_overlap_have_the_smallest_p() {
        let (low, high) = ([1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]);
        let found = rank_sum(&high, &low).unwrap();
        assert_eq!((found.superiority, found.p, found.exact), (1.0, 2.0 / 252.0, true));
        assert!((smallest_p(5, 5) - 2.0 / 252.0).abs() < 1e-15);
        assert!((smallest_p(2, 2) - 1.0 / 3.0).abs() < 1e-15);
        assert_eq!((smallest_p(0, 5), smallest_p(1, 1), smallest_p(5000, 5000)), (1.0, 1.0, 0.0));
    }

    #[test]
    fn empty_samples_have_no_result() {
        assert_eq!(rank_sum(&[], &[1.0]), None);
        assert_eq!(rank_sum(&[1.0], &[f64::NAN]), None);
        let same = [2.0; 300];
        assert_eq!(rank_sum(&same, &same), Some(RankSum { superiority: 0.5, p: 1.0, exact: false }));
        assert_eq!(rank_sum(&same[..5], &same[..5]), Some(RankSum { superiority: 0.5, p: 1.0, exact: true }));
    }

    /// `scipy.stats.mannwhitneyu(x, y, method="asymptotic")` of the same values.
    #[test]
    fn large_samples_are_normal() {
        let first: Vec<f64> = (0..60).map(|index| f64::from(index * 7 % 50)).collect();
        let second: Vec<f64> = (0..50).map(|index| f64::from(index * 3 % 40 + 8)).collect();
        let found = rank_sum(&first, &second).unwrap();
        assert!(!found.exact);
        assert!((found.p - 0.382_319_871_389_468).abs() < 1e-12, "{found:?}");
    }

    /// Moses' interval of two samples of five: the third and the 23rd of 25 ratios (P(U ≤ 2) = 4/252 = 0.0159).
    #[test]
    fn the_ends_of_the_interval_are_ratios() {
        let (first, second) = ([20.0, 22.0, 24.0, 26.0, 28.0], [10.0, 10.1, 10.2, 10.3, 10.4]);
        let mut ratios: Vec<f64> = first.iter().flat_map(|one| second.map(|other| one / other)).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let found = pairwise_ratio_interval(&first, &second, 0.95).unwrap();
        assert_eq!((found.low, found.high), (ratios[2], ratios[22]));
        assert_eq!(pairwise_ratio_interval(&first[..3], &second[..3], 0.95), None);
        assert_eq!(pairwise_ratio_interval(&first, &[0.0, 1.0, 1.0, 1.0, 1.0], 0.95), None);
        assert_eq!(pairwise_ratio_interval(&[], &second, 0.95), None);
        assert_eq!(pairwise_ratio_interval(&first, &second, f64::NAN), None);
        let constant = pairwise_ratio_interval(&[3.0; 5], &[2.0; 5], 0.95).unwrap();
        assert_eq!((constant.low, constant.high), (1.5, 1.5));
        assert!(pairwise_ratio_interval(&vec![2.0; 3000], &[1.0; 2000], 0.95).unwrap().contains(2.0));
    }

    proptest! {
        #[test]
        fn the_exact_p_is_the_share_of_all_divisions(
            first in prop::collection::vec((0_u8..6).prop_map(f64::from), 1..7),
            second in prop::collection::vec((0_u8..6).prop_map(f64::from), 1..7),
        ) {
            let found = rank_sum(&first, &second).unwrap();
            prop_assert!(found.exact);
            prop_assert!((found.p - brute_force(&first, &second)).abs() < 1e-12, "{found:?}");
            prop_assert!(found.p >= smallest_p(first.len(), second.len()) - 1e-12);
            let mirrored = rank_sum(&second, &first).unwrap();
            prop_assert!((mirrored.superiority - (1.0 - found.superiority)).abs() < 1e-12);
            prop_assert_eq!(mirrored.p, found.p);
        }

        #[test]
        fn interval_and_p_agree_without_ties(
            values in prop::collection::hash_set(1_u32..1_000_000, 2..70),
            split in any::<prop::sample::Index>(),
            level in 0.5..0.999,
        ) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let (first, second) = values.split_at(1 + split.index(values.len() - 1));
            let found = rank_sum(first, second).unwrap();
            if found.exact {
                let excludes_one = pairwise_ratio_interval(first, second, level).is_some_and(|interval| !interval.contains(1.0));
                prop_assert_eq!(excludes_one, found.p <= 1.0 - level, "{:?}", found);
            }
            if let (Some(one), Some(other)) = (pairwise_ratio_interval(first, second, level), pairwise_ratio_interval(second, first, level)) {
                prop_assert!((one.low * other.high - 1.0).abs() < 1e-12 && (one.high * other.low - 1.0).abs() < 1e-12);
            }
        }
    }
}
