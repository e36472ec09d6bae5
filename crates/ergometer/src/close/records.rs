//! Builds the record of a query from its exchange and its session.

use ergometer_telemetry::DeviceKind;
use ergometer_units::{Seconds, Window};

use super::channels::Channels;
use super::energy::{MeteredRequest, energy_by_kind, phases, query_energy};
use super::session::MeteredSession;
use super::utilization::{Work, Workload};
use crate::journal::{Grading, Judgement, Manifest};
use crate::review::Verdict;
use ergometer_clients::Outcome;
use ergometer_datasets::grade::Grader;
use ergometer_runs::config::Prices;
use ergometer_runs::record::{
    Cost, EnergyMetrics, ErgometerColumn, GpuColumn, GradeColumn, LatencyMetrics, ModelMetrics, QueryOutcome, Record,
    TokenMetrics,
};
use ergometer_runs::{Exchange, RequestTimes};

/// Builds records.
pub(super) struct RecordBuilder<'a> {
    manifest: &'a Manifest,
    workload: Workload,
    gpu: Option<GpuColumn>,
    is_ours: bool,
}

impl<'a> RecordBuilder<'a> {
    pub(super) fn new(manifest: &'a Manifest) -> Self {
        let counted = manifest.config.devices.clone();
        let is_ours = super::is_ours(manifest);
        Self { manifest, workload: Workload::new(manifest, &counted), gpu: counted_gpu(manifest), is_ours }
    }

    pub(super) fn build(
        &self,
        (exchange, place): (&Exchange, usize),
        grade: Option<GradeColumn>,
        session: &MeteredSession,
        channels: &Channels,
    ) -> Record {
        let transcript = &exchange.transcript;
        let is_completed = exchange.outcome == Outcome::Completed;
        let response = is_completed.then(|| transcript.text.clone());
        let metered = MeteredRequest::new(exchange, place);
        let window = metered.window;
        let energy = query_energy(session, metered);
        let usage = transcript.usage;
        let (input, output) = (usage.map(|usage| usage.input), usage.map(|usage| usage.output));
        let first_token = metered.first_token;
        let work = Work {
            input,
            output,
            length: window.length(),
            shared: session.sharing.seconds(exchange.sent, exchange.end),
            decode: first_token.map(|first| exchange.end - first),
        };
        let metrics = ModelMetrics {
            compute: self.workload.compute(work),
            energy: EnergyMetrics {
                per_query_joules: energy_by_kind(session, &energy, DeviceKind::Gpu),
                cpu_per_query_joules: energy_by_kind(session, &energy, DeviceKind::Cpu),
                ane_per_query_joules: None,
            },
            latency: latency(exchange, window, output),
            memory: channels.memory(window),
            power: channels.power(window),
            temperature: channels.temperature(window),
            tokens: TokenMetrics { input, output, total: input.zip(output).map(|(input, output)| input + output) },
            phases: phases(session, metered, (input, output)),
            utilization: self.workload.derived(work, channels.utilization(window)),
            cost: cost(self.manifest.config.prices, input, output),
            gpu_info: self.gpu.clone(),
            system_info: self.is_ours.then(|| self.manifest.system_info.clone()),
            lm_correctness: grade.as_ref().and_then(|grade| grade.correct),
            lm_response: response.clone(),
        };
        let (failure, cause) = match &exchange.outcome {
            Outcome::Failed { kind, cause } => (Some(*kind), Some(cause.clone())),
            _ => (None, None),
        };
        Record {
            problem: exchange.query.problem.clone(),
            answer: exchange.query.answer.clone(),
            subject: exchange.query.subject.clone(),
            dataset_metadata: exchange.query.metadata.clone(),
            model_answer: response,
            model_metrics: metrics,
            ergometer: ErgometerColumn {
                query_index: exchange.query.index,
                request: exchange.request,
                session: exchange.session,
                outcome: if is_completed { QueryOutcome::Completed } else { QueryOutcome::Failed },
                failure,
                cause,
                attempts: exchange.attempt,
                scheduled: exchange.scheduled,
                sent: exchange.sent,
                first_token,
                last_token: transcript.last_token(),
                end: exchange.end,
                token_source: usage.map(|usage| usage.source),
                cached_tokens: usage.and_then(|usage| usage.cached),
                finish: transcript.finish.clone(),
                reasoning: (!transcript.reasoning.is_empty()).then(|| transcript.reasoning.clone()),
                tool_calls: (!transcript.tool_calls.is_empty()).then(|| transcript.tool_calls.clone()),
                server_times: transcript.server_times,
                processor_seconds: transcript.processor_time.map(Seconds::get),
                energy,
                grade,
                conversation: exchange.query.turn.map(|turn| turn.conversation),
                turn: exchange.query.turn.map(|turn| turn.number),
            },
        }
    }

