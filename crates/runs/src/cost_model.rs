//! `cost_model.json`: what the work of a server costs in joules, fitted to a run or to several runs together.
//!
//! The energy of a server above idle is modelled as a sum over its steps: a cost for each prompt token and each prompt,
//! a fixed cost for each decode step, a cost for each sequence in the step and for each token of context it reads. The
//! file has sets of coefficients (draws) that all fit the data almost equally well; the interval of anything computed
//! from them is the range of the results.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use ergometer_statistics::{Estimate, Interval, Likelihood, mean, percentile};
use ergometer_telemetry::{DeviceId, Scope};
use serde::{Deserialize, Serialize};

use crate::store::{StoreError, remove_file, write_compact_json};
use crate::{ReadError, regular_file};

/// The name of the file.
pub const COST_MODEL_FILE: &str = "cost_model.json";

/// The number of terms.
pub const TERMS: usize = 6;

/// An amount for each term, in the order of [`Term::ALL`].
pub type Work = [f64; TERMS];

/// A kind of work that costs energy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// A prompt token that is computed (not taken from a cache).
    PromptToken,
    /// A prompt, whatever its length.
    Prompt,
    /// A decode step, whatever the number of sequences in it.
    Step,
    /// A sequence in a decode step: one generated token.
    Sequence,
    /// A token of context that a sequence reads in a decode step.
    Context,
    /// A token of context, or of padding up to the longest context of its step ([`padded_context`]). Only for predictions.
    PaddedContext,
}

impl Term {
    /// All terms.
    pub const ALL: [Self; TERMS] =
        [Self::PromptToken, Self::Prompt, Self::Step, Self::Sequence, Self::Context, Self::PaddedContext];

    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PromptToken => "prompt_token",
            Self::Prompt => "prompt",
            Self::Step => "step",
            Self::Sequence => "sequence",
            Self::Context => "context",
            Self::PaddedContext => "padded_context",
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What shows how requests shared the server, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The engine's log of its steps.
    StepLog,
    /// The arrival times of all tokens: tokens that arrive together were computed in one step.
    Arrivals,
    /// Token counts and the times of requests.
    Tokens,
}

impl Evidence {
    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::StepLog => "step_log",
            Self::Arrivals => "arrivals",
            Self::Tokens => "tokens",
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The cost models of a run, one for each device and scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostModels {
    /// What the models were fitted to.
    pub evidence: Evidence,
    /// The runs that were fitted together, by folder name; empty for the run alone.
    #[serde(default)]
    pub runs: Vec<String>,
    /// The length of the calibration requests that were used, in seconds.
    #[serde(default)]
    pub calibration_s: f64,
    /// How long after the device worked for them tokens arrived, in milliseconds: the lag with the best fit.
    #[serde(default)]
    pub lag_ms: f64,
    /// The models.
    pub models: Vec<CostModel>,
}

/// The cost model of one device and scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostModel {
    /// The device.
    pub device: DeviceId,
    /// The part of it.
    pub scope: Scope,
    /// Whether it is part of the sum over measured devices.
    pub summed: bool,
    /// Divides the energy among requests; without padding.
    pub shares: Coefficients,
    /// Predicts other loads and requests; with padding.
    pub prices: Coefficients,
}

/// Fitted joules per unit of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Coefficients {
    /// The least squares solution.
    pub least_squares: Work,
    /// Sets of coefficients that fit almost as well.
    pub draws: Vec<Work>,
    /// All coefficients that fit almost as well, for each device that they are the sum of.
    #[serde(default)]
    pub likelihoods: Vec<Likelihood>,
    /// The share of the variance that the model explains.
    pub r2: Option<f64>,
    /// The same, for stretches of time that were predicted from the others.
    pub r2_out_of_sample: Option<f64>,
    /// The stretches of time it was fitted to.
    pub observations: usize,
    /// How much the number of sequences per step varies: its 90th over its 10th percentile. Near 1, the fixed cost of a
    /// step cannot be told from the cost of its sequences.
    pub load_range: f64,
}

