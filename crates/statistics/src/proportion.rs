//! Computes the interval of a proportion, such as an accuracy.

use super::Interval;

/// The 97.5th percentile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// Wilson's 95 % score interval of a proportion. `None` without trials, or with more successes than trials.
///
/// E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference" (Journal of the American
/// Statistical Association 22, 1927). Unlike the usual p ± z √(p(1-p)/n), it is valid for small samples and near 0 and
/// 1, where that one has no width: Brown, Cai and Das Gupta, "Interval Estimation for a Binomial Proportion"
/// (Statistical Science 16, 2001).
#[must_use]
pub fn proportion_interval(successes: u64, trials: u64) -> Option<Interval> {
    if trials == 0 || successes > trials {
        return None;
    }
    let (n, share) = (trials as f64, successes as f64 / trials as f64);
    let scale = 1.0 + Z * Z / n;
    let centre = (share + Z * Z / (2.0 * n)) / scale;
    let half = Z / scale * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    // At the ends the formula gives exactly 0 and 1, except for rounding.
    Some(Interval {
        low: if successes == 0 { 0.0 } else { (centre - half).max(0.0) },
        high: if successes == trials { 1.0 } else { (centre + half).min(1.0) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// R. G. Newcombe, "Two-sided confidence intervals for the single proportion" (Statistics in Medicine 17, 1998),
    /// table I, method 3; the last three follow from n / (n + z²) and its complement.
    #[test]
    fn intervals_match_published_values() {
        for (successes, trials, low, high) in [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
            (0, 10, 0.0, 0.2775),
            (10, 10, 0.7225, 1.0),
            (1, 1, 0.2065, 1.0),
        ] {
            let found = proportion_interval(successes, trials).unwrap();
            assert!((found.low - low).abs() < 5.1e-5, "{successes}/{trials}: {found:?}");
            assert!((found.high - high).abs() < 5.1e-5, "{successes}/{trials}: {found:?}");
        }
        assert_eq!(proportion_interval(0, 0), None);
        assert_eq!(proportion_interval(3, 2), None);
    }

    proptest! {
        #[test]
        fn it_contains_the_proportion_and_stays_within_0_and_1((trials, successes) in
            (1_u64..1_000_000).prop_flat_map(|trials| (Just(trials), 0..=trials)))
        {
            let found = proportion_interval(successes, trials).unwrap();
            prop_assert!(0.0 <= found.low && found.high <= 1.0);
            prop_assert!(found.contains(successes as f64 / trials as f64));
            let mirrored = proportion_interval(trials - successes, trials).unwrap();
            prop_assert!((mirrored.low - (1.0 - found.high)).abs() < 1e-9, "symmetric in right and wrong");
        }
    }
}
