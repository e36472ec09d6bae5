//! Ranks variants by their execution times, and tests each against the fastest.
//!
//! The median time decides the rank: one disturbed execution of five moves the mean by a fifth of its delay, and the
//! median hardly at all. The rank sum test compares each variant with the fastest, and the p values are corrected for
//! the number of comparisons.
//!
//! The order of the variants does not matter, nor does a common factor of all times.

use serde::Serialize;

use crate::rank_sum::smallest_p;
use crate::{ConfidenceInterval, Sample, holm, pairwise_ratio, pairwise_ratio_interval, rank_sum};

/// A variant to compare: a name and its execution times.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// Its name.
    pub id: String,
    /// The time of each of its executions.
    pub sample: Sample,
}

/// The result of comparing a variant with the fastest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It has the smallest median. The verdicts of the others say how clearly.
    Fastest,
    /// It is significantly slower than the fastest.
    Slower,
    /// It is not significantly slower than the fastest.
    TooCloseToCall,
    /// It has too few times for any difference, however large, to be significant.
    TooFewSamples,
}

/// A variant compared with the fastest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RankedVariant {
    /// Its name.
    pub id: String,
    /// The number of times.
    pub n: usize,
    /// The median time, which decides the rank.
    pub median_s: f64,
    /// How many times as long as the fastest it takes, see [`pairwise_ratio`]. Medians decide the rank, so the ratio of
    /// two close variants may be below 1. Absent if a time is not positive.
    pub ratio: Option<f64>,
    /// The interval of the ratio, for this comparison alone (see [`pairwise_ratio_interval`]). Absent for the fastest,
    /// with too few times, or if a time is not positive.
    pub ratio_interval: Option<ConfidenceInterval>,
    /// The p value of the difference from the fastest, for this comparison alone. Absent for the fastest.
    pub p: Option<f64>,
    /// The p value corrected for the number of comparisons (see [`holm`]), which decides the verdict.
    pub corrected_p: Option<f64>,
    /// The result of the comparison.
    pub verdict: Verdict,
}

/// Variants ordered by speed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranking {
    /// The level of the intervals. A difference is significant if its corrected p value is at most 1 - level.
    pub level: f64,
    /// The fastest first.
    pub rows: Vec<RankedVariant>,
}

/// Ranks variants by their median time, and tests which are slower than the fastest at this level (such as
/// [`DEFAULT_LEVEL`](crate::DEFAULT_LEVEL)). If the level is not between 0 and 1, no difference is significant.
///
/// The same data choose the fastest and test it, which the correction does not account for. Among many equal variants,
/// one is called slower more often than 1 - level (in simulations at 95 %: 6 % of the time for four variants of five
/// executions, 10 % for ten of eight).
///
/// ```
/// # use ergometer_statistics::{DEFAULT_LEVEL, Sample, Variant, Verdict, rank};
/// # use ergometer_units::Picos;
/// let variant = |id: &str, times: [i64; 5]| Variant {
///     id: id.to_owned(),
///     sample: Sample::from_picos(&times.map(Picos::new)).unwrap(),
/// };
/// let ranking = rank(&[variant("a", [30, 31, 29, 33, 32]), variant("b", [20, 22, 21, 20, 25])], DEFAULT_LEVEL);
/// assert_eq!((ranking.rows[0].id.as_str(), ranking.rows[1].verdict), ("b", Verdict::Slower));
/// ```
#[must_use]
pub fn rank(variants: &[Variant], level: f64) -> Ranking {
    let mut ordered: Vec<&Variant> = variants.iter().collect();
    ordered.sort_by(|one, other| {
        let key = |variant: &Variant| [variant.sample.median().get(), variant.sample.mean().get()];
        let ([one_median, one_mean], [other_median, other_mean]) = (key(one), key(other));
        one_median
            .total_cmp(&other_median)
            .then(one_mean.total_cmp(&other_mean))
            .then_with(|| one.id.cmp(&other.id))
            .then_with(|| {
                one.sample
                    .sorted_seconds()
                    .iter()
                    .map(|value| value.to_bits())
                    .cmp(other.sample.sorted_seconds().iter().map(|value| value.to_bits()))
            })
    });
    let Some((fastest, others)) = ordered.split_first() else { return Ranking { level, rows: Vec::new() } };
    let tests: Vec<_> = others.iter().map(|other| rank_sum(times(other), times(fastest))).collect();
    let corrected = holm(&tests.iter().map(|test| test.map_or(1.0, |test| test.p)).collect::<Vec<_>>());
    // Holm's corrected values never grow as a p value shrinks. If even the smallest possible p values are corrected to
    // more than alpha, the samples are too small.
    let attainable =
        holm(&others.iter().map(|other| smallest_p(other.sample.n(), fastest.sample.n())).collect::<Vec<_>>());
    let alpha = (1.0 - level) * (1.0 + 1e-12);
    let first = untested(fastest, fastest, Verdict::Fastest);
    let mut rows = vec![RankedVariant { ratio: first.ratio.map(|_| 1.0), ..first }];
    for (((other, test), corrected_p), attainable_p) in others.iter().zip(tests).zip(corrected).zip(attainable) {
        let is_slower = corrected_p <= alpha && test.is_some_and(|test| test.superiority > 0.5);
        let verdict = match (is_slower, attainable_p <= alpha) {
            (true, _) => Verdict::Slower,
            (false, true) => Verdict::TooCloseToCall,
            (false, false) => Verdict::TooFewSamples,
        };
        rows.push(RankedVariant {
            ratio_interval: pairwise_ratio_interval(times(other), times(fastest), level),
            p: test.map(|test| test.p),
            corrected_p: Some(corrected_p),
            ..untested(other, fastest, verdict)
        });
    }
    Ranking { level, rows }
}

