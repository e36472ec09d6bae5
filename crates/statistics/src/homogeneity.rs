//! Tests whether groups differ in a proportion, such as accuracy by subject.
//!
//! The statistic is the chi-square of K. Pearson ("On the criterion…", 1900) for a table of two columns. Its
//! distribution does not hold for few trials, so the p value comes from a permutation test: the successes are
//! redistributed at random with fixed totals, and the p value is the share of draws that are at least as uneven as the
//! data, counting the data itself (Phipson and Smyth, "Permutation P-values should never be zero", 2010). The same seed
//! gives the same p value.

use fastrand::Rng;

use super::normal_p_value;

/// The number of permutations.
const DRAWS: usize = 9_999;

/// The most trials drawn in total, about 0.1 s of work.
const WORK: usize = 20_000_000;

/// The result of the test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Homogeneity {
    /// Pearson's chi-square.
    pub chi_square: f64,
    /// The degrees of freedom: groups with trials, less one.
    pub freedom: usize,
    /// The probability of groups at least this uneven if all have the same proportion.
    pub p_value: f64,
    /// The method that computed the p value.
    pub by: TestedBy,
}

/// The method that computed a p value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestedBy {
    /// A permutation test.
    Permutation {
        /// The number of permutations.
        draws: usize,
    },
    /// The chi-square distribution, by the cube root approximation of Wilson and Hilferty (1931), for too many trials
    /// to permute.
    ChiSquare,
}

/// Tests whether groups of (successes, trials) differ in their proportion. `None` for fewer than two groups with
/// trials, without any success or any failure, or with more successes than trials.
///
/// ```
/// # use ergometer_statistics::homogeneity;
/// let found = homogeneity(&[(50, 50), (50, 50), (6, 50)], 0).unwrap();
/// assert!(found.p_value < 0.001);
/// ```
#[must_use]
pub fn homogeneity(groups: &[(u64, u64)], seed: u64) -> Option<Homogeneity> {
    let groups: Vec<(u64, u64)> = groups.iter().copied().filter(|&(_, trials)| trials > 0).collect();
    if groups.len() < 2 || groups.iter().any(|(successes, trials)| successes > trials) {
        return None;
    }
    let sum = |count: fn(&(u64, u64)) -> u64| groups.iter().map(count).try_fold(0_u64, u64::checked_add);
    let (successes, trials) = (sum(|group| group.0)?, sum(|group| group.1)?);
    if successes == 0 || successes == trials {
        return None;
    }
    let uneven = Unevenness { share: successes as f64 / trials as f64 };
    let chi_square = uneven.chi_square(groups.iter().copied());
    let freedom = groups.len() - 1;
    // Draws the rarer outcome.
    let drawn = usize::try_from(successes.min(trials - successes)).ok()?;
    let draws = DRAWS.min(WORK / (drawn + groups.len()));
    if draws < 999 || trials > WORK as u64 {
        let p_value = chi_square_p_value(chi_square, freedom as f64)?;
        return Some(Homogeneity { chi_square, freedom, p_value, by: TestedBy::ChiSquare });
    }
    let rarer_is_success = successes <= trials - successes;
    let mut deck: Vec<u32> = Vec::new();
    for (group, &(_, trials)) in (0_u32..).zip(&groups) {
        deck.extend(std::iter::repeat_n(group, usize::try_from(trials).ok()?));
    }
    let mut random = Rng::with_seed(seed);
    let mut found = vec![0_u64; groups.len()];
    let mut as_uneven = 1_usize;
    for _ in 0..draws {
        found.fill(0);
        for card in 0..drawn {
            let other = random.usize(card..deck.len());
            deck.swap(card, other);
            found[deck[card] as usize] += 1;
        }
        let of_draw = found
            .iter()
            .zip(&groups)
            .map(|(&count, &(_, trials))| (if rarer_is_success { count } else { trials - count }, trials));
        // A draw that equals the data must count, regardless of rounding.
        as_uneven += usize::from(uneven.chi_square(of_draw) >= chi_square * (1.0 - 1e-9));
    }
    let p_value = as_uneven as f64 / (draws + 1) as f64;
    Some(Homogeneity { chi_square, freedom, p_value, by: TestedBy::Permutation { draws } })
}

