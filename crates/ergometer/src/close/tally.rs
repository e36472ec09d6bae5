//! Counts and sums over the records of a run, in a few tens of bytes per record.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ergometer_units::Seconds;

use super::review_results::{ReviewResults, differs};
use crate::journal::Manifest;
use ergometer_clients::{ChunkKind, FailureKind, Outcome, TokenSource, Usage};
use ergometer_runs::Exchange;
use ergometer_runs::cost_model::CostModels;
use ergometer_runs::record::{EnergyMethod, GradeColumn, GrossAndNet, QueryEnergy, Record, RequestAttribution};
use ergometer_runs::summary::{AttributionSummary, CostModelSummary};

/// Counts and sums over records.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) completed: u64,
    pub(super) failed: BTreeMap<FailureKind, u64>,
    /// The first error of each kind of failure.
    pub(super) causes: BTreeMap<FailureKind, String>,
    pub(super) cancelled: u64,
    /// Attempts that failed and were retried, by kind.
    pub(super) retried: BTreeMap<FailureKind, u64>,
    /// Their energy: measured, and modelled.
    pub(super) retried_joules: (f64, f64),
    /// A query and the energy of its earlier attempts, which is charged to its record.
    pub(super) carried: Option<(u64, f64)>,
    /// Requests with two token counts, and those on which the counts disagree.
    pub(super) counted_twice: u64,
    pub(super) disagreed: u64,
    /// The first disagreement: the count that is used, and the other.
    pub(super) disagreement: Option<(Usage, Usage)>,
    /// Completed answers with tokens but without text.
    pub(super) without_text: u64,
    /// Completed answers with more chunks of text than tokens, and the first of them: its chunks and its tokens.
    pub(super) undercounted: u64,
    pub(super) undercounted_example: Option<(u64, u64)>,
    /// Graded answers that ended at the maximum number of tokens, and those of them that are wrong.
    pub(super) cut: u64,
    pub(super) cut_and_wrong: u64,
    pub(super) correct: u64,
    pub(super) graded: u64,
    /// Answers that the grader cannot compare.
    pub(super) ungradable: u64,
    /// Counts of a judge, if there is one.
    pub(super) judged: Option<JudgeTally>,
    /// Correct and graded answers of each subject.
    pub(super) subjects: BTreeMap<String, (u64, u64)>,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    /// Tokens of prompts that the server took from its cache; `None` if it never reports them.
    pub(super) cached_tokens: Option<u64>,
    /// Requests with known tokens.
    pub(super) counted: u64,
    /// Completed requests with known tokens.
    pub(super) counted_completed: u64,
    pub(super) token_source: Option<&'static str>,
    /// Sums over the queries with measured energy, and over those with modelled energy.
    pub(super) measured: EnergyTally,
    pub(super) modelled: EnergyTally,
    /// Sums over the queries with net energy.
    pub(super) attribution: AttributionTally,
    /// Request, 1 if correct, and joules of each query with energy: measured, or else modelled.
    pub(super) pairs: Vec<(u64, f64, f64)>,
    /// Graded queries with energy.
    pub(super) graded_with_energy: u64,
    /// Queries without energy.
    pub(super) without_energy: u64,
    /// Queries too short for the sensors: half the width of the interval exceeds half the energy.
    pub(super) too_short: u64,
    pub(super) processor_time: Option<Seconds>,
    pub(super) cost_usd: Option<f64>,
    /// The total time of requests with known tokens.
    pub(super) request_seconds: f64,
    pub(super) concurrency: u32,
    /// The configured tokenizer and why it could not be used.
    pub(super) unused_tokenizer: Option<(PathBuf, String)>,
    /// Lines of `after.jsonl` that could not be parsed.
    pub(super) damaged_lines: u64,
}

/// Sums over attributed queries.
#[derive(Debug, Clone, Default)]
pub(super) struct AttributionTally {
    pub(super) summary: AttributionSummary,
    /// The computed input tokens and the output tokens of the queries with known phases, and the joules of the same
    /// queries.
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    prefill_with_tokens: f64,
    decode_with_tokens: f64,
}