impl Coefficients {
    /// The joules of an amount of work, with their 95 % interval: the percentiles of the draws, widened to the smallest and
    /// the largest value within the likelihood. Percentiles alone leave out the ends of a trade between two costs, and with
    /// runs at one load, the true costs may be at such an end. Several devices may be wrong in the same direction.
    #[must_use]
    pub fn estimate(&self, work: &Work) -> Estimate {
        let mut values: Vec<f64> = self.draws.iter().map(|draw| joules(work, draw)).collect();
        values.sort_by(f64::total_cmp);
        let mean = mean(values.iter().copied()).unwrap_or(0.0);
        let Some((low, high)) = percentile(&values, 2.5).zip(percentile(&values, 97.5)) else {
            return Estimate::exact(mean);
        };
        let ranges = self.likelihoods.iter().map(|likelihood| likelihood.range(work));
        let range = ranges.reduce(|(low, high), (other_low, other_high)| (low + other_low, high + other_high));
        let (least, most) = range.unwrap_or((low, high));
        Estimate::with_interval(mean, Interval { low: low.min(least), high: high.max(most) })
    }

    /// The joules per unit of a term.
    #[must_use]
    pub fn term(&self, term: Term) -> Estimate {
        let mut work = Work::default();
        work[term as usize] = 1.0;
        self.estimate(&work)
    }

    /// The net joules of the chosen terms of one request, with the 95 % interval. The value is for requests that run in
    /// step, as equal requests in a closed loop do. The interval includes requests that are spread.
    #[must_use]
    pub fn price(&self, shape: RequestShape, is_part: impl Fn(Term) -> bool) -> Estimate {
        let at = |spread: f64| {
            let work = shape.work(spread);
            self.estimate(&Term::ALL.map(|term| if is_part(term) { work[term as usize] } else { 0.0 }))
        };
        let in_step = at(0.0);
        match in_step.low.zip(at(1.0).high) {
            Some((low, high)) => Estimate::with_interval(in_step.value, Interval { low, high }),
            None => in_step,
        }
    }

    /// The pairs of terms that the data cannot tell apart: one can be traded for the other.
    #[must_use]
    pub fn inseparable(&self) -> Vec<(Term, Term)> {
        let means = Term::ALL.map(|term| self.draws.iter().map(|draw| draw[term as usize]).sum::<f64>());
        let count = self.draws.len().max(1) as f64;
        let covariance = |one: Term, other: Term| -> f64 {
            let (first, second) = (means[one as usize] / count, means[other as usize] / count);
            self.draws.iter().map(|draw| (draw[one as usize] - first) * (draw[other as usize] - second)).sum()
        };
        let pairs = Term::ALL.into_iter().enumerate();
        let pairs = pairs.flat_map(|(place, one)| Term::ALL[place + 1..].iter().map(move |&other| (one, other)));
        let is_unknown = Term::ALL.map(|term| {
            let cost = self.term(term);
            cost.interval().is_some_and(|interval| interval.width() > cost.value)
        });
        let is_traded = |&(one, other): &(Term, Term)| {
            let size = (covariance(one, one) * covariance(other, other)).sqrt();
            let limit =
                if is_unknown[one as usize] && is_unknown[other as usize] { TRADED_AMONG_THREE } else { TRADED };
            size > 0.0 && covariance(one, other) / size < limit
        };
        pairs.filter(is_traded).collect()
    }
}

/// Two terms with a correlation below this cannot be told apart.
const TRADED: f64 = -0.7;

/// The same, if the interval of both is wider than their value. Three costs of which only the sum is known have correlations
/// of -0.5 with each other.
const TRADED_AMONG_THREE: f64 = -0.45;

/// A token of padding costs at most as much as this many tokens of context. The limit is high because servers may pad
/// batches as well as contexts. Without a limit, runs of equal requests, which need no padding, would leave its cost open.
const MOST_PER_PADDING: f64 = 16.0;