fn times(variant: &Variant) -> &[f64] {
    variant.sample.sorted_seconds()
}

/// A variant without the results of a test.
fn untested(variant: &Variant, fastest: &Variant, verdict: Verdict) -> RankedVariant {
    RankedVariant {
        id: variant.id.clone(),
        n: variant.sample.n(),
        median_s: variant.sample.median().get(),
        ratio: pairwise_ratio(times(variant), times(fastest)),
        ratio_interval: None,
        p: None,
        corrected_p: None,
        verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DEFAULT_LEVEL;
    use ergometer_units::Picos;
    use proptest::prelude::*;

    fn variant(id: &str, times: &[i64]) -> Variant {
        let times: Vec<Picos> = times.iter().copied().map(Picos::new).collect();
        Variant { id: id.to_owned(), sample: Sample::from_picos(&times).unwrap() }
    }

    fn verdicts(variants: &[Variant]) -> Vec<(String, Verdict)> {
        rank(variants, DEFAULT_LEVEL).rows.into_iter().map(|row| (row.id, row.verdict)).collect()
    }

    #[test]
    fn four_variants_of_five() {
        let variants = [
            variant("slow", &[300, 310, 305, 320, 900]),
            variant("fast", &[100, 101, 99, 103, 400]),
            variant("near", &[102, 100, 104, 98, 105]),
            variant("odd", &[500, 500, 500, 500, 500]),
        ];
        let ranking = rank(&variants, DEFAULT_LEVEL);
        let found: Vec<_> = ranking.rows.iter().map(|row| (row.id.as_str(), row.verdict)).collect();
        // One slow execution of `fast` is longer than four of `slow`: 24 of 252 divisions are at least as extreme.
        let expected = [
            ("fast", Verdict::Fastest),
            ("near", Verdict::TooCloseToCall),
            ("slow", Verdict::TooCloseToCall),
            ("odd", Verdict::Slower),
        ];
        assert_eq!(found, expected, "{ranking:#?}");
        let odd = &ranking.rows[3];
        assert!((odd.p.unwrap() - 2.0 / 252.0).abs() < 1e-15 && (odd.corrected_p.unwrap() - 6.0 / 252.0).abs() < 1e-15);
        assert_eq!((ranking.rows[0].ratio, ranking.rows[0].p), (Some(1.0), None));
        assert!(odd.ratio_interval.unwrap().contains(odd.ratio.unwrap()));
    }

    #[test]
    fn small_samples_have_no_significant_difference() {
        assert_eq!(
            verdicts(&[variant("a", &[1, 2]), variant("b", &[1000, 2000])]),
            [("a".to_owned(), Verdict::Fastest), ("b".to_owned(), Verdict::TooFewSamples)]
        );
        // Four against four: 2 of 70 is below 0.05 for one comparison, but not for two.
        let four = |id, base| variant(id, &[base, base + 1, base + 2, base + 3]);
        assert_eq!(verdicts(&[four("a", 10), four("b", 50)])[1].1, Verdict::Slower);
        assert_eq!(verdicts(&[four("a", 10), four("b", 50), four("c", 90)])[2].1, Verdict::TooFewSamples);
        assert_eq!(rank(&[], DEFAULT_LEVEL).rows, []);
        assert_eq!(verdicts(&[variant("alone", &[1])])[0].1, Verdict::Fastest);
        assert_eq!(rank(&[four("a", 10), four("b", 50)], f64::NAN).rows[1].verdict, Verdict::TooFewSamples);
    }

    #[test]
    fn times_that_never_change() {
        let same = rank(&[variant("a", &[7; 5]), variant("b", &[7; 5]), variant("c", &[14; 5])], DEFAULT_LEVEL);
        assert_eq!(
            (same.rows[1].verdict, same.rows[1].ratio, same.rows[1].p),
            (Verdict::TooCloseToCall, Some(1.0), Some(1.0))
        );
        let constant = same.rows[2].ratio_interval.unwrap();
        assert_eq!((same.rows[2].verdict, constant.low, constant.high), (Verdict::Slower, 2.0, 2.0));
        let zero = rank(&[variant("a", &[0; 5]), variant("b", &[7; 5])], DEFAULT_LEVEL);
        assert_eq!(
            (zero.rows[1].verdict, zero.rows[1].ratio, zero.rows[1].ratio_interval),
            (Verdict::Slower, None, None)
        );
    }

    #[test]
    fn a_row_as_json() {
        let ranking = rank(&[variant("a", &[1_000_000; 5]), variant("b", &[2_000_000; 5])], DEFAULT_LEVEL);
        let json = serde_json::to_value(&ranking).unwrap();
        assert_eq!(json["rows"][0]["verdict"], "fastest");
        assert_eq!(json["rows"][0]["p"], serde_json::Value::Null);
        assert_eq!(json["rows"][1]["ratio_interval"]["high"], 2.0);
    }

    fn some_times() -> impl Strategy<Value = Vec<Vec<i64>>> {
        let times = prop_oneof![prop::collection::vec(1_i64..50, 1..9), prop::collection::vec(1_i64..1_000_000, 1..30)];
        prop::collection::vec(times, 1..6)
    }

    /// Variants with these times, multiplied by a factor.
    fn scaled_variants(times: &[Vec<i64>], factor: i64) -> Vec<Variant> {
        let scaled = times.iter().map(|times| times.iter().map(|time| time * factor).collect::<Vec<_>>());
        scaled.enumerate().map(|(index, times)| variant(&index.to_string(), &times)).collect()
    }

    fn some_variants() -> impl Strategy<Value = Vec<Variant>> {
        some_times().prop_map(|times| scaled_variants(&times, 1))
    }

    proptest! {
        #[test]
        fn the_order_of_the_input_changes_nothing((variants, shuffled) in
            some_variants().prop_flat_map(|variants| (Just(variants.clone()), Just(variants).prop_shuffle()))
        ) {
            prop_assert_eq!(rank(&variants, DEFAULT_LEVEL), rank(&shuffled, DEFAULT_LEVEL));
        }

        #[test]
        fn rows_are_in_order_and_p_values_are_probabilities(variants in some_variants()) {
            let ranking = rank(&variants, DEFAULT_LEVEL);
            prop_assert_eq!(ranking.rows.len(), variants.len());
            prop_assert!(ranking.rows.is_sorted_by(|one, other| one.median_s <= other.median_s));
            for (place, row) in ranking.rows.iter().enumerate() {
                prop_assert_eq!(row.verdict == Verdict::Fastest, place == 0);
                let ratio = row.ratio.unwrap();
                prop_assert!(row.ratio_interval.is_none_or(|interval| interval.low <= ratio && ratio <= interval.high));
                prop_assert!(place > 0 || (ratio - 1.0).abs() < 1e-12);
                prop_assert_eq!(row.p.is_some(), place > 0);
                if let (Some(p), Some(corrected)) = (row.p, row.corrected_p) {
                    prop_assert!(0.0 < p && p <= corrected && corrected <= 1.0);
                }
            }
        }

        #[test]
        fn a_common_factor_changes_no_ratio(times in some_times(), factor in 1_i64..1000) {
            let (variants, scaled) = (scaled_variants(&times, 1), scaled_variants(&times, factor));
            for (one, other) in rank(&variants, DEFAULT_LEVEL).rows.iter().zip(&rank(&scaled, DEFAULT_LEVEL).rows) {
                let close = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-12;
                prop_assert!(close(one.ratio.unwrap(), other.ratio.unwrap()));
                prop_assert_eq!((one.p, one.verdict), (other.p, other.verdict));
                prop_assert_eq!(one.ratio_interval.is_some(), other.ratio_interval.is_some());
                if let (Some(one), Some(other)) = (one.ratio_interval, other.ratio_interval) {
                    prop_assert!(close(one.low, other.low) && close(one.high, other.high));
                }
            }
        }

        #[test]
        fn swapping_the_times_of_two_variants_swaps_their_rows(one in prop::collection::vec(1_i64..100, 1..12), other in prop::collection::vec(1_i64..100, 1..12)) {
            let rows = |first: &[i64], second: &[i64]| rank(&[variant("x", first), variant("y", second)], DEFAULT_LEVEL).rows;
            let (straight, swapped) = (rows(&one, &other), rows(&other, &one));
            prop_assert_eq!(straight[0].median_s, swapped[0].median_s);
            prop_assert_eq!((straight[1].p, straight[1].verdict), (swapped[1].p, swapped[1].verdict));
            // If median and mean are equal, the name decides, and names are not swapped.
            let sample = |times: &[i64]| variant("", times).sample;
            if straight[0].median_s != straight[1].median_s || sample(&one).mean() != sample(&other).mean() {
                prop_assert_ne!(&straight[0].id, &swapped[0].id);
                prop_assert_eq!(straight[1].ratio, swapped[1].ratio);
            }
        }
    }
}