/// Computes the chi-square of groups against a proportion.
struct Unevenness {
    share: f64,
}

impl Unevenness {
    fn chi_square(&self, groups: impl Iterator<Item = (u64, u64)>) -> f64 {
        let spread = self.share * (1.0 - self.share);
        let each = groups.map(|(successes, trials)| {
            let trials = trials as f64;
            (successes as f64 - trials * self.share).powi(2) / (trials * spread)
        });
        each.sum()
    }
}

/// P(X ≥ x): the cube root of X / freedom is nearly normal.
fn chi_square_p_value(x: f64, freedom: f64) -> Option<f64> {
    let spread = 2.0 / (9.0 * freedom);
    let z = ((x / freedom).cbrt() - (1.0 - spread)) / spread.sqrt();
    let half = normal_p_value(z)? / 2.0;
    Some(if z > 0.0 { half } else { 1.0 - half })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R. A. Fisher's tea tasting: 3 of 4 against 1 of 4 has a two-sided exact p of 34/70, and 4 against 0 has 2/70.
    #[test]
    fn small_tables_have_their_exact_p_value() {
        let tea = homogeneity(&[(3, 4), (1, 4)], 1).unwrap();
        assert!((tea.chi_square - 2.0).abs() < 1e-12 && tea.freedom == 1);
        assert!((tea.p_value - 34.0 / 70.0).abs() < 0.02, "{}", tea.p_value);
        let all = homogeneity(&[(4, 4), (0, 4)], 1).unwrap();
        assert!((all.p_value - 2.0 / 70.0).abs() < 0.006, "{}", all.p_value);
        assert_eq!(homogeneity(&[(4, 4), (0, 4)], 1), Some(all), "the same seed");
    }

    #[test]
    fn equal_groups_differ_significantly_once_in_twenty() {
        let found = (0..300).filter(|&seed| {
            let mut random = Rng::with_seed(seed);
            let groups: Vec<(u64, u64)> =
                (0..6).map(|_| ((0..30).filter(|_| random.f64() < 0.8).count() as u64, 30)).collect();
            homogeneity(&groups, seed).is_some_and(|found| found.p_value <= 0.05)
        });
        let share = found.count() as f64 / 300.0;
        assert!((0.02..=0.09).contains(&share), "{share}");
    }

    /// 5 % points of chi-square: Abramowitz and Stegun, table 26.8.
    #[test]
    fn many_trials_have_the_p_value_of_the_table() {
        // The cube root is off by 0.0014 at two degrees of freedom, and by less at more.
        for (x, freedom) in [(5.991, 2.0), (11.070, 5.0), (18.307, 10.0), (43.773, 30.0)] {
            let found = chi_square_p_value(x, freedom).unwrap();
            assert!((found - 0.05).abs() < 0.002, "{x}, {freedom}: {found}");
        }
        let many = homogeneity(&[(500_000, 1_000_000), (501_000, 1_000_000), (499_500, 1_000_000)], 0).unwrap();
        assert_eq!(many.by, TestedBy::ChiSquare);
        assert!((0.05..0.2).contains(&many.p_value), "chi-square 4.67, 2 degrees: {many:?}");
    }

    #[test]
    fn unusable_groups_have_no_result() {
        for groups in [&[][..], &[(3, 5)], &[(3, 5), (0, 0)], &[(5, 5), (7, 7)], &[(0, 5), (0, 7)], &[(6, 5), (1, 2)]] {
            assert_eq!(homogeneity(groups, 0), None, "{groups:?}");
        }
    }
}