impl AttributionTally {
    fn add(&mut self, found: RequestAttribution, usage: Option<Usage>) {
        let sum = |total: &mut Option<f64>, value: Option<f64>| {
            if let Some(value) = value {
                *total = Some(total.unwrap_or(0.0) + value);
            }
        };
        let summary = &mut self.summary;
        *summary.methods.entry(found.method.to_string()).or_default() += 1;
        summary.share += found.share;
        summary.low += found.low;
        summary.high += found.high;
        sum(&mut summary.prefill_j, found.prefill_j);
        sum(&mut summary.decode_j, found.decode_j);
        sum(&mut summary.marginal, found.marginal);
        sum(&mut summary.alone, found.alone);
        if let Some((usage, (prefill, decode))) = usage.zip(found.prefill_j.zip(found.decode_j)) {
            self.prefill_with_tokens += prefill;
            self.decode_with_tokens += decode;
            self.input_tokens += usage.input.saturating_sub(usage.cached.unwrap_or(0));
            self.output_tokens += usage.output;
        }
    }

    /// Prefill joules per computed input token, and decode joules per output token.
    pub(super) fn per_token(&self) -> (Option<f64>, Option<f64>) {
        let per = |joules: f64, tokens: u64| (tokens > 0).then(|| joules / tokens as f64);
        (per(self.prefill_with_tokens, self.input_tokens), per(self.decode_with_tokens, self.output_tokens))
    }

    /// The summary; `None` without any net energy.
    pub(super) fn summary(&self, models: Option<&CostModels>) -> Option<AttributionSummary> {
        let (method, _) = self.summary.methods.iter().max_by_key(|(_, count)| **count)?;
        let cost_model = models.and_then(CostModelSummary::new);
        Some(AttributionSummary { method: method.clone(), cost_model, ..self.summary.clone() })
    }
}

/// Counts of judged and unjudged answers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JudgeTally {
    /// Answers with a verdict.
    pub(super) judged: u64,
    /// Answers with a reply that contains no verdict.
    pub(super) without_verdict: u64,
    /// Answers without a reply.
    pub(super) unjudged: u64,
}

impl JudgeTally {
    fn add(&mut self, grade: &GradeColumn) {
        match (grade.correct, &grade.reply) {
            (Some(_), _) => self.judged += 1,
            (None, Some(_)) => self.without_verdict += 1,
            (None, None) => self.unjudged += 1,
        }
    }
}

/// Sums over the queries with energy, so that ratios cover the same queries.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EnergyTally {
    pub(super) queries: u64,
    pub(super) gross: f64,
    /// Net energy of the queries that have it.
    pub(super) net: f64,
    pub(super) with_net: u64,
    /// Energy of the queries with known tokens.
    pub(super) gross_with_tokens: f64,
    pub(super) net_with_tokens: f64,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
}

impl EnergyTally {
    fn add(&mut self, energy: GrossAndNet, usage: Option<Usage>) {
        self.queries += 1;
        self.gross += energy.gross.joules;
        if let Some(net) = energy.net {
            self.net += net.joules;
            self.with_net += 1;
        }
        if let Some(usage) = usage {
            self.gross_with_tokens += energy.gross.joules;
            self.net_with_tokens += energy.net.map_or(0.0, |net| net.joules);
            self.input_tokens += usage.input;
            self.output_tokens += usage.output;
        }
    }
}

impl Tally {
    /// `in_flight` is the mean number of requests in flight.
    pub(super) fn new(manifest: &Manifest, results: &ReviewResults, in_flight: u32) -> Self {
        let judged = manifest.config.judge.as_ref().map(|_| JudgeTally::default());
        Self {
            concurrency: manifest.config.schedule.concurrency().unwrap_or(in_flight),
            judged,
            unused_tokenizer: results.unused_tokenizer.clone(),
            damaged_lines: results.damaged_lines(),
            ..Self::default()
        }
    }

    pub(super) fn records(&self) -> u64 {
        self.completed + self.failures()
    }

    pub(super) fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Adds a request that is not a record, and its energy.
    pub(super) fn other(&mut self, exchange: &Exchange, energy: &QueryEnergy) {
        match &exchange.outcome {
            Outcome::Failed { kind, .. } => {
                *self.retried.entry(*kind).or_default() += 1;
                let joules = |energy: Option<GrossAndNet>| energy.map_or(0.0, |energy| energy.gross.joules);
                self.retried_joules.0 += joules(energy.measured);
                self.retried_joules.1 += joules(energy.modelled);
                let carried =
                    self.carried.filter(|(index, _)| *index == exchange.query.index).map_or(0.0, |(_, sum)| sum);
                self.carried = Some((exchange.query.index, carried + joules(energy.measured.or(energy.modelled))));
            }
            Outcome::Cancelled => self.cancelled += 1,
            Outcome::Completed | Outcome::Lost => {}
        }
    }

