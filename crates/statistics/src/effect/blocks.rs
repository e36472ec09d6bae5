//! Draws blocks from two samples, and computes the interval of the change.

use fastrand::Rng;

use super::{Drawing, NoInterval, Pairing};
use crate::draws::interval_from_draws;
use crate::{Interval, MINIMUM_BLOCKS};

/// The most blocks; beyond, blocks are made longer. A thousand blocks give the width of an interval to 2 %, and with
/// prefix sums the time does not grow with the run.
const MOST_BLOCKS: usize = 1_000;

/// The blocks of one sample in one draw.
pub(super) struct Blocks {
    starts: Vec<usize>,
    length: usize,
    items: usize,
}

impl Blocks {
    fn new(items: usize, block: usize) -> Result<Self, NoInterval> {
        let length = block.max(1).max(items.div_ceil(MOST_BLOCKS));
        if items / length < MINIMUM_BLOCKS {
            return Err(NoInterval::TooFewBlocks { block: length });
        }
        Ok(Self { starts: vec![0; items.div_ceil(length)], length, items })
    }

    fn draw(&mut self, random: &mut Rng) {
        for start in &mut self.starts {
            *start = random.usize(0..self.items);
        }
    }

    /// The start and the length of each block; the last is cut so that there are as many items as in the sample.
    pub(super) fn each(&self) -> impl Iterator<Item = (usize, usize)> {
        let last = self.starts.len() - 1;
        let rest = self.items - last * self.length;
        self.starts
            .iter()
            .enumerate()
            .map(move |(place, &start)| (start, if place == last { rest } else { self.length }))
    }
}

/// The changes of all draws, sorted, and the number of blocks of the smaller sample.
pub(super) struct ChangeDraws {
    changes: Vec<f64>,
    blocks: usize,
}

/// Draws blocks from both samples, and computes the change of each draw.
pub(super) fn draw(
    items: (usize, usize),
    drawing: Drawing,
    mut change: impl FnMut(&Blocks, &Blocks) -> Option<f64>,
) -> Result<ChangeDraws, NoInterval> {
    let (mut first, mut second) = match drawing.pairing {
        Pairing::Paired { .. } if items.0 != items.1 => return Err(NoInterval::Unusable),
        Pairing::Paired { block } => (Blocks::new(items.0, block)?, Blocks::new(items.1, block)?),
        Pairing::Independent { first, second } => (Blocks::new(items.0, first)?, Blocks::new(items.1, second)?),
    };
    let is_paired = matches!(drawing.pairing, Pairing::Paired { .. });
    let mut random = Rng::with_seed(drawing.seed);
    let draws = drawing.draws.clamp(200, 10_000);
    let mut changes = Vec::with_capacity(draws);
    for _ in 0..draws {
        first.draw(&mut random);
        if is_paired {
            second.starts.clone_from(&first.starts);
        } else {
            second.draw(&mut random);
        }
        changes.extend(change(&first, &second).filter(|change| change.is_finite()));
    }
    // A draw without a baseline has no change. If that is common, neither have the data.
    if changes.len() < draws - draws / 100 {
        return Err(NoInterval::NoBaseline);
    }
    changes.sort_unstable_by(f64::total_cmp);
    Ok(ChangeDraws { changes, blocks: (items.0 / first.length).min(items.1 / second.length) })
}

impl ChangeDraws {
    /// The interval. `magnitude` is the size of the values whose change was computed, for rounding errors.
    pub(super) fn interval(&self, magnitude: f64) -> Result<Interval, NoInterval> {
        let interval = interval_from_draws(&self.changes, self.blocks).ok_or(NoInterval::Unusable)?;
        if interval.width() > 1e-9 * magnitude { Ok(interval) } else { Err(NoInterval::NoVariation) }
    }
}