    /// Grades an answer. A failed request is a wrong answer if the dataset has a correct one.
    pub(super) fn grade(&self, exchange: &Exchange, judgement: Option<Judgement>) -> Option<GradeColumn> {
        let is_completed = exchange.outcome == Outcome::Completed;
        match &self.manifest.grader {
            judge @ Grading::Judge(_) => {
                let is_failed = !is_completed && !exchange.query.answer.is_empty();
                let correct = judgement.as_ref().and_then(|judgement| judgement.correct);
                Some(GradeColumn {
                    grader: judgement.as_ref().map_or_else(|| judge.clone(), Judgement::grader).to_string(),
                    correct: if is_failed { Some(false) } else { correct },
                    extracted: correct.map(|correct| Verdict::from_correct(correct).word().to_owned()),
                    reply: judgement.map(|judgement| judgement.reply),
                })
            }
            Grading::Grader(Grader::None) => None,
            Grading::Grader(grader) => {
                let grade = grader.grade(&exchange.query.answer, &exchange.transcript.text);
                Some(GradeColumn {
                    grader: grader.to_string(),
                    correct: grade.correct.map(|correct| correct && is_completed),
                    extracted: grade.extracted.filter(|_| is_completed),
                    reply: None,
                })
            }
        }
    }
}

/// The first counted GPU, if the server runs on this machine.
pub(super) fn counted_gpu(manifest: &Manifest) -> Option<GpuColumn> {
    let counted = manifest.config.devices.clone();
    let counts = |gpu: &&GpuColumn| {
        let index = u32::try_from(gpu.device_id).unwrap_or(u32::MAX);
        counted.counts(ergometer_telemetry::DeviceId::gpu(index))
    };
    manifest.gpus.iter().filter(|_| super::is_ours(manifest)).find(counts).cloned()
}

fn latency(exchange: &Exchange, window: Window, output: Option<u64>) -> LatencyMetrics {
    let seconds = window.length().get();
    let output = output.filter(|&output| output > 0 && seconds > 0.0).map(|output| output as f64);
    LatencyMetrics {
        per_token_ms: output.map(|output| seconds * 1e3 / output),
        throughput_tokens_per_sec: output.map(|output| output / seconds),
        time_to_first_token_seconds: RequestTimes::from(exchange).ttft().map(Seconds::get),
        total_query_seconds: Some(seconds),
    }
}

fn cost(prices: Prices, input: Option<u64>, output: Option<u64>) -> Cost {
    let price_of = |price: Option<f64>, tokens: Option<u64>| Some(price? * tokens? as f64 / 1e6);
    let input_cost_usd = price_of(prices.input_usd_per_million, input);
    let output_cost_usd = price_of(prices.output_usd_per_million, output);
    Cost {
        input_cost_usd,
        output_cost_usd,
        tool_cost_usd: None,
        // Without one of the two there is no total.
        total_cost_usd: input_cost_usd.zip(output_cost_usd).map(|(input, output)| input + output),
    }
}
