//! Computes the interval of a ratio of sums (correct answers per joule, joules per token) by bootstrap over queries.
//!
//! Each query contributes a pair, numerator and denominator, in the order of sending; a query without a value is `(0,
//! 0)`. The result is the 95 % interval of Σ numerators / Σ denominators. If all denominators are 1, it is the interval
//! of a mean. The same seed always gives the same interval.
//!
//! Numerator and denominator of a query are drawn together, because its correctness and its energy are correlated.
//! Concurrent requests share their energy, so neighbours are not independent. Blocks of neighbours are therefore drawn,
//! circularly, so that every query is equally likely (Politis and Romano, "A circular block-resampling procedure for
//! stationary data", 1992). The percentile interval is from Efron and Tibshirani, "An Introduction to the Bootstrap"
//! (1993), chapter 13, and is widened for few blocks (see `draws`).
//!
//! Blocks should widen an interval. If a dataset cycles through its subjects, blocks are more alike than queries and
//! would narrow it. The bootstrap is therefore repeated with single queries in random order, and the wider interval
//! counts.

use fastrand::Rng;

use super::Interval;
use crate::draws::interval_from_draws;

/// The fewest blocks with a query for an interval. Five or six blocks say little about the tails of a distribution,
/// even with corrections.
pub const MINIMUM_BLOCKS: usize = 10;

/// The fewest draws. For ten blocks the interval ends at the 0.9th percentile, and fewer draws have at most one beyond
/// it.
const MINIMUM_DRAWS: usize = 200;

/// The most blocks drawn in total, about 0.1 s of work.
const WORK: usize = 10_000_000;

/// Blocks are never merged to fewer than this, regardless of the number of draws.
const FEWEST_MERGED_BLOCKS: usize = 1_000;

/// Parameters of the bootstrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resampling {
    /// The number of draws, which is clamped to 200 to 10,000.
    pub draws: usize,
    /// How many neighbours are drawn together: 1 for sequential requests, about twice the concurrency for concurrent
    /// requests.
    pub block: usize,
    /// The random seed.
    pub seed: u64,
}

impl Default for Resampling {
    fn default() -> Self {
        Self { draws: 2_000, block: 1, seed: 0 }
    }
}

/// The 95 % interval of Σ first / Σ second over the pairs.
///
/// With more than 10,000,000 / draws blocks (5,000 at 2,000 draws), blocks are made longer, so that the time does not
/// grow with the run: with prefix sums the cost of a block does not depend on its length.
///
/// `None` in these cases:
/// - fewer than [`MINIMUM_BLOCKS`] blocks contain a query other than `(0, 0)`;
/// - a value is not finite, a denominator is negative, or all denominators are zero;
/// - all queries have the same ratio (for example, no answer is correct). Every resample then has that ratio, and an
///   interval without width would claim certainty.
///
/// ```
/// # use ergometer_statistics::{Resampling, ratio_interval};
/// // Correctness and joules of forty queries.
/// let pairs: Vec<(f64, f64)> = (0..40).map(|i| (f64::from(i % 2), 10.0 + f64::from(i % 7))).collect();
/// let interval = ratio_interval(&pairs, Resampling::default()).unwrap();
/// assert!(interval.contains(20.0 / pairs.iter().map(|pair| pair.1).sum::<f64>()));
/// ```
#[must_use]
pub fn ratio_interval(pairs: &[(f64, f64)], resampling: Resampling) -> Option<Interval> {
    let usable = |&(top, bottom): &(f64, f64)| top.is_finite() && bottom.is_finite() && bottom >= 0.0;
    if pairs.is_empty() || !pairs.iter().all(usable) {
        return None;
    }
    let blocks = match drawn(pairs, resampling) {
        BlockInterval::NoBlocks => return None,
        found => found.interval(),
    };
    if resampling.block <= 1 {
        return blocks;
    }
    let mut shuffled = pairs.to_vec();
    Rng::with_seed(resampling.seed ^ 1).shuffle(&mut shuffled);
    let single = drawn(&shuffled, Resampling { block: 1, ..resampling }).interval();
    blocks.into_iter().chain(single).max_by(|one, other| one.width().total_cmp(&other.width()))
}

/// The result of drawing blocks.
enum BlockInterval {
    Interval(Interval),
    /// There are too few blocks, or all denominators are zero.
    NoBlocks,
    NoVariation,
}

impl BlockInterval {
    fn interval(self) -> Option<Interval> {
        match self {
            Self::Interval(interval) => Some(interval),
            Self::NoBlocks | Self::NoVariation => None,
        }
    }
}