/// The amount of [`Term::PaddedContext`] in steps with these tokens of context and padding. A cost of this term adds to the
/// cost of context and of padding, so that padding cannot cost more than its limit.
#[must_use]
pub fn padded_context(context: f64, padding: f64) -> f64 {
    context + MOST_PER_PADDING * padding.max(0.0)
}

/// A request to be priced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestShape {
    /// The prompt tokens that are computed.
    pub input: f64,
    /// The output tokens.
    pub output: f64,
    /// How many such requests are in flight.
    pub concurrency: f64,
}

impl RequestShape {
    /// The work of one request among equal requests. The first token comes from the prefill, every other one from a
    /// decode step that all requests in flight share.
    ///
    /// Equal requests either run in step, with the same context and no padding (`spread` 0), or started at times spread
    /// over their length (`spread` 1). Then the longest context of n of them is on average n / (n + 1) of the way to its
    /// end.
    #[must_use]
    pub fn work(&self, spread: f64) -> Work {
        let steps = (self.output - 1.0).max(0.0);
        let context = steps * self.input + steps * (steps + 1.0) / 2.0;
        let concurrency = self.concurrency.max(1.0);
        let longest = steps * (self.input + self.output * concurrency / (concurrency + 1.0));
        let padding = if concurrency > 1.0 { spread * (longest - context) } else { 0.0 };
        [self.input, 1.0, steps / concurrency, steps, context, padded_context(context, padding)]
    }
}

/// The joules of an amount of work.
#[must_use]
pub fn joules(work: &Work, coefficients: &Work) -> f64 {
    work.iter().zip(coefficients).map(|(amount, joules)| amount * joules).sum()
}

impl CostModel {
    /// The net joules of one request, with the 95 % interval.
    #[must_use]
    pub fn price(&self, shape: RequestShape) -> Estimate {
        self.prices.price(shape, |_| true)
    }
}

impl CostModels {
    /// Reads the file of a run; `None` if it has none.
    pub fn read(folder: &Path) -> Result<Option<Self>, ReadError> {
        Self::read_file(&folder.join(COST_MODEL_FILE))
    }

    /// Reads a file; `None` if it does not exist.
    pub fn read_file(path: &Path) -> Result<Option<Self>, ReadError> {
        match regular_file::read(path) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(ReadError::damaged(path)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ReadError::io("read", path)(error)),
        }
    }

    /// Writes the file of a run, atomically.
    pub fn write(&self, folder: &Path) -> Result<(), StoreError> {
        self.write_file(&folder.join(COST_MODEL_FILE))
    }

    /// Removes the file of a run, if it exists.
    pub fn remove(folder: &Path) -> Result<(), StoreError> {
        Self::remove_file(&folder.join(COST_MODEL_FILE))
    }

    /// Removes a file, if it exists.
    pub fn remove_file(path: &Path) -> Result<(), StoreError> {
        remove_file(path)
    }

    /// Writes a file, atomically. On one line, because indented numbers take five times the space.
    pub fn write_file(&self, path: &Path) -> Result<(), StoreError> {
        write_compact_json(path, self)
    }

    /// The model of a device and scope.
    #[must_use]
    pub fn find(&self, device: DeviceId, scope: Scope) -> Option<&CostModel> {
        self.models.iter().find(|model| (model.device, model.scope) == (device, scope))
    }

    /// The models of the measured devices, or of all others if none is measured.
    #[must_use]
    pub fn counted(&self) -> Vec<&CostModel> {
        let summed: Vec<&CostModel> = self.models.iter().filter(|model| model.summed).collect();
        if summed.is_empty() { self.models.iter().collect() } else { summed }
    }

    /// The coefficients of all counted devices together.
    #[must_use]
    pub fn total(&self, choose: impl Fn(&CostModel) -> &Coefficients) -> Option<Coefficients> {
        let mut parts = self.counted().into_iter().map(choose);
        let mut total = parts.next()?.clone();
        for part in parts {
            add(&mut total.least_squares, &part.least_squares);
            total.likelihoods.extend(part.likelihoods.iter().cloned());
            total.draws.truncate(part.draws.len());
            total.draws.iter_mut().zip(&part.draws).for_each(|(sum, draw)| add(sum, draw));
            // The goodness of fit of a sum is unknown.
            (total.r2, total.r2_out_of_sample) = (None, None);
            total.observations = total.observations.min(part.observations);
        }
        Some(total)
    }

    /// The joules per unit of each term, over all counted devices.
    #[must_use]
    pub fn terms(&self) -> BTreeMap<Term, Estimate> {
        let total = self.total(|model| &model.shares);
        let shown = Term::ALL.into_iter().filter(|&term| term != Term::PaddedContext);
        total.map(|total| shown.map(|term| (term, total.term(term))).collect()).unwrap_or_default()
    }
}

