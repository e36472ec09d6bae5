//! How much one sample differs from another: two samples go in; the 95 % interval of the change comes out, or why there
//! is none.
//!
//! Samples are in the order in which they came about. Neighbours are drawn together in blocks, circularly, as
//! [`ratio_interval`](crate::ratio_interval) draws them, so that what drifts slowly widens the interval. Where the items
//! of the two belong together (the same queries) both sides are drawn by the same blocks, and what differs between items
//! cancels. The same seed always gives the same interval.
//!
//! Blocks are there to widen an interval. Where items take turns (a dataset that goes through its subjects in a circle)
//! blocks are more alike than items, and would narrow it: that a dataset is in order says nothing about the next one. So
//! the same is drawn once more with the items shuffled, and the wider interval counts.
//!
//! Few blocks widen the interval as `draws` says.

mod blocks;
mod percentiles;
mod proportions;
mod sums;
mod welch;

use std::fmt;

use fastrand::Rng;

use crate::Interval;

pub use percentiles::percentile_effect;
pub use proportions::proportion_effect;
pub use sums::{products_effect, sums_effect};
pub use welch::{welch_interval, welch_ratio_interval};

/// What is asked of two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The second less the first.
    Difference,
    /// The second over the first.
    Ratio,
}

/// How items of the two samples belong together, and how many neighbours are drawn at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// The items at one place are of one thing.
    Paired {
        /// Neighbours.
        block: usize,
    },
    /// They have nothing to do with each other.
    Apart {
        /// Neighbours on the first side.
        first: usize,
        /// Neighbours on the second.
        second: usize,
    },
}

/// How to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drawing {
    /// How often; 200 at least, 10,000 at most.
    pub draws: usize,
    /// The seed.
    pub seed: u64,
    /// Together or apart.
    pub pairing: Pairing,
}

impl Drawing {
    /// The same for items that are shuffled, one by one.
    fn one_by_one(self) -> Self {
        let pairing = match self.pairing {
            Pairing::Paired { .. } => Pairing::Paired { block: 1 },
            Pairing::Apart { .. } => Pairing::Apart { first: 1, second: 1 },
        };
        Self { pairing, ..self }
    }

    /// Both samples shuffled: pairs stay pairs.
    fn shuffled<T: Clone>(self, first: &[T], second: &[T]) -> (Vec<T>, Vec<T>) {
        let (mut first, mut second) = (first.to_vec(), second.to_vec());
        Rng::with_seed(self.seed ^ 1).shuffle(&mut first);
        let is_paired = matches!(self.pairing, Pairing::Paired { .. });
        Rng::with_seed(self.seed ^ if is_paired { 1 } else { 2 }).shuffle(&mut second);
        (first, second)
    }
}

/// The wider of an interval and that of the shuffled items.
fn wider(blocks: Result<Interval, NoInterval>, single: Result<Interval, NoInterval>) -> Result<Interval, NoInterval> {
    match (blocks, single) {
        (Ok(blocks), Ok(single)) if single.width() > blocks.width() => Ok(single),
        (Err(NoInterval::NoVariation), Ok(single)) => Ok(single),
        (blocks, _) => blocks,
    }
}

/// Why there is no interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoInterval {
    /// A sample has fewer than [`MINIMUM_BLOCKS`](crate::MINIMUM_BLOCKS) blocks.
    TooFewBlocks,
    /// Not enough values for this percentile.
    TooFewValues {
        /// How many it takes on each side.
        needed: usize,
    },
    /// All items are alike, so resampling sees nothing.
    NoVariation,
    /// The first side is zero, or may be.
    NoBaseline,
    /// A number that is none, or samples that should be pairs and are not.
    Unusable,
    /// Fewer than two runs on a side.
    OneRun,
}

impl fmt::Display for NoInterval {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewBlocks => {
                formatter.write_str("too few queries: it takes ten stretches of queries that ran together")
            }
            Self::TooFewValues { needed } => write!(formatter, "too few queries: it takes {needed} on each side"),
            Self::NoVariation => formatter.write_str("no query differs from another"),
            Self::NoBaseline => formatter.write_str("the baseline is zero, or may be"),
            Self::Unusable => formatter.write_str("its numbers cannot be used"),
            Self::OneRun => formatter.write_str("it takes two runs on each side"),
        }
    }
}

/// How many neighbours to draw at once: as many as ran together, and no fewer than the cube root of the number of items,
/// so that drift within a run is seen (the rate is that of Hall, Horowitz and Jing, "On blocking rules for the bootstrap
/// with dependent data", 1995), as long as ten blocks are left.
#[must_use]
pub fn block_for(items: usize, together: usize) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the root of a length")]
    let root = ((items as f64).cbrt() + 1e-9).floor() as usize;
    together.max(root.min(items / crate::MINIMUM_BLOCKS)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_grow_with_the_run_and_leave_ten() {
        assert_eq!([5, 10, 20, 30, 64, 1000, 100_000].map(|items| block_for(items, 1)), [1, 1, 2, 3, 4, 10, 46]);
        assert_eq!((block_for(400, 32), block_for(27, 1), block_for(0, 0)), (32, 2, 1));
    }
}
