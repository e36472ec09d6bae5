//! Computes the interval of the change of a ratio of sums (accuracy, joules per query, tokens per second), or of a
//! product of such ratios (accuracy over mean power).

use super::blocks::{Blocks, draw};
use super::{Change, Drawing, NoInterval, wider};
use crate::Interval;
use crate::bootstrap::PrefixSums;

/// The 95 % interval of the change of Σ numerators / Σ denominators from the first sample to the second. An item
/// without a value is `(0, 0)`.
///
/// ```
/// # use ergometer_statistics::{Change, Drawing, Pairing, sums_effect};
/// // The second run uses 10 % more energy for every query. Queries differ by much more, which cancels.
/// let first: Vec<(f64, f64)> = (0..50).map(|i| (1.0 + f64::from(i % 7), 1.0)).collect();
/// let more = |(i, q): (usize, &(f64, f64))| (q.0 * 1.1 + (i % 3) as f64 / 50.0, 1.0);
/// let second: Vec<(f64, f64)> = first.iter().enumerate().map(more).collect();
/// let drawing = Drawing { draws: 500, seed: 0, pairing: Pairing::Paired { block: 1 } };
/// let interval = sums_effect(&first, &second, Change::Ratio, drawing).unwrap();
/// assert!(1.09 < interval.low && interval.high < 1.12);
/// ```
pub fn sums_effect(
    first: &[(f64, f64)],
    second: &[(f64, f64)],
    change: Change,
    drawing: Drawing,
) -> Result<Interval, NoInterval> {
    let alone = |items: &[(f64, f64)]| items.iter().map(|&item| [item]).collect::<Vec<_>>();
    products_effect(&alone(first), &alone(second), change, drawing)
}

/// The same for Π (Σ numerators / Σ denominators). Each item has a numerator and a denominator for every factor, which
/// are drawn together, because they are correlated.
pub fn products_effect<const FACTORS: usize>(
    first: &[[(f64, f64); FACTORS]],
    second: &[[(f64, f64); FACTORS]],
    change: Change,
    drawing: Drawing,
) -> Result<Interval, NoInterval> {
    let usable = |&(top, bottom): &(f64, f64)| top.is_finite() && bottom.is_finite() && bottom >= 0.0;
    if !first.iter().chain(second).flatten().all(usable) {
        return Err(NoInterval::Unusable);
    }
    let blocks = drawn(first, second, change, drawing);
    if blocks.is_err() && blocks != Err(NoInterval::NoVariation) {
        return blocks;
    }
    let (one, two) = drawing.shuffled(first, second);
    wider(blocks, drawn(&one, &two, change, drawing.one_by_one()))
}

/// The prefix sums of each factor.
struct Factors<const FACTORS: usize>([PrefixSums; FACTORS]);

impl<const FACTORS: usize> Factors<FACTORS> {
    fn new(items: &[[(f64, f64); FACTORS]]) -> Self {
        Self(std::array::from_fn(|factor| PrefixSums::new(&items.iter().map(|item| item[factor]).collect::<Vec<_>>())))
    }

    /// The product over these blocks of items: start and length.
    fn product(&self, blocks: impl Iterator<Item = (usize, usize)>) -> Option<f64> {
        let mut sums = [(0.0, 0.0); FACTORS];
        for (start, length) in blocks {
            for (sum, factor) in sums.iter_mut().zip(&self.0) {
                let part = factor.circular(start, length);
                *sum = (sum.0 + part.0, sum.1 + part.1);
            }
        }
        sums.iter().all(|sum| sum.1 > 0.0).then(|| sums.iter().map(|sum| sum.0 / sum.1).product())
    }
}

