//! Fits a sum of non-negative costs to measured values, with all the coefficients that the data allow.
//!
//! Input: series of observations in order of time. An observation is an amount of work for each term (tokens, steps,
//! seconds of a kernel) and a measured value (joules). Output: the non-negative least squares solution, and draws of
//! coefficients that fit almost as well. The spread of the draws says what the data leave open: if two terms always
//! grow together, the draws trade one for the other.
//!
//! The draws are samples of the Gaussian likelihood cut off at zero, from two sources of doubt:
//! - sampling: each series is resampled in blocks of neighbours (block bootstrap);
//! - misfit: the costs are not exactly linear, so more data do not make the coefficients as certain as independent noise
//!   would. The likelihood is flattened until the data count as `evidence` independent observations.

mod gram;
mod likelihood;
mod sampler;
mod solve;

use fastrand::Rng;

use gram::Gram;
pub use gram::Series;
pub use likelihood::Likelihood;

/// The observations per block of the bootstrap.
const BLOCK: usize = 5;

/// The resamples of the bootstrap, and the draws from each.
const RESAMPLES: usize = 100;
const DRAWS: usize = 5;

/// The parts of the data that are predicted from the others.
const FOLDS: usize = 5;

/// The likelihood is never sharper than this: noise of neighbours is correlated.
const LEAST_FLATTENING: f64 = 3.0;

/// The fewest observations per term.
const PER_TERM: usize = 3;

/// How to fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NonNegativeOptions {
    /// The number of independent observations that the data count as, at most.
    pub evidence: f64,
    /// The random seed.
    pub seed: u64,
}

/// The result of a fit.
#[derive(Debug, Clone, PartialEq)]
pub struct NonNegative {
    /// The non-negative least squares solution, one coefficient for each term.
    pub least_squares: Vec<f64>,
    /// Sets of coefficients that fit almost as well.
    pub draws: Vec<Vec<f64>>,
    /// All coefficients that fit almost as well.
    pub likelihood: Likelihood,
    /// The share of the variance that the least squares solution explains.
    pub r2: Option<f64>,
    /// The same, for values that were predicted from the rest of the data.
    pub r2_out_of_sample: Option<f64>,
    /// The number of observations.
    pub observations: usize,
}

impl NonNegative {
    /// Fits the coefficients. `None` with fewer than three observations for each term that occurs, or without any value
    /// above zero.
    ///
    /// ```
    /// use ergometer_statistics::{NonNegative, NonNegativeOptions, Series};
    ///
    /// // Two terms that cost 3 and 0.5 a unit.
    /// let mut series = Series::new(2);
    /// for i in 0..40 {
    ///     let work = [f64::from(i % 7), f64::from(i % 5) * 4.0];
    ///     series.push(&work, 3.0 * work[0] + 0.5 * work[1]);
    /// }
    /// let fit = NonNegative::fit(&[series], NonNegativeOptions { evidence: 50.0, seed: 0 }).unwrap();
    /// assert!((fit.least_squares[0] - 3.0).abs() < 1e-6 && (fit.least_squares[1] - 0.5).abs() < 1e-6);
    /// ```
    #[must_use]
    pub fn fit(series: &[Series], options: NonNegativeOptions) -> Option<Self> {
        let terms = series.iter().map(Series::terms).max()?;
        let blocks: Vec<Vec<Gram>> = series.iter().map(|series| series.blocks(BLOCK, terms)).collect();
        let whole = Gram::sum(blocks.iter().flatten(), terms);
        let used = (0..terms).filter(|&term| whole.has(term)).count();
        if used == 0 || whole.count() < PER_TERM * used || whole.mean() <= 0.0 {
            return None;
        }
        let least_squares = solve::non_negative(&whole);
        let freedom = (whole.count() - used).max(1) as f64;
        let noise = whole.squared_error(&least_squares).max(1e-12 * whole.squares()) / freedom;
        let flattening = (whole.count() as f64 / options.evidence).max(LEAST_FLATTENING);
        let mut rng = Rng::with_seed(options.seed);
        let mut draws = Vec::with_capacity(RESAMPLES * DRAWS);
        for _ in 0..RESAMPLES {
            let mut resampled = Vec::new();
            for blocks in blocks.iter().filter(|blocks| !blocks.is_empty()) {
                resampled.extend((0..blocks.len()).map(|_| &blocks[rng.usize(..blocks.len())]));
            }
            let gram = Gram::sum(resampled.into_iter(), terms);
            draws.extend(sampler::draws(&gram, noise * flattening, DRAWS, &mut rng));
        }
        Some(Self {
            likelihood: Likelihood::new(&whole, &least_squares, noise * flattening),
            r2: whole.r2(&least_squares),
            r2_out_of_sample: out_of_sample(&blocks, &whole),
            least_squares,
            draws,
            observations: whole.count(),
        })
    }

