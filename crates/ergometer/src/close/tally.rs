//! What is counted while records are made: some tens of bytes for each, so that memory stays small.

use std::collections::BTreeMap;

use ergometer_units::Seconds;

use crate::client::Outcome;
use crate::journal::{Exchange, Manifest};
use crate::record::Record;

/// Counts, sums and the values that percentiles need.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) completed: u64,
    pub(super) failed: BTreeMap<&'static str, u64>,
    /// What the failures of each kind said first.
    pub(super) causes: BTreeMap<&'static str, String>,
    pub(super) cancelled: u64,
    pub(super) correct: u64,
    pub(super) graded: u64,
    /// Right and graded answers of each subject.
    pub(super) subjects: BTreeMap<String, (u64, u64)>,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    /// How many requests had their tokens counted.
    pub(super) counted: u64,
    pub(super) token_source: Option<&'static str>,
    pub(super) ttft_ms: Vec<f64>,
    pub(super) tpot_ms: Vec<f64>,
    pub(super) e2e_ms: Vec<f64>,
    pub(super) schedule_lag_ms: Vec<f64>,
    /// Right or not, and joules, of each query that has both: measured, or where nothing is, modelled.
    pub(super) pairs: Vec<(f64, f64)>,
    /// Queries without energy.
    pub(super) without_energy: u64,
    /// Queries shorter than their sensors resolve: their interval is wider than half of them.
    pub(super) too_short: u64,
    pub(super) processor_time: Option<Seconds>,
    pub(super) cost_usd: Option<f64>,
    /// When the records' requests were sent first and ended last is the session's; these are their own seconds.
    pub(super) request_seconds: f64,
    pub(super) concurrency: u32,
}

impl Tally {
    pub(super) fn new(manifest: &Manifest) -> Self {
        Self { concurrency: manifest.config.concurrency, ..Self::default() }
    }

    pub(super) fn records(&self) -> u64 {
        self.completed + self.failures()
    }

    pub(super) fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// A request that is nobody's record.
    pub(super) fn other(&mut self, exchange: &Exchange) {
        self.cancelled += u64::from(exchange.outcome == Outcome::Cancelled);
    }

    pub(super) fn record(&mut self, exchange: &Exchange, record: &Record) {
        match &exchange.outcome {
            Outcome::Completed => {
                self.completed += 1;
                self.latencies(exchange);
            }
            Outcome::Failed { kind, cause } => {
                *self.failed.entry(kind.name()).or_default() += 1;
                self.causes.entry(kind.name()).or_insert_with(|| cause.clone());
            }
            Outcome::Cancelled => self.cancelled += 1,
        }
        let correct = record.model_metrics.lm_correctness;
        if let Some(correct) = correct {
            self.graded += 1;
            self.correct += u64::from(correct);
            let subject = self.subjects.entry(record.subject.clone()).or_default();
            *subject = (subject.0 + u64::from(correct), subject.1 + 1);
        }
        if let Some(usage) = exchange.transcript.usage {
            self.input_tokens += usage.input;
            self.output_tokens += usage.output;
            self.counted += 1;
            self.token_source = Some(usage.source.name());
        }
        self.request_seconds += (exchange.end - exchange.sent).get();
        if let Some(time) = exchange.transcript.processor_time {
            self.processor_time = Some(self.processor_time.unwrap_or(Seconds::ZERO) + time);
        }
        if let Some(cost) = record.model_metrics.cost.total_cost_usd {
            self.cost_usd = Some(self.cost_usd.unwrap_or(0.0) + cost);
        }
        let energy = &record.ergometer.energy;
        match energy.measured.or(energy.modelled).map(|energy| energy.gross) {
            Some(gross) => {
                self.pairs.push((f64::from(u8::from(correct == Some(true))), gross.joules));
                let half = (gross.high - gross.low) / 2.0;
                self.too_short += u64::from(energy.measured.is_some() && half > gross.joules / 2.0);
            }
            None => self.without_energy += 1,
        }
    }

    fn latencies(&mut self, exchange: &Exchange) {
        let millis = |seconds: Seconds| seconds.get() * 1e3;
        self.schedule_lag_ms.push(millis(exchange.sent - exchange.scheduled));
        let transcript = &exchange.transcript;
        let (Some(first), Some(last)) = (transcript.first_token(), transcript.last_token()) else { return };
        let (ttft, e2e) = (millis(first - exchange.sent), millis(last - exchange.sent));
        self.ttft_ms.push(ttft);
        self.e2e_ms.push(e2e);
        if let Some(usage) = transcript.usage.filter(|usage| usage.output > 1) {
            self.tpot_ms.push((e2e - ttft) / (usage.output - 1) as f64);
        }
    }
}