fn drawn<const FACTORS: usize>(
    first: &[[(f64, f64); FACTORS]],
    second: &[[(f64, f64); FACTORS]],
    change: Change,
    drawing: Drawing,
) -> Result<Interval, NoInterval> {
    let (one, two) = (Factors::new(first), Factors::new(second));
    let between = |first: f64, second: f64| match change {
        Change::Difference => Some(second - first),
        Change::Ratio => (first > 0.0).then(|| second / first),
    };
    let product = |sums: &Factors<FACTORS>, blocks: &Blocks| sums.product(blocks.each());
    let drawn = draw((first.len(), second.len()), drawing, |before, after| {
        between(product(&one, before)?, product(&two, after)?)
    })?;
    let whole = |sums: &Factors<FACTORS>, count: usize| sums.product([(0, count)].into_iter()).unwrap_or(f64::NAN);
    let (before, after) = (whole(&one, first.len()), whole(&two, second.len()));
    drawn.interval(match change {
        Change::Difference => before.abs().max(after.abs()),
        Change::Ratio => (after / before).abs(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::{Pairing, block_for};
    use fastrand::Rng;
    use proptest::prelude::*;

    fn normal(random: &mut Rng) -> f64 {
        (-2.0 * random.f64().max(1e-300).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
    }

    /// Two runs of the same queries, which take 1 to 20 J; the second takes 20 % more. Both have independent noise.
    fn runs(seed: u64, queries: usize) -> [Vec<(f64, f64)>; 2] {
        let mut random = Rng::with_seed(seed);
        let mut runs = [Vec::new(), Vec::new()];
        for _ in 0..queries {
            let joules = 1.0 + 19.0 * random.f64();
            for (run, factor) in runs.iter_mut().zip([1.0, 1.2]) {
                run.push((joules * factor + 0.5 * normal(&mut random), 1.0));
            }
        }
        runs
    }

    fn held(truth: f64, interval: impl Fn(u64) -> Interval) -> f64 {
        (0..600).filter(|&seed| interval(seed).contains(truth)).count() as f64 / 600.0
    }

    #[test]
    fn the_interval_contains_the_truth_19_times_in_20_paired_and_independent() {
        for change in [Change::Ratio, Change::Difference] {
            let truth = if change == Change::Ratio { 1.2 } else { 0.2 * 10.5 };
            let paired = held(truth, |seed| {
                let [first, second] = runs(seed, 120);
                let drawing = Drawing { draws: 400, seed, pairing: Pairing::Paired { block: block_for(120, 1) } };
                sums_effect(&first, &second, change, drawing).unwrap()
            });
            assert!((0.925..=0.975).contains(&paired), "{change:?} paired: {paired}");
            let apart = held(truth, |seed| {
                let ([first, _], [_, second]) = (runs(seed, 120), runs(seed + 10_000, 90));
                let drawing = Drawing { draws: 400, seed, pairing: Pairing::Independent { first: 4, second: 4 } };
                sums_effect(&first, &second, change, drawing).unwrap()
            });
            assert!((0.925..=0.975).contains(&apart), "{change:?} apart: {apart}");
        }
    }

    /// Correct answers over joules, times seconds over queries. If power is constant, joules and seconds cancel, and
    /// the result is the interval of the accuracy.
    #[test]
    fn the_factors_of_a_product_are_drawn_together() {
        let run = |seed: u64| -> Vec<[(f64, f64); 2]> {
            let mut random = Rng::with_seed(seed);
            let query = |_| {
                let (right, seconds) = (f64::from(u8::from(random.f64() < 0.7)), 1.0 + 50.0 * random.f64().powi(3));
                [(right, 1.0), (seconds, 80.0 * seconds)]
            };
            (0..300).map(query).collect()
        };
        let (first, second) = (run(1), run(2));
        let drawing = Drawing { draws: 2000, seed: 0, pairing: Pairing::Paired { block: 1 } };
        let found = products_effect(&first, &second, Change::Ratio, drawing).unwrap();
        let accuracy = |run: &[[(f64, f64); 2]]| run.iter().map(|factors| factors[0]).collect::<Vec<_>>();
        let expected = sums_effect(&accuracy(&first), &accuracy(&second), Change::Ratio, drawing).unwrap();
        assert!((found.low - expected.low).abs() < 1e-9 && (found.high - expected.high).abs() < 1e-9, "{found:?}");
        let per_joule =
            |run: &[[(f64, f64); 2]]| run.iter().map(|factors| (factors[0].0, factors[1].1)).collect::<Vec<_>>();
        let joules = sums_effect(&per_joule(&first), &per_joule(&second), Change::Ratio, drawing).unwrap();
        assert!(found.width() < 0.7 * joules.width(), "{} beside {}", found.width(), joules.width());
    }

    #[test]
    fn ten_blocks_are_wide_enough() {
        let covered = held(1.2, |seed| {
            let [first, second] = runs(seed, 40);
            let drawing = Drawing { draws: 400, seed, pairing: Pairing::Paired { block: 4 } };
            sums_effect(&first, &second, Change::Ratio, drawing).unwrap()
        });
        assert!((0.92..=0.985).contains(&covered), "{covered}");
    }

    #[test]
    fn drift_needs_blocks() {
        // A slow wave over the run, with a different phase in each.
        let drifting = |seed: u64| {
            let mut random = Rng::with_seed(seed);
            [0, 1].map(|_| {
                let mut level = 0.0;
                let step = |_| {
                    level = 0.8 * level + normal(&mut random);
                    (10.0 + level, 1.0)
                };
                (0..500).map(step).collect::<Vec<_>>()
            })
        };
        let covered = |block: usize| {
            held(0.0, |seed| {
                let [first, second] = drifting(seed);
                let drawing =
                    Drawing { draws: 300, seed, pairing: Pairing::Independent { first: block, second: block } };
                sums_effect(&first, &second, Change::Difference, drawing).unwrap()
            })
        };
        let (single, blocks) = (covered(1), covered(20));
        assert!(single < 0.75 && blocks > 0.88, "one by one {single}, in blocks {blocks}");
    }

    #[test]
    fn a_cyclic_dataset_does_not_narrow_the_interval() {
        // A cycle of four subjects, of which one is correct in one run only.
        let right = |run: usize| -> Vec<(f64, f64)> {
            (0..400_usize).map(|place| (f64::from(u8::from(run == 1 || place % 4 != 0)), 1.0)).collect()
        };
        let drawing = Drawing { draws: 2000, seed: 0, pairing: Pairing::Paired { block: 8 } };
        let found = sums_effect(&right(0), &right(1), Change::Difference, drawing).unwrap();
        let expected = 2.0 * 1.96 * (0.25 * 0.75 / 400.0_f64).sqrt();
        assert!((found.width() / expected - 1.0).abs() < 0.1, "{} beside {expected}", found.width());
    }

    #[test]
    fn pairing_narrows_the_interval_if_queries_vary() {
        let [first, second] = runs(1, 200);
        let width = |pairing| {
            let drawing = Drawing { draws: 1000, seed: 0, pairing };
            sums_effect(&first, &second, Change::Difference, drawing).unwrap().width()
        };
        let (paired, apart) =
            (width(Pairing::Paired { block: 1 }), width(Pairing::Independent { first: 1, second: 1 }));
        assert!(paired < apart / 3.0, "{paired} and {apart}");
    }

    #[test]
    fn unusable_data_have_no_interval_and_a_reason() {
        let drawing = |block| Drawing { draws: 200, seed: 0, pairing: Pairing::Paired { block } };
        let [first, second] = runs(1, 40);
        let of = |first: &[(f64, f64)], second: &[(f64, f64)], block| {
            sums_effect(first, second, Change::Ratio, drawing(block)).unwrap_err()
        };
        assert_eq!(of(&first, &second, 5), NoInterval::TooFewBlocks { block: 5 });
        assert_eq!(of(&[], &[], 1), NoInterval::TooFewBlocks { block: 1 });
        let text = of(&first, &second, 14).to_string();
        assert!(text.ends_with("needs at least 140 (10 blocks of 14 consecutive queries)"), "{text}");
        assert_eq!(of(&first[1..], &second, 1), NoInterval::Unusable);
        assert_eq!(of(&first, &first, 1), NoInterval::NoVariation);
        assert_eq!(of(&[(0.0, 1.0); 40], &second, 1), NoInterval::NoBaseline);
        assert_eq!(of(&[(f64::NAN, 1.0); 40], &second, 1), NoInterval::Unusable);
        let long: Vec<(f64, f64)> = (0..100_000).map(|i| (f64::from(i % 1000), 1.0)).collect();
        let huge = Drawing { draws: usize::MAX, seed: 0, pairing: Pairing::Independent { first: 0, second: 1 } };
        assert!(sums_effect(&long, &first, Change::Difference, huge).is_ok(), "bounded in time");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_same_seed_gives_the_same_interval_and_swapped_samples_invert_it(
            first in prop::collection::vec((0.0..9.0, 0.5..9.0), 20..60), seed: u64)
        {
            let second: Vec<(f64, f64)> = first.iter().rev().map(|item| (item.0 + 1.0, item.1)).collect();
            let drawing = Drawing { draws: 200, seed, pairing: Pairing::Paired { block: 2 } };
            let forth = sums_effect(&first, &second, Change::Difference, drawing);
            prop_assert_eq!(forth, sums_effect(&first, &second, Change::Difference, drawing));
            if let (Ok(forth), Ok(back)) = (forth, sums_effect(&second, &first, Change::Difference, drawing)) {
                prop_assert!((forth.low + back.high).abs() < 1e-9 && (forth.high + back.low).abs() < 1e-9);
            }
        }
    }
}