fn drawn(pairs: &[(f64, f64)], resampling: Resampling) -> BlockInterval {
    let draws = resampling.draws.clamp(MINIMUM_DRAWS, WORK / FEWEST_MERGED_BLOCKS);
    let block = resampling.block.max(1).max(pairs.len().div_ceil(WORK / draws));
    let holds_any = |block: &&[(f64, f64)]| block.iter().any(|&pair| pair != (0.0, 0.0));
    let blocks = pairs.chunks_exact(block).filter(holds_any).count();
    if blocks < MINIMUM_BLOCKS {
        return BlockInterval::NoBlocks;
    }
    let sums = PrefixSums::new(pairs);
    let mut random = Rng::with_seed(resampling.seed);
    let mut ratios: Vec<f64> = (0..draws).filter_map(|_| sums.draw(block, &mut random)).collect();
    // A draw has no ratio if all its denominators are zero. If that is common, neither have the data.
    if ratios.len() < draws - draws / 100 {
        return BlockInterval::NoBlocks;
    }
    ratios.sort_unstable_by(f64::total_cmp);
    // Prefix sums are rounded in the 16th digit, so the interval of equal ratios has a tiny width.
    let has_width = |interval: &Interval| interval.width() > 1e-9 * interval.low.abs().max(interval.high.abs());
    interval_from_draws(&ratios, blocks).filter(has_width).map_or(BlockInterval::NoVariation, BlockInterval::Interval)
}

/// Sums of the first 0, 1, 2 … n pairs, so that the sum of a block takes one subtraction.
pub(super) struct PrefixSums(Vec<(f64, f64)>);

impl PrefixSums {
    pub(super) fn new(pairs: &[(f64, f64)]) -> Self {
        let sums = pairs.iter().scan((0.0, 0.0), |sum, pair| {
            *sum = (sum.0 + pair.0, sum.1 + pair.1);
            Some(*sum)
        });
        Self(std::iter::once((0.0, 0.0)).chain(sums).collect())
    }

    /// The ratio of one resample: blocks until there are as many pairs as in the data; the last block is cut short.
    fn draw(&self, block: usize, random: &mut Rng) -> Option<f64> {
        let count = self.0.len() - 1;
        let (mut top, mut bottom, mut taken) = (0.0, 0.0, 0);
        while taken < count {
            let length = block.min(count - taken);
            let sum = self.circular(random.usize(0..count), length);
            top += sum.0;
            bottom += sum.1;
            taken += length;
        }
        let ratio = top / bottom;
        (bottom > 0.0 && ratio.is_finite()).then_some(ratio)
    }

    /// The sum of a block, which continues at the start of the data if it passes the end.
    pub(super) fn circular(&self, start: usize, length: usize) -> (f64, f64) {
        let count = self.0.len() - 1;
        let end = start + length;
        let (head, tail) = (self.between(start, end.min(count)), self.between(0, end.saturating_sub(count)));
        (head.0 + tail.0, head.1 + tail.1)
    }

