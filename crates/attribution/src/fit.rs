//! Fits the cost model to the observations of one or several runs.

use ergometer_runs::cost_model::{Coefficients, CostModel, Evidence, TERMS, Term, Work};
use ergometer_statistics::{NonNegative, NonNegativeOptions, Series};

use crate::MeteredScope;

/// The observations of one device and scope in one run.
pub type Observations = Series;

/// A model that explains less than this share of the variance (out of sample) may be wrong by more than its intervals.
/// Simulated servers that compute prompts in chunks had 0.51 where intervals missed the truth; recordings have 0.83 and
/// more.
pub const LEAST_EXPLAINED: f64 = 0.7;

/// What observations at one load are worth, as a number of independent observations: the costs are not exactly linear,
/// and one load does not show it. With this value the intervals of single runs hold the figures of the engine's step
/// log in every class of requests on the recordings of an H200 (two model sizes, 1 to 64 in flight).
const ONE_LOAD: f64 = 4.0;

/// What observations at very different loads are worth. With 50, intervals missed a class of requests if the reference
/// included a further load.
const MANY_LOADS: f64 = 12.0;

/// The number of sequences per step varies by these factors at one load, and at very different loads.
const NARROW: f64 = 2.0;
const WIDE: f64 = 8.0;

/// Fits the cost model of one device and scope. `load_range` says how much the sequences per step vary. `None` if there
/// are too few observations.
#[must_use]
pub fn fit(
    scope: MeteredScope,
    observations: &[&Observations],
    evidence: Evidence,
    load_range: f64,
) -> Option<CostModel> {
    let worth = match evidence {
        Evidence::Tokens => ONE_LOAD,
        Evidence::StepLog | Evidence::Arrivals => {
            let position = ((load_range / NARROW).ln() / (WIDE / NARROW).ln()).clamp(0.0, 1.0);
            ONE_LOAD * (MANY_LOADS / ONE_LOAD).powf(position)
        }
    };
    Some(CostModel {
        device: scope.device,
        scope: scope.scope,
        summed: scope.summed,
        shares: coefficients(observations, false, worth, load_range)?,
        prices: coefficients(observations, true, worth, load_range)?,
    })
}

fn coefficients(all: &[&Observations], with_padding: bool, worth: f64, load_range: f64) -> Option<Coefficients> {
    let terms = if with_padding { TERMS } else { Term::PaddedContext as usize };
    let series: Vec<Series> = all
        .iter()
        .map(|observations| {
            let mut series = Series::new(terms);
            observations.observations().for_each(|(work, joules)| series.push(&work[..terms], joules));
            series
        })
        .collect();
    let found = NonNegative::fit(&series, NonNegativeOptions { evidence: worth, seed: 0 })?;
    let full = |values: &[f64]| {
        let mut work = Work::default();
        work.iter_mut().zip(values).for_each(|(place, value)| *place = rounded(*value));
        work
    };
    Some(Coefficients {
        least_squares: full(&found.least_squares),
        draws: found.draws.iter().map(|draw| full(draw)).collect(),
        likelihoods: vec![found.likelihood],
        r2: found.r2,
        r2_out_of_sample: found.r2_out_of_sample,
        observations: found.observations,
        load_range,
    })
}

/// A value with six significant digits: the draws have an error of percents, and there are many in a file.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}
