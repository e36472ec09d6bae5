//! One query of a saved run.

use ergometer_units::{Seconds, Timestamp};

use crate::RequestTimes;
pub use crate::record::QueryOutcome as Outcome;

/// One query. Unknown values are `None`; no number is NaN or infinite.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Query {
    /// The number of its request in the run.
    pub request: u64,
    /// Its index in the dataset.
    pub index: u64,
    /// The session of the run.
    pub session: u32,
    /// The index of its subject in [`Run::subjects`](super::Run::subjects).
    pub subject: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Attempts at it.
    pub attempts: u64,
    /// When it was due.
    pub scheduled: Option<Timestamp>,
    /// When it was sent.
    pub sent: Option<Timestamp>,
    /// When its first token arrived.
    pub first_token: Option<Timestamp>,
    /// When its last token arrived.
    pub last_token: Option<Timestamp>,
    /// When its stream ended.
    pub end: Option<Timestamp>,
    /// Tokens in its prompt.
    pub input_tokens: Option<u64>,
    /// Tokens of its prompt that the server took from its cache.
    pub cached_tokens: Option<u64>,
    /// Tokens in its answer.
    pub output_tokens: Option<u64>,
    /// All tokens, from the record.
    pub total_tokens: Option<u64>,
    /// `time_to_first_token_seconds`.
    pub ttft_s: Option<f64>,
    /// `total_query_seconds`.
    pub total_s: Option<f64>,
    /// `energy_metrics.per_query_joules`, of the GPUs.
    pub gpu_joules: Option<f64>,
    /// `power_metrics.gpu.per_query_watts`: the mean, or else the median, the maximum or the minimum.
    pub gpu_watts: Option<f64>,
    /// The energy, measured or modelled, by the source of the run.
    pub energy: Option<Energy>,
    /// Its net energy among the requests in flight.
    pub attribution: Option<Attribution>,
    /// Prefill and decode.
    pub phases: Phases,
    /// Mean temperature of the hottest GPU.
    pub temperature_c: Option<f64>,
    /// Whether the answer is correct; `None` if it cannot be graded.
    pub correct: Option<bool>,
    /// Its cost, in US dollars.
    pub cost_usd: Option<f64>,
}

/// The energy of a query, in joules, with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Energy {
    /// Gross.
    pub gross: f64,
    /// The lower end of gross.
    pub low: f64,
    /// The upper end of gross.
    pub high: f64,
    /// Net of idle power.
    pub net: Option<f64>,
}

/// The net energy of a query among the requests in flight, in joules.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Attribution {
    /// Its share.
    pub share: f64,
    /// The lower end of the 95 % interval of the share.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The part for its prompt.
    pub prefill_j: Option<f64>,
    /// The part for its output.
    pub decode_j: Option<f64>,
}

/// The phases of a query: prefill is from sent to the first token, decode from the first token to the end.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[expect(missing_docs, reason = "named as in the record")]
pub struct Phases {
    pub prefill_j: Option<f64>,
    pub decode_j: Option<f64>,
    pub prefill_s: Option<f64>,
    pub decode_s: Option<f64>,
}

impl Query {
    /// Whether it completed.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.outcome == Outcome::Completed
    }

    /// Its times.
    #[must_use]
    pub const fn times(&self) -> RequestTimes {
        let Self { scheduled, sent, first_token, last_token, end, .. } = *self;
        RequestTimes { scheduled, sent, first_token, last_token, end }
    }

    /// Time to first token in seconds, as recorded; records of other tools have no times.
    #[must_use]
    pub fn ttft(&self) -> Option<f64> {
        self.ttft_s
    }

    /// E2E latency in seconds: last chunk with content - sent.
    #[must_use]
    pub fn e2e(&self) -> Option<f64> {
        self.times().e2e().map(Seconds::get)
    }

    /// Time per output token in seconds: (E2E - TTFT) / (output tokens - 1); absent below two tokens, and if the first
    /// and the last token arrived together.
    #[must_use]
    pub fn tpot(&self) -> Option<f64> {
        self.times().tpot(self.output_tokens?).map(Seconds::get)
    }

    /// Gross joules per output token.
    #[must_use]
    pub fn joules_per_output_token(&self) -> Option<f64> {
        let tokens = self.output_tokens.filter(|&tokens| tokens > 0)?;
        Some(self.energy?.gross / tokens as f64)
    }

    /// The tokens of its prompt that were computed, not taken from a cache.
    #[must_use]
    pub fn computed_tokens(&self) -> Option<u64> {
        Some(self.input_tokens?.saturating_sub(self.cached_tokens.unwrap_or(0)))
    }

    /// All tokens: the recorded total, or else input + output, of which one may be unknown.
    #[must_use]
    pub fn all_tokens(&self) -> Option<u64> {
        let sum = self.input_tokens.unwrap_or(0).saturating_add(self.output_tokens.unwrap_or(0));
        self.total_tokens.or((self.input_tokens.is_some() || self.output_tokens.is_some()).then_some(sum))
    }
}
