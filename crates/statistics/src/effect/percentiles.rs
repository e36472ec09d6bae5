//! Computes the interval of the change of a percentile, such as the median or the p99.
//!
//! Up to 2,000 items, the percentile of each draw is computed from its sorted values. Beyond, prefix sums give the
//! share of a draw below the percentile of the sample, and the percentile is shifted by the difference (R. R. Bahadur,
//! "A Note on Quantiles in Large Samples", 1966; R. S. Woodruff, "Confidence Intervals for Medians and Other Position
//! Measures", 1952). The time then does not grow with the run.

use super::blocks::{Blocks, draw};
use super::{Drawing, NoInterval, wider};
use crate::bootstrap::PrefixSums;
use crate::{Interval, percentile};

/// The most items whose draws are sorted.
const SORTED_UP_TO: usize = 2_000;

/// The 95 % interval of the difference of a percentile (0 to 100), second less first. Items with `None`, NaN or
/// infinities have no value.
///
/// It needs enough values for the upper end of the percentile's own interval: pⁿ ≤ 0.025, which is 6 values for a
/// median and 368 for a p99.
pub fn percentile_effect(
    first: &[Option<f64>],
    second: &[Option<f64>],
    percent: f64,
    drawing: Drawing,
) -> Result<Interval, NoInterval> {
    let blocks = drawn(first, second, percent, drawing);
    if blocks.is_err() && blocks != Err(NoInterval::NoVariation) {
        return blocks;
    }
    let (one, two) = drawing.shuffled(first, second);
    wider(blocks, drawn(&one, &two, percent, drawing.one_by_one()))
}

fn drawn(
    first: &[Option<f64>],
    second: &[Option<f64>],
    percent: f64,
    drawing: Drawing,
) -> Result<Interval, NoInterval> {
    let needed = values_needed(percent)?;
    let (one, two) = (Side::new(first, percent), Side::new(second, percent));
    if one.sorted.len().min(two.sorted.len()) < needed {
        return Err(NoInterval::TooFewValues { needed });
    }
    let mut room = Vec::new();
    let mut at = |side: &Side, blocks: &Blocks| side.drawn(blocks, &mut room);
    let drawn = draw((first.len(), second.len()), drawing, |before, after| {
        let before = at(&one, before)?;
        Some(at(&two, after)? - before)
    })?;
    drawn.interval(one.whole.abs().max(two.whole.abs()))
}