    fn between(&self, start: usize, end: usize) -> (f64, f64) {
        (self.0[end].0 - self.0[start].0, self.0[end].1 - self.0[start].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;
    use proptest::prelude::*;

    /// How often the interval contains the true ratio, over seeded runs of 100 queries: 60 % correct, 5 to 15 J each,
    /// and `run` consecutive queries are alike, as in concurrent requests.
    fn coverage(run: usize, block: usize) -> f64 {
        let truth = 0.6 / 10.0;
        let held = (0..400).filter(|&seed| {
            let mut random = Rng::with_seed(seed);
            let mut pairs = Vec::new();
            while pairs.len() < 100 {
                let pair = (f64::from(u8::from(random.f64() < 0.6)), 5.0 + 10.0 * random.f64());
                pairs.extend(std::iter::repeat_n(pair, run));
            }
            let resampling = Resampling { draws: 400, block, seed };
            ratio_interval(&pairs, resampling).is_some_and(|interval| interval.contains(truth))
        });
        held.count() as f64 / 400.0
    }

    #[test]
    fn the_interval_contains_the_truth_19_times_in_20() {
        let covered = coverage(1, 1);
        assert!((0.91..=0.98).contains(&covered), "{covered}");
    }

    #[test]
    fn similar_neighbours_need_blocks() {
        let (single, blocks) = (coverage(4, 1), coverage(4, 8));
        assert!(single < 0.75, "drawn one by one, the interval is too narrow: {single}");
        assert!(blocks > 0.89, "drawn in blocks it is nearly right: {blocks}");
    }

    /// How often the interval of joules per token contains the true ratio, over queries that differ in both.
    fn few(blocks: usize, block: usize) -> f64 {
        let held = (0..1000).filter(|&seed| {
            let mut random = Rng::with_seed(seed);
            let mut query = || {
                let tokens = 10.0 + 40.0 * random.f64();
                (tokens * (0.5 + random.f64() + random.f64() - random.f64()), tokens)
            };
            let pairs: Vec<(f64, f64)> = (0..blocks * block).map(|_| query()).collect();
            let resampling = Resampling { draws: 400, block, seed };
            ratio_interval(&pairs, resampling).is_some_and(|interval| interval.contains(1.0))
        });
        held.count() as f64 / 1000.0
    }

    #[test]
    fn few_blocks_are_wide_enough() {
        for blocks in [10, 20, 40] {
            let (single, four) = (few(blocks, 1), few(blocks, 4));
            assert!((0.93..=0.97).contains(&single), "{blocks} queries: {single}");
            assert!((0.93..=0.985).contains(&four), "{blocks} blocks of four: {four}");
        }
    }

    #[test]
    fn only_blocks_with_a_query_count() {
        let with = |every: u32| -> Vec<(f64, f64)> {
            let pair = |query: u32| if query.is_multiple_of(every) { (f64::from(query % 7), 1.0) } else { (0.0, 0.0) };
            (0..80).map(pair).collect()
        };
        let resampling = Resampling { block: 4, ..Resampling::default() };
        assert!(ratio_interval(&with(8), resampling).is_some(), "ten blocks of twenty");
        assert_eq!(ratio_interval(&with(9), resampling), None, "nine");
        let mut close = with(1);
        close[30..].fill((0.0, 0.0));
        assert_eq!(ratio_interval(&close, resampling), None, "thirty queries in eight blocks");
    }

    #[test]
    fn a_cyclic_dataset_does_not_narrow_the_interval() {
        let pairs: Vec<(f64, f64)> = (0..400).map(|query| (f64::from(u8::from(query % 4 != 0)), 1.0)).collect();
        let found = ratio_interval(&pairs, Resampling { block: 8, ..Resampling::default() }).unwrap();
        let expected = 2.0 * 1.96 * (0.25 * 0.75 / 400.0_f64).sqrt();
        assert!((found.width() / expected - 1.0).abs() < 0.1, "{} beside {expected}", found.width());
    }

    #[test]
    fn unusable_data_have_no_interval() {
        let pairs: Vec<(f64, f64)> = (0..20).map(|i| (f64::from(i % 3), f64::from(i % 5) + 1.0)).collect();
        let with = |block| Resampling { block, ..Resampling::default() };
        assert!(ratio_interval(&pairs, with(1)).is_some());
        assert!(ratio_interval(&pairs, with(2)).is_some());
        assert_eq!(ratio_interval(&pairs, with(3)), None, "six blocks");
        assert_eq!(ratio_interval(&pairs, with(usize::MAX)), None);
        assert_eq!(ratio_interval(&pairs[..9], with(1)), None);
        assert_eq!(ratio_interval(&[], with(1)), None);
        for bad in [(f64::NAN, 1.0), (1.0, f64::INFINITY), (1.0, -1.0)] {
            let mut spoilt = pairs.clone();
            spoilt[7] = bad;
            assert_eq!(ratio_interval(&spoilt, with(1)), None, "{bad:?}");
        }
        assert_eq!(ratio_interval(&[(1.0, 0.0); 20], with(1)), None, "no joules at all");
        assert_eq!(ratio_interval(&[(0.0, 3.1); 20], with(1)), None, "no answer right");
        assert_eq!(ratio_interval(&[(1.0, 0.1); 1000], with(1)), None, "no variation");
    }

    #[test]
    fn a_large_run_gives_the_interval_of_theory() {
        let mut random = Rng::with_seed(1);
        let pairs: Vec<(f64, f64)> = (0..100_000).map(|_| (random.f64(), 1.0)).collect();
        let found = ratio_interval(&pairs, Resampling::default()).unwrap();
        let expected = 2.0 * 1.96 / 12.0_f64.sqrt() / 100_000.0_f64.sqrt();
        assert!((found.width() / expected - 1.0).abs() < 0.15, "{} beside {expected}", found.width());
        assert!(ratio_interval(&pairs, Resampling { draws: usize::MAX, block: 0, seed: 0 }).is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_same_seed_gives_the_same_interval_in_the_range_of_the_ratios(
            pairs in prop::collection::vec((0.0..9.0, 0.5..9.0), 10..60), block in 0_usize..5, seed: u64)
        {
            let resampling = Resampling { draws: 200, block, seed };
            let found = ratio_interval(&pairs, resampling);
            prop_assert_eq!(found, ratio_interval(&pairs, resampling));
            if let Some(found) = found {
                prop_assert!(0.0 <= found.low && found.low < found.high && found.high <= 18.0);
            }
        }

        #[test]
        fn a_block_may_wrap_around_the_end(length in 0_usize..=7, start in 0_usize..7) {
            let pairs: Vec<(f64, f64)> = (0..7).map(|i| (f64::from(i), f64::from(i * i))).collect();
            let expected = pairs.iter().cycle().skip(start).take(length).fold((0.0, 0.0), |sum, pair| {
                (sum.0 + pair.0, sum.1 + pair.1)
            });
            prop_assert_eq!(PrefixSums::new(&pairs).circular(start, length), expected);
        }
    }
}