    /// The share of the variance that the least squares solution explains, without a whole fit.
    #[must_use]
    pub fn explained<'a>(series: impl IntoIterator<Item = &'a Series>) -> Option<f64> {
        let blocks: Vec<Gram> =
            series.into_iter().flat_map(|series| series.blocks(series.len().max(1), series.terms())).collect();
        let whole = Gram::sum(blocks.iter(), blocks.first()?.terms());
        whole.r2(&solve::non_negative(&whole))
    }

    /// The mean of the draws.
    #[must_use]
    pub fn mean(&self) -> Vec<f64> {
        let count = self.draws.len().max(1) as f64;
        (0..self.least_squares.len())
            .map(|term| self.draws.iter().map(|draw| draw[term]).sum::<f64>() / count)
            .collect()
    }
}

/// The share of the variance of the values that is explained by coefficients fitted to the other blocks.
fn out_of_sample(blocks: &[Vec<Gram>], whole: &Gram) -> Option<f64> {
    let all: Vec<&Gram> = blocks.iter().flatten().collect();
    if all.len() < 2 * FOLDS {
        return None;
    }
    let mut error = 0.0;
    for fold in 0..FOLDS {
        let (test, train): (Vec<_>, Vec<_>) = all.iter().enumerate().partition(|(place, _)| place % FOLDS == fold);
        let train = Gram::sum(train.into_iter().map(|(_, block)| *block), whole.terms());
        let found = solve::non_negative(&train);
        error += test.into_iter().map(|(_, block)| block.squared_error(&found)).sum::<f64>();
    }
    let variance = whole.variance_sum();
    (variance > 0.0).then(|| 1.0 - error / variance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(evidence: f64) -> NonNegativeOptions {
        NonNegativeOptions { evidence, seed: 7 }
    }

    fn quantiles(fit: &NonNegative, term: usize) -> (f64, f64) {
        let mut values: Vec<f64> = fit.draws.iter().map(|draw| draw[term]).collect();
        values.sort_by(f64::total_cmp);
        (values[values.len() / 40], values[values.len() - 1 - values.len() / 40])
    }

    #[test]
    fn noisy_costs_are_recovered_and_lie_inside_the_draws() {
        let truth = [2.0, 0.0, 0.3];
        let mut rng = Rng::with_seed(1);
        let mut series = Series::new(3);
        for _ in 0..300 {
            let work = [rng.f64() * 10.0, rng.f64() * 5.0, rng.f64() * 40.0];
            let value: f64 = work.iter().zip(truth).map(|(work, cost)| work * cost).sum();
            series.push(&work, value + rng.f64() - 0.5);
        }
        let fit = NonNegative::fit(&[series], options(50.0)).unwrap();
        for (term, cost) in truth.into_iter().enumerate() {
            let (low, high) = quantiles(&fit, term);
            assert!((fit.least_squares[term] - cost).abs() < 0.05, "{:?}", fit.least_squares);
            assert!(low <= cost + 0.02 && cost <= high, "{term}: {low} to {high}");
        }
        assert!(fit.r2.unwrap() > 0.99 && fit.r2_out_of_sample.unwrap() > 0.99);
        assert!(fit.draws.iter().flatten().all(|&cost| cost >= 0.0), "no cost is negative");
    }

    #[test]
    fn terms_that_grow_together_are_traded_for_each_other() {
        let mut series = Series::new(2);
        for i in 0..60 {
            let amount = 1.0 + f64::from(i % 9);
            series.push(&[amount, amount], 3.0 * amount + 0.01 * (f64::from(i % 2) - 0.5));
        }
        let fit = NonNegative::fit(&[series], options(50.0)).unwrap();
        let (low, high) = quantiles(&fit, 0);
        assert!(low < 0.4 && high > 2.6, "one of them may cost anything from 0 to 3: {low} to {high}");
        let sums = fit.draws.iter().map(|draw| draw[0] + draw[1]);
        assert!(sums.into_iter().all(|sum| (sum - 3.0).abs() < 0.1), "their sum is known");
        // The percentiles of the draws leave the ends out; the likelihood does not.
        let (low, high) = fit.likelihood.range(&[0.0, 1.0]);
        assert!(low < 1e-6 && high > 3.0, "{low} to {high}");
        let (low, high) = fit.likelihood.range(&[1.0, 1.0]);
        assert!((2.99..3.0).contains(&low) && (3.0..3.01).contains(&high), "{low} to {high}");
    }

    #[test]
    fn the_likelihood_of_well_known_costs_is_that_of_normal_noise() {
        let mut rng = Rng::with_seed(9);
        let mut series = Series::new(2);
        for _ in 0..2000 {
            let work = [rng.f64() * 10.0, rng.f64() * 5.0];
            series.push(&work, 2.0 * work[0] + 7.0 * work[1] + rng.f64() - 0.5);
        }
        let fit = NonNegative::fit(&[series], options(1e9)).unwrap();
        let mut values: Vec<f64> = fit.draws.iter().map(|draw| draw[1]).collect();
        values.sort_by(f64::total_cmp);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
        let (low, high) = fit.likelihood.range(&[0.0, 1.0]);
        // The draws are resampled as well, which the likelihood is not.
        let ratio = (high - low) / (2.0 * 1.96 * variance.sqrt());
        assert!((0.7..1.1).contains(&ratio), "{ratio}");
        assert!((f64::midpoint(low, high) - fit.least_squares[1]).abs() < 1e-6);
        // A term that is not used costs nothing, whatever the amount.
        assert_eq!(fit.likelihood.range(&[0.0, 0.0, 5.0]), (0.0, 0.0));
    }

    #[test]
    fn less_evidence_gives_wider_draws() {
        let mut rng = Rng::with_seed(3);
        let mut series = Series::new(2);
        for _ in 0..200 {
            let work = [rng.f64() * 10.0, 5.0 + rng.f64()];
            series.push(&work, work[0] + work[1] + rng.f64());
        }
        let width = |evidence| {
            let (low, high) =
                quantiles(&NonNegative::fit(std::slice::from_ref(&series), options(evidence)).unwrap(), 0);
            high - low
        };
        assert!(width(4.0) > 1.5 * width(50.0), "{} {}", width(4.0), width(50.0));
    }

    #[test]
    fn an_unused_term_costs_nothing_and_too_few_observations_give_no_fit() {
        let mut series = Series::new(3);
        for i in 0..20 {
            series.push(&[1.0 + f64::from(i % 3), 0.0, 2.0], 5.0 + f64::from(i % 3));
        }
        let fit = NonNegative::fit(std::slice::from_ref(&series), options(10.0)).unwrap();
        assert!(fit.draws.iter().all(|draw| draw[1] == 0.0) && fit.least_squares[1] == 0.0);
        let mut short = Series::new(3);
        short.push(&[1.0, 2.0, 3.0], 4.0);
        assert_eq!(NonNegative::fit(&[short], options(10.0)), None);
        assert_eq!(NonNegative::fit(&[], options(10.0)), None);
        let mut dark = Series::new(1);
        (0..20).for_each(|_| dark.push(&[1.0], -1.0));
        assert_eq!(NonNegative::fit(&[dark], options(10.0)), None);
    }

    #[test]
    fn the_same_seed_gives_the_same_draws() {
        let mut series = Series::new(1);
        (0..30).for_each(|i| series.push(&[1.0], 2.0 + f64::from(i % 4)));
        let fit = || NonNegative::fit(std::slice::from_ref(&series), options(10.0)).unwrap();
        assert_eq!(fit(), fit());
    }
}