    pub(super) fn record(&mut self, exchange: &Exchange, record: &Record) {
        match &exchange.outcome {
            Outcome::Completed => self.completed(exchange),
            Outcome::Failed { kind, cause } => {
                *self.failed.entry(*kind).or_default() += 1;
                self.causes.entry(*kind).or_insert_with(|| cause.clone());
            }
            // These are never records.
            Outcome::Cancelled | Outcome::Lost => {}
        }
        let correct = record.model_metrics.lm_correctness;
        if let Some(correct) = correct {
            self.graded += 1;
            self.correct += u64::from(correct);
            if exchange.outcome == Outcome::Completed && exchange.transcript.finish.as_deref() == Some("length") {
                self.cut += 1;
                self.cut_and_wrong += u64::from(!correct);
            }
            let subject = self.subjects.entry(record.subject.clone()).or_default();
            *subject = (subject.0 + u64::from(correct), subject.1 + 1);
        }
        let has_answer = !exchange.query.answer.is_empty();
        match (&mut self.judged, &record.ergometer.grade) {
            (Some(judged), Some(grade)) => {
                if has_answer && exchange.outcome == Outcome::Completed {
                    judged.add(grade);
                }
            }
            (_, grade) => self.ungradable += u64::from(correct.is_none() && has_answer && grade.is_some()),
        }
        if let Some(usage) = exchange.transcript.usage {
            self.input_tokens += usage.input;
            self.output_tokens += usage.output;
            if let Some(cached) = usage.cached {
                self.cached_tokens = Some(self.cached_tokens.unwrap_or(0) + cached);
            }
            self.counted += 1;
            self.counted_completed += u64::from(exchange.outcome == Outcome::Completed);
            self.request_seconds += (exchange.end - exchange.sent).get();
            let source = usage.source.name();
            self.token_source =
                Some(if self.token_source.is_none_or(|known| known == source) { source } else { "mixed" });
            if let Some(other) = exchange.transcript.also_counted {
                self.compare(exchange, usage, other);
            }
        }
        if let Some(time) = exchange.transcript.processor_time {
            self.processor_time = Some(self.processor_time.unwrap_or(Seconds::ZERO) + time);
        }
        if let Some(cost) = record.model_metrics.cost.total_cost_usd {
            self.cost_usd = Some(self.cost_usd.unwrap_or(0.0) + cost);
        }
        let energy = &record.ergometer.energy;
        let usage = exchange.transcript.usage;
        if let Some(measured) = energy.measured {
            self.measured.add(measured, usage);
        }
        if let Some(modelled) = energy.modelled {
            self.modelled.add(modelled, usage);
        }
        if let Some(found) = energy.attribution {
            self.attribution.add(found, usage);
        }
        match energy.measured.or(energy.modelled).map(|energy| energy.gross) {
            Some(gross) => {
                let carried = self.carried.take().filter(|(index, _)| *index == exchange.query.index);
                let joules = gross.joules + carried.map_or(0.0, |(_, joules)| joules);
                self.pairs.push((exchange.request, f64::from(u8::from(correct == Some(true))), joules));
                self.graded_with_energy += u64::from(correct.is_some());
                let half = (gross.high - gross.low) / 2.0;
                let is_window = matches!(gross.method, EnergyMethod::Window(_));
                self.too_short += u64::from(energy.measured.is_some() && is_window && half > gross.joules / 2.0);
            }
            None => self.without_energy += 1,
        }
    }

    /// Counts a completed answer, and checks its tokens against its chunks. A chunk with text has at least one token.
    fn completed(&mut self, exchange: &Exchange) {
        self.completed += 1;
        let transcript = &exchange.transcript;
        let Some(usage) = transcript.usage else { return };
        self.without_text += u64::from(usage.output > 0 && !transcript.has_text());
        let chunks = transcript.chunks.iter().filter(|chunk| chunk.kind != ChunkKind::Silent).count() as u64;
        // The counts of a tokenizer are those of the text, which may join the tokens of several chunks.
        if usage.output < chunks && usage.source < TokenSource::Tokenize {
            self.undercounted += 1;
            self.undercounted_example.get_or_insert((chunks, usage.output));
        }
    }

    /// Compares two token counts of one answer.
    fn compare(&mut self, exchange: &Exchange, usage: Usage, other: Usage) {
        self.counted_twice += 1;
        if differs(exchange, usage, other) {
            self.disagreed += 1;
            self.disagreement.get_or_insert((usage, other));
        }
    }
}