fn add(sum: &mut Work, other: &Work) {
    sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coefficients(draws: Vec<Work>) -> Coefficients {
        Coefficients {
            least_squares: draws[0],
            draws,
            likelihoods: Vec::new(),
            r2: Some(0.9),
            r2_out_of_sample: Some(0.8),
            observations: 100,
            load_range: 8.0,
        }
    }

    fn models() -> CostModels {
        let draws = (0..100).map(|i| [0.01, 1.0, 0.01 * f64::from(i), 1.0 - 0.01 * f64::from(i), 0.0, 0.0]);
        let shares = coefficients(draws.collect());
        let model =
            CostModel { device: DeviceId::gpu(0), scope: Scope::Device, summed: true, prices: shares.clone(), shares };
        CostModels {
            evidence: Evidence::Arrivals,
            runs: Vec::new(),
            calibration_s: 0.0,
            lag_ms: 4.0,
            models: vec![model],
        }
    }

    #[test]
    fn a_file_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(CostModels::read(folder.path()).unwrap(), None);
        models().write(folder.path()).unwrap();
        assert_eq!(CostModels::read(folder.path()).unwrap(), Some(models()));
        std::fs::write(folder.path().join(COST_MODEL_FILE), "{").unwrap();
        assert!(CostModels::read(folder.path()).unwrap_err().to_string().contains("damaged"));
    }

    #[test]
    fn terms_that_are_traded_are_named() {
        assert_eq!(models().models[0].shares.inseparable(), [(Term::Step, Term::Sequence)]);
        // Of the costs of a step, of a sequence and of context, only the sum is known.
        let parts = (1..20).flat_map(|one| (1..20 - one).map(move |two| (f64::from(one), f64::from(two))));
        let draws: Vec<Work> =
            parts.map(|(one, two)| [0.01, 1.0, 0.05 * one, 0.05 * two, 1.0 - 0.05 * (one + two), 0.0]).collect();
        let pairs = [(Term::Step, Term::Sequence), (Term::Step, Term::Context), (Term::Sequence, Term::Context)];
        assert_eq!(coefficients(draws).inseparable(), pairs);
    }

    #[test]
    fn a_price_counts_prompt_steps_and_sequences() {
        let model = &models().models[0];
        let alone = model.price(RequestShape { input: 100.0, output: 11.0, concurrency: 1.0 });
        // 100 x 0.01 + 1 + 10 x (step + sequence = 1)
        assert!((alone.value - 12.0).abs() < 1e-9, "{alone:?}");
        let together = model.price(RequestShape { input: 100.0, output: 11.0, concurrency: 10.0 });
        assert!(together.value < alone.value && together.low.unwrap() < together.value);
    }

    #[test]
    fn the_sum_of_two_devices_has_the_sum_of_the_costs() {
        let mut two = models();
        two.models.push(CostModel { device: DeviceId::gpu(1), ..two.models[0].clone() });
        let (one, both) = (models().terms(), two.terms());
        assert!((both[&Term::Prompt].value - 2.0 * one[&Term::Prompt].value).abs() < 1e-9);
        assert!(!both.contains_key(&Term::PaddedContext));
    }
}
