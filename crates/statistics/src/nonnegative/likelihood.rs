//! The coefficients that the data allow: all that fit almost as well as the best.

use serde::{Deserialize, Serialize};

use super::gram::Gram;
use super::solve;

/// 95 % of a chi-squared distribution with one degree of freedom.
const CHI_SQUARED_95: f64 = 3.841_458_820_694_124;

/// The most terms that are read from a file.
const MOST_TERMS: usize = 64;

/// Steps of the search for the limit: each doubles the weight, or halves the bracket around it.
const MOST_DOUBLINGS: usize = 80;
const HALVINGS: usize = 40;

/// The fit of all coefficients, in the quadratic form of a sum of squared errors.
///
/// It gives the interval of any weighted sum of coefficients by profile likelihood: the smallest and the largest sum among
/// all non-negative coefficients whose likelihood is within the limit. Unlike the percentiles of draws, it reaches the ends
/// of what the data allow: if only the sum of two costs is known, either may be the whole of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Likelihood {
    /// Σ work x work, row by row.
    products: Vec<f64>,
    /// Σ work x value.
    targets: Vec<f64>,
    /// The non-negative least squares solution.
    best: Vec<f64>,
    /// How much larger than that of the best the squared error may be.
    slack: f64,
}

/// What a file has, which may be damaged.
#[derive(Deserialize)]
struct Unchecked {
    products: Vec<f64>,
    targets: Vec<f64>,
    best: Vec<f64>,
    slack: f64,
}

impl TryFrom<Unchecked> for Likelihood {
    type Error = String;

    fn try_from(Unchecked { products, targets, best, slack }: Unchecked) -> Result<Self, String> {
        let terms = best.len();
        if terms > MOST_TERMS || products.len() != terms * terms || targets.len() != terms {
            let (products, targets) = (products.len(), targets.len());
            return Err(format!("{terms} coefficients do not match {products} products and {targets} targets"));
        }
        Ok(Self { products, targets, best, slack })
    }
}

impl Likelihood {
    /// `spread` is the variance of the noise, times the flattening of the likelihood.
    pub(super) fn new(gram: &Gram, best: &[f64], spread: f64) -> Self {
        let terms = gram.terms();
        let products = (0..terms * terms).map(|place| gram.product(place / terms, place % terms));
        Self {
            products: products.collect(),
            targets: (0..terms).map(|term| gram.target(term)).collect(),
            best: best.to_vec(),
            slack: CHI_SQUARED_95 * spread,
        }
    }

    /// The smallest and the largest Σ amount x coefficient that the data allow, with 95 % confidence. Amounts of further
    /// terms are left out.
    #[must_use]
    pub fn range(&self, amounts: &[f64]) -> (f64, f64) {
        let amounts: Vec<f64> = (0..self.best.len()).map(|term| amounts.get(term).copied().unwrap_or(0.0)).collect();
        let (low, high) = (self.extreme(&amounts, -1.0), self.extreme(&amounts, 1.0));
        // Only the numbers of a damaged file are the other way round.
        (low.min(high), high.max(low))
    }

    /// The extreme sum in the direction of the sign. The coefficients that minimize the squared error less a multiple of
    /// the sum are extreme for their squared error, so the multiple is searched at which that is at the limit.
    fn extreme(&self, amounts: &[f64], sign: f64) -> f64 {
        let sum = |found: &[f64]| -> f64 { amounts.iter().zip(found).map(|(amount, cost)| amount * cost).sum() };
        let terms = self.best.len();
        let size = |term: usize| self.products[term * terms + term].sqrt();
        let largest = (0..terms).filter(|&term| size(term) > 0.0).map(|term| (amounts[term] / size(term)).abs());
        let largest = largest.fold(0.0, f64::max);
        if largest <= 0.0 || self.slack <= 0.0 {
            return sum(&self.best);
        }
        let at = |weight: f64| -> Option<Vec<f64>> {
            let targets = self.targets.iter().zip(amounts).map(|(target, amount)| target + sign * weight * amount);
            let found = solve::non_negative(&Gram::from_sums(self.products.clone(), targets.collect()));
            (self.excess(&found) <= self.slack).then_some(found)
        };
        let mut low = self.slack.sqrt() / largest * 1e-7;
        let Some(mut extreme) = at(low) else { return sum(&self.best) };
        let mut high = 2.0 * low;
        for _ in 0..MOST_DOUBLINGS {
            let Some(found) = at(high) else { break };
            (low, extreme) = (high, found);
            high *= 2.0;
        }
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            match at(middle) {
                Some(found) => (low, extreme) = (middle, found),
                None => high = middle,
            }
        }
        sum(&extreme)
    }

    /// How much larger than that of the best the squared error is.
    fn excess(&self, found: &[f64]) -> f64 {
        let terms = self.best.len();
        let change: Vec<f64> = found.iter().zip(&self.best).map(|(found, best)| found - best).collect();
        (0..terms)
            .map(|row| {
                let product = |column: usize| self.products[row * terms + column];
                let curved: f64 = (0..terms).map(|column| product(column) * change[column]).sum();
                let slope: f64 = (0..terms).map(|column| product(column) * self.best[column]).sum();
                change[row] * (curved + 2.0 * (slope - self.targets[row]))
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn damaged_sizes_are_errors() {
        let read = |text: &str| serde_json::from_str::<Likelihood>(text).map_err(|error| error.to_string());
        let whole = r#"{"products": [4.0], "targets": [8.0], "best": [2.0], "slack": 1.0}"#;
        let (low, high) = read(whole).unwrap().range(&[10.0]);
        // (4 x² - 16 x) may grow by 1: x is 2 ± 0.5.
        assert!((low - 15.0).abs() < 1e-6 && (high - 25.0).abs() < 1e-6, "{low} to {high}");
        let error = read(r#"{"products": [4.0, 1.0], "targets": [8.0], "best": [2.0], "slack": 1.0}"#).unwrap_err();
        assert!(error.contains("1 coefficients do not match 2 products and 1 targets"), "{error}");
    }

    proptest! {
        #[test]
        fn any_numbers_of_a_file_have_a_range(
            products in prop::collection::vec(any::<f64>(), 4),
            targets in prop::collection::vec(any::<f64>(), 2),
            best in prop::collection::vec(any::<f64>(), 2),
            slack in any::<f64>(),
            amounts in prop::collection::vec(any::<f64>(), 2),
        ) {
            let likelihood = Likelihood { products, targets, best, slack };
            let (low, high) = likelihood.range(&amounts);
            prop_assert!(low <= high || low.is_nan() || high.is_nan());
        }
    }

    #[test]
    fn costs_are_never_below_zero() {
        let likelihood = Likelihood { products: vec![4.0], targets: vec![1.0], best: vec![0.25], slack: 10.0 };
        assert!(likelihood.range(&[1.0]).0.abs() < 1e-9);
        assert_eq!(likelihood.range(&[]), (0.0, 0.0));
    }
}