fn values_needed(percent: f64) -> Result<usize, NoInterval> {
    if !(percent > 0.0 && percent < 100.0) {
        return Err(NoInterval::Unusable);
    }
    let share = (percent / 100.0).max(1.0 - percent / 100.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let needed = (0.025_f64.ln() / share.ln()).ceil() as usize;
    Ok(needed)
}

/// One of the two samples.
struct Side {
    percent: f64,
    sorted: Vec<f64>,
    /// The percentile of the whole sample.
    whole: f64,
    method: Method,
}

/// How the percentile of a draw is computed.
enum Method {
    /// By sorting; has the rank of each item.
    Sorted(Vec<Option<usize>>),
    /// By counting; has, for each item, whether it is at most the percentile and whether it has a value, and the share
    /// of the sample up to the percentile.
    Counted(PrefixSums, f64),
}

impl Side {
    fn new(items: &[Option<f64>], percent: f64) -> Self {
        let value = |item: &Option<f64>| item.filter(|value| value.is_finite());
        let mut order: Vec<(f64, usize)> =
            items.iter().enumerate().filter_map(|(place, item)| Some((value(item)?, place))).collect();
        order.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        let sorted: Vec<f64> = order.iter().map(|&(value, _)| value).collect();
        let whole = percentile(&sorted, percent).unwrap_or(f64::NAN);
        let method = if items.len() <= SORTED_UP_TO {
            let mut ranks = vec![None; items.len()];
            for (rank, &(_, place)) in order.iter().enumerate() {
                ranks[place] = Some(rank);
            }
            Method::Sorted(ranks)
        } else {
            let below =
                |item: &Option<f64>| value(item).map_or((0.0, 0.0), |value| (f64::from(u8::from(value <= whole)), 1.0));
            let counted: Vec<(f64, f64)> = items.iter().map(below).collect();
            let share = counted.iter().map(|item| item.0).sum::<f64>() / sorted.len() as f64;
            Method::Counted(PrefixSums::new(&counted), share)
        };
        Self { percent, sorted, whole, method }
    }

    /// The percentile of a draw.
    fn drawn(&self, blocks: &Blocks, room: &mut Vec<u32>) -> Option<f64> {
        match &self.method {
            Method::Sorted(ranks) => self.percentile_of_ranks(ranks, blocks, room),
            Method::Counted(sums, share) => {
                let (mut below, mut all) = (0.0, 0.0);
                for (start, length) in blocks.each() {
                    let sum = sums.circular(start, length);
                    below += sum.0;
                    all += sum.1;
                }
                // If the draw has a larger share below than the sample, its percentile is lower.
                let moved = self.percent - 100.0 * (below / all - share);
                percentile(&self.sorted, moved.clamp(0.0, 100.0))
            }
        }
    }

    fn percentile_of_ranks(&self, ranks: &[Option<usize>], blocks: &Blocks, times: &mut Vec<u32>) -> Option<f64> {
        times.clear();
        times.resize(self.sorted.len(), 0);
        let mut count = 0;
        for (start, length) in blocks.each() {
            for place in start..start + length {
                let place = if place < ranks.len() { place } else { place - ranks.len() };
                if let Some(rank) = ranks[place] {
                    times[rank] += 1;
                    count += 1;
                }
            }
        }
        crate::percentile::percentile_by(count, self.percent, |wanted| {
            let mut passed = 0;
            let mut drawn = times.iter().zip(&self.sorted);
            drawn.find_map(|(&times, &value)| {
                passed += times as usize;
                (passed > wanted).then_some(value)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::Pairing;
    use fastrand::Rng;

    /// Latencies with a long tail: exponential above 1; those of the second sample are 1.5 times as long.
    fn runs(seed: u64, count: usize) -> [Vec<Option<f64>>; 2] {
        let mut random = Rng::with_seed(seed);
        [1.0, 1.5].map(|factor| (0..count).map(|_| Some(1.0 - factor * (1.0 - random.f64()).ln())).collect())
    }

    fn covered(count: usize, percent: f64, repeats: u64) -> f64 {
        let truth = 0.5 * -(1.0 - percent / 100.0_f64).ln();
        let held = (0..repeats).filter(|&seed| {
            let [first, second] = runs(seed, count);
            let drawing = Drawing { draws: 300, seed, pairing: Pairing::Independent { first: 1, second: 1 } };
            percentile_effect(&first, &second, percent, drawing).unwrap().contains(truth)
        });
        held.count() as f64 / repeats as f64
    }

    #[test]
    fn the_interval_contains_the_truth_19_times_in_20() {
        for (count, percent) in [(100, 50.0), (150, 90.0), (600, 99.0)] {
            let covered = covered(count, percent, 400);
            assert!((0.91..=0.985).contains(&covered), "p{percent} of {count}: {covered}");
        }
    }

    #[test]
    fn the_interval_by_counting_contains_the_truth_19_times_in_20() {
        for percent in [50.0, 99.0] {
            let covered = covered(SORTED_UP_TO + 500, percent, 200);
            assert!((0.90..=0.99).contains(&covered), "p{percent}: {covered}");
        }
    }

    #[test]
    fn sorting_and_counting_agree() {
        let [first, second] = runs(5, SORTED_UP_TO);
        let longer = |items: &[Option<f64>]| [items, &[None]].concat();
        let drawing = Drawing { draws: 4000, seed: 0, pairing: Pairing::Independent { first: 3, second: 3 } };
        for percent in [50.0, 90.0] {
            let sorted = percentile_effect(&first, &second, percent, drawing).unwrap();
            let counted = percentile_effect(&longer(&first), &longer(&second), percent, drawing).unwrap();
            assert!((sorted.width() / counted.width() - 1.0).abs() < 0.1, "{sorted:?} {counted:?}");
        }
    }

    #[test]
    fn pairing_cancels_differences_between_queries() {
        let mut random = Rng::with_seed(3);
        let first: Vec<Option<f64>> = (0..300).map(|_| Some(10.0 * random.f64())).collect();
        let second: Vec<Option<f64>> =
            first.iter().map(|value| value.map(|value| value + 0.1 * random.f64())).collect();
        let width = |pairing| {
            percentile_effect(&first, &second, 50.0, Drawing { draws: 1000, seed: 0, pairing }).unwrap().width()
        };
        assert!(width(Pairing::Paired { block: 1 }) < width(Pairing::Independent { first: 1, second: 1 }) / 3.0);
    }

    #[test]
    fn an_extreme_percentile_needs_more_values() {
        let drawing = Drawing { draws: 200, seed: 0, pairing: Pairing::Independent { first: 1, second: 1 } };
        let [first, second] = runs(1, 400);
        assert!(percentile_effect(&first, &second, 99.0, drawing).is_ok());
        let few = percentile_effect(&first[..367], &second, 99.0, drawing);
        assert_eq!(few, Err(NoInterval::TooFewValues { needed: 368 }));
        assert_eq!(percentile_effect(&first[..5], &second, 50.0, drawing), Err(NoInterval::TooFewValues { needed: 6 }));
        assert_eq!(percentile_effect(&first[..9], &second, 50.0, drawing), Err(NoInterval::TooFewBlocks { block: 1 }));
        assert_eq!(percentile_effect(&first, &second, 100.0, drawing), Err(NoInterval::Unusable));
        assert_eq!(percentile_effect(&[None; 40], &second, 50.0, drawing), Err(NoInterval::TooFewValues { needed: 6 }));
        let same = percentile_effect(&[Some(2.0); 40], &[Some(3.0); 40], 50.0, drawing);
        assert_eq!(same, Err(NoInterval::NoVariation));
    }
}
