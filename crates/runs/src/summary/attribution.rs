//! How the net energy of a run was attributed to its requests.

use std::collections::BTreeMap;
use std::fmt;

use ergometer_statistics::Estimate;
use serde::{Deserialize, Serialize};

use crate::cost_model::{CostModels, Evidence, Term};

/// Sums over the records with net energy, in joules: of the measured devices, or of the modelled ones if none is measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AttributionSummary {
    /// How most requests were attributed: `step_log`, `arrivals`, `tokens`, `equal_share`, or the method of single
    /// windows if no requests ran together.
    pub method: String,
    /// The requests by method.
    pub methods: BTreeMap<String, u64>,
    /// The sum of the shares.
    pub share: f64,
    /// The sum of the lower ends of their intervals.
    pub low: f64,
    /// The sum of the upper ends.
    pub high: f64,
    /// The part for prompts, over requests where it is known.
    pub prefill_j: Option<f64>,
    /// The part for outputs.
    pub decode_j: Option<f64>,
    /// What the batch would have saved without each request, summed.
    pub marginal: Option<f64>,
    /// What the requests would have cost one by one.
    pub alone: Option<f64>,
    /// The fitted costs, if requests ran together and a cost model could be fitted.
    pub cost_model: Option<CostModelSummary>,
}

/// A reason for which the intervals of shares were widened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ShareDoubt {
    /// The cost model explains little of the measured energy.
    PoorFit {
        /// The share of the variance that it explains, out of sample.
        r2: f64,
    },
    /// The server took prompt tokens from its cache, but does not say of which requests.
    UnreportedCache {
        /// How many tokens.
        tokens: f64,
    },
    /// The server generated tokens for other clients at the same time.
    OtherClients {
        /// The tokens that the server generated.
        server: f64,
        /// Those of this run.
        ours: f64,
    },
}

impl fmt::Display for ShareDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PoorFit { r2 } => {
                write!(
                    f,
                    "the cost model explains only {:.0} % of the variance of the measured energy",
                    100.0 * r2.max(0.0)
                )
            }
            Self::UnreportedCache { tokens } => write!(
                f,
                "the server took {tokens:.0} prompt tokens from its cache, but does not report for which requests"
            ),
            Self::OtherClients { server, ours } => {
                write!(f, "the server generated {server:.0} tokens, of which {ours:.0} are of this run")
            }
        }
    }
}

/// The fitted costs. `cost_model.json` has all sets of coefficients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostModelSummary {
    /// What the steps of the server come from.
    pub evidence: Evidence,
    /// Joules per prompt token, prompt, decode step, sequence in a step, and token of context that a sequence reads.
    pub joules_per: BTreeMap<Term, Estimate>,
    /// Pairs of terms that the data cannot tell apart.
    pub inseparable: Vec<(Term, Term)>,
    /// The share of the variance that the model explains.
    pub r2: Option<f64>,
    /// The same, for stretches of time that were predicted from the others.
    pub r2_out_of_sample: Option<f64>,
    /// The stretches of time it was fitted to.
    pub observations: usize,
    /// How much the sequences per step vary in them: 90th over 10th percentile.
    pub load_range: f64,
    /// The runs that were fitted together.
    pub runs: Vec<String>,
    /// The length of the calibration, in seconds.
    pub calibration_s: f64,
    /// How long after the device worked for them tokens arrived, in milliseconds.
    #[serde(default)]
    pub lag_ms: f64,
}

impl CostModelSummary {
    /// Summarises the models of a run; `None` if there is no model.
    #[must_use]
    pub fn new(models: &CostModels) -> Option<Self> {
        let total = models.total(|model| &model.shares)?;
        Some(Self {
            evidence: models.evidence,
            joules_per: models.terms(),
            inseparable: total.inseparable(),
            r2: total.r2,
            r2_out_of_sample: total.r2_out_of_sample,
            observations: total.observations,
            load_range: total.load_range,
            runs: models.runs.clone(),
            calibration_s: models.calibration_s,
            lag_ms: models.lag_ms,
        })
    }
}
