//! Computes the 95 % interval of the change from one sample to another.
//!
//! Samples are in the order of measurement. Neighbours are drawn together in circular blocks, as in
//! [`ratio_interval`](crate::ratio_interval), so that slow drift widens the interval. If the items of the samples are
//! paired (the same queries), both sides are drawn with the same blocks, and differences between items cancel. The same
//! seed always gives the same interval.
//!
//! Blocks should widen an interval. If a dataset cycles through its subjects, blocks are more alike than items and
//! would narrow it. The bootstrap is therefore repeated with shuffled items, and the wider interval counts. Intervals
//! of few blocks are widened (see `draws`).

mod blocks;
mod percentiles;
mod proportions;
mod sums;
mod welch;

use std::fmt;

use fastrand::Rng;

use crate::{Interval, MINIMUM_BLOCKS};

pub use percentiles::percentile_effect;
pub use proportions::proportion_effect;
pub use sums::{products_effect, sums_effect};
pub use welch::{welch_interval, welch_ratio_interval};

/// How the change between two samples is expressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The second less the first.
    Difference,
    /// The second over the first.
    Ratio,
}

/// Whether the items of two samples are paired, and how many neighbours are drawn together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// Items with the same index belong together.
    Paired {
        /// The number of neighbours drawn together.
        block: usize,
    },
    /// The samples are independent.
    Independent {
        /// The number of neighbours drawn together from the first sample.
        first: usize,
        /// The number of neighbours drawn together from the second sample.
        second: usize,
    },
}

/// Parameters of the bootstrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drawing {
    /// The number of draws, which is clamped to 200 to 10,000.
    pub draws: usize,
    /// The random seed.
    pub seed: u64,
    /// Whether items are paired, and the lengths of blocks.
    pub pairing: Pairing,
}

impl Drawing {
    /// The same with single items instead of blocks.
    fn one_by_one(self) -> Self {
        let pairing = match self.pairing {
            Pairing::Paired { .. } => Pairing::Paired { block: 1 },
            Pairing::Independent { .. } => Pairing::Independent { first: 1, second: 1 },
        };
        Self { pairing, ..self }
    }

    /// Shuffles both samples; pairs stay together.
    fn shuffled<T: Clone>(self, first: &[T], second: &[T]) -> (Vec<T>, Vec<T>) {
        let (mut first, mut second) = (first.to_vec(), second.to_vec());
        Rng::with_seed(self.seed ^ 1).shuffle(&mut first);
        let is_paired = matches!(self.pairing, Pairing::Paired { .. });
        Rng::with_seed(self.seed ^ if is_paired { 1 } else { 2 }).shuffle(&mut second);
        (first, second)
    }
}

/// The wider of the intervals of blocks and of shuffled items.
fn wider(blocks: Result<Interval, NoInterval>, single: Result<Interval, NoInterval>) -> Result<Interval, NoInterval> {
    match (blocks, single) {
        (Ok(blocks), Ok(single)) if single.width() > blocks.width() => Ok(single),
        (Err(NoInterval::NoVariation), Ok(single)) => Ok(single),
        (blocks, _) => blocks,
    }
}

/// The reason why there is no interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoInterval {
    /// A sample has fewer than [`MINIMUM_BLOCKS`] blocks.
    TooFewBlocks {
        /// The number of items in a block.
        block: usize,
    },
    /// There are too few values for this percentile.
    TooFewValues {
        /// The number of values needed in each run.
        needed: usize,
    },
    /// All items are equal, so resampling gives no variation.
    NoVariation,
    /// The baseline is not significantly different from zero.
    NoBaseline,
    /// A value is not finite, or paired samples differ in length.
    Unusable,
    /// There are fewer than two runs on a side.
    OneRun,
}

impl fmt::Display for NoInterval {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewBlocks { block: 1 } => {
                write!(formatter, "too few queries: an interval needs at least {MINIMUM_BLOCKS}")
            }
            Self::TooFewBlocks { block } => write!(
                formatter,
                "too few queries: an interval needs at least {needed} ({MINIMUM_BLOCKS} blocks of {block} \
                 consecutive queries)",
                needed = MINIMUM_BLOCKS.saturating_mul(*block)
            ),
            Self::TooFewValues { needed } => {
                write!(formatter, "too few completed queries: needs at least {needed} in each run")
            }
            Self::NoVariation => formatter.write_str("all queries have the same value"),
            Self::NoBaseline => formatter.write_str("the baseline is not distinguishable from zero"),
            Self::Unusable => formatter.write_str("some values are not finite or not paired"),
            Self::OneRun => formatter.write_str("needs at least 2 runs on each side"),
        }
    }
}

/// The number of neighbours to draw together: the number of concurrent requests, and at least the cube root of the
/// number of items, so that drift within a run is included (the rate is from Hall, Horowitz and Jing, "On blocking
/// rules for the bootstrap with dependent data", 1995), as long as ten blocks remain.
#[must_use]
pub fn block_for(items: usize, concurrent: usize) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the root of a length")]
    let root = ((items as f64).cbrt() + 1e-9).floor() as usize;
    concurrent.max(root.min(items / MINIMUM_BLOCKS)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_grow_with_the_run_but_at_least_ten_remain() {
        assert_eq!([5, 10, 20, 30, 64, 1000, 100_000].map(|items| block_for(items, 1)), [1, 1, 2, 3, 4, 10, 46]);
        assert_eq!((block_for(400, 32), block_for(27, 1), block_for(0, 0)), (32, 2, 1));
    }
}
