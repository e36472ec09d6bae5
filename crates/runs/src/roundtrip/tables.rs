//! Any requests, readings and records, and what is read from them.

use std::collections::HashSet;
use std::time::Duration;

use ergometer_clients::{Chunk, ChunkKind, ConnectionUse, Outcome, Protocol, TokenSource, Transcript, Usage};
use ergometer_datasets::Query as Question;
use ergometer_telemetry::{
    Batch, Channel, DeviceId, Method, Provenance, Reading, Scope, SensorInfo, Signal, Stats, Timeline,
};
use ergometer_units::{Seconds, Timestamp};
use proptest::prelude::*;

use super::{failure_kind, float, maybe};
use crate::cost_model::Evidence;
use crate::record::{
    DeviceShare, EnergyMethod, EnergyValue, GrossAndNet, ModelMetrics, QueryEnergy, QueryOutcome, Record,
    RequestAttribution, TokenMetrics,
};
use crate::saved::{Attribution, Energy, Phases, Query};
use crate::store::example::bare_record;
use crate::{EnergySource, Exchange};

fn chunk() -> impl Strategy<Value = (i64, ChunkKind, u32)> {
    let kinds = [ChunkKind::Content, ChunkKind::Reasoning, ChunkKind::ToolCall, ChunkKind::Silent];
    (0_i64..1 << 30, prop::sample::select(kinds.to_vec()), 0_u32..3)
}

fn connection() -> impl Strategy<Value = ConnectionUse> {
    let seconds = || maybe((0.0..1e4).prop_map(Seconds::new));
    (any::<bool>(), seconds(), seconds()).prop_map(|(is_http2, connect, waited)| ConnectionUse {
        protocol: if is_http2 { Protocol::Http2 } else { Protocol::default() },
        connect,
        waited,
    })
}

pub(super) fn exchange() -> impl Strategy<Value = Exchange> {
    let times = (0_i64..1 << 40, -1_i64 << 30..1 << 30, prop::collection::vec(chunk(), 0..8), any::<bool>());
    let usage = (0_u64..1 << 40, 0_u64..1 << 40, maybe(0_u64..1 << 40)).prop_map(|(input, output, cached)| Usage {
        input,
        output,
        cached,
        source: TokenSource::Usage,
    });
    let request = (any::<u32>(), maybe(any::<String>()), maybe(usage), maybe(connection()));
    let outcome = (failure_kind(), any::<String>()).prop_flat_map(|(kind, cause)| {
        prop_oneof![
            Just(Outcome::Completed),
            Just(Outcome::Failed { kind, cause }),
            Just(Outcome::Cancelled),
            Just(Outcome::Lost),
        ]
    });
    (request, 0_u32..9, 1_u32..5, times, outcome, any::<bool>()).prop_map(
        |(request, session, attempt, (sent_ns, lag_ns, chunks, is_whole), outcome, is_retried)| {
            let (request, request_id, usage, connection_use) = request;
            let is_whole = is_whole && chunks.len() == 1;
            let mut transcript = Transcript { request_id, usage, connection_use, is_whole, ..Transcript::default() };
            let mut now = sent_ns;
            for (gap, kind, choice) in chunks {
                now += gap;
                transcript.push_event(Chunk { at: at(now), kind, choice });
            }
            Exchange {
                request: u64::from(request),
                session,
                attempt,
                query: Question { index: u64::from(request) % 97, ..Question::default() },
                scheduled: at(sent_ns - lag_ns),
                sent: at(sent_ns),
                end: at(now + 1),
                transcript,
                outcome,
                is_retried,
            }
        },
    )
}

fn at(nanos: i64) -> Timestamp {
    Timestamp::from_nanos_since_epoch(nanos)
}

/// The gaps between the chunks of each choice, in the order of the chunks.
pub(super) fn gaps(chunks: &[Chunk]) -> Vec<i64> {
    let gap = |(place, chunk): (usize, &Chunk)| {
        let before = chunks[..place].iter().rev().find(|before| before.choice == chunk.choice)?;
        Some((chunk.at - before.at).as_nanos())
    };
    chunks.iter().enumerate().filter_map(gap).collect()
}

fn provenance() -> impl Strategy<Value = Provenance> {
    let all = [
        Provenance::Counter,
        Provenance::SampledPower,
        Provenance::AveragedPower,
        Provenance::Modelled,
        Provenance::Gauge,
    ];
    prop::sample::select(all.to_vec())
}

/// The channels of a sensor, each with another device, scope or signal.
pub(super) fn channels() -> impl Strategy<Value = Vec<Channel>> {
    let devices = prop::sample::select(vec![DeviceId::gpu(0), DeviceId::gpu(1), DeviceId::cpu(0), DeviceId::host()]);
    let scopes = prop::sample::select(vec![Scope::Device, Scope::Package, Scope::Dram, Scope::Memory]);
    let signals = prop::sample::select(vec![
        Signal::Temperature,
        Signal::ClockCore,
        Signal::PowerInstant,
        Signal::Energy,
        Signal::MemoryUsed,
    ]);
    let channel = (devices, scopes, signals, provenance()).prop_map(|(device, scope, signal, provenance)| Channel {
        device,
        scope,
        signal,
        provenance,
        update_period: None,
    });
    prop::collection::vec(channel, 1..6).prop_map(|mut channels| {
        let mut known = HashSet::new();
        channels.retain(|channel| known.insert(channel.to_string()));
        channels
    })
}

pub(super) fn timeline(channels: &[Channel], readings: &[(usize, i64, i64, f64)]) -> Timeline {
    let interval = Duration::from_millis(20);
    let info = SensorInfo { id: String::from("a"), name: String::from("a"), device: channels[0].device, interval };
    let mut timeline = Timeline::default();
    let key = timeline.add_sensor(&info, channels);
    let mut batch = Batch::default();
    for &(channel, at_ns, early_ns, value) in readings {
        let (after, at) = (at(at_ns - early_ns), at(at_ns));
        batch.readings.push(Reading { channel: channel % channels.len(), after, at, value });
    }
    timeline.append(key, &batch);
    timeline
}

fn stats() -> impl Strategy<Value = Stats> {
    [float(), float(), float(), float()].prop_map(|[avg, max, median, min]| Stats {
        avg,
        max,
        median,
        min,
        count: 9,
        covered: Seconds::new(0.1),
    })
}

fn energy_method() -> impl Strategy<Value = EnergyMethod> {
    let models = [Evidence::StepLog, Evidence::Arrivals, Evidence::Tokens].map(EnergyMethod::CostModel);
    let windows = [Method::ActivityAware, Method::CounterAndPower, Method::Counter, Method::Power, Method::Modelled];
    let all = models.into_iter().chain(windows.map(EnergyMethod::Window)).chain([EnergyMethod::EqualShare]);
    prop::sample::select(all.collect::<Vec<_>>())
}

fn energy_value() -> impl Strategy<Value = EnergyValue> {
    ([float(), float(), float()], energy_method(), provenance())
        .prop_map(|([joules, low, high], method, provenance)| EnergyValue { joules, low, high, method, provenance })
}

fn gross_and_net() -> impl Strategy<Value = GrossAndNet> {
    (energy_value(), maybe(energy_value())).prop_map(|(gross, net)| GrossAndNet { gross, net })
}

fn attribution() -> impl Strategy<Value = RequestAttribution> {
    let parts = [maybe(float()), maybe(float()), maybe(float()), maybe(float())];
    ([float(), float(), float()], parts, energy_method()).prop_map(
        |([share, low, high], [prefill_j, decode_j, marginal, alone], method)| RequestAttribution {
            share,
            low,
            high,
            prefill_j,
            decode_j,
            marginal,
            alone,
            method,
        },
    )
}

fn query_energy() -> impl Strategy<Value = QueryEnergy> {
    (maybe(gross_and_net()), maybe(gross_and_net()), maybe(attribution())).prop_map(
        |(measured, modelled, attribution)| {
            let share = |energy| DeviceShare { device: DeviceId::gpu(0), scope: Scope::Device, energy };
            QueryEnergy { measured, modelled, devices: measured.map(share).into_iter().collect(), attribution }
        },
    )
}

fn model_metrics() -> impl Strategy<Value = ModelMetrics> {
    let count = || maybe(0_u64..1 << 40);
    let tokens = (count(), count(), count()).prop_map(|(input, output, total)| TokenMetrics { input, output, total });
    let floats = [(); 8].map(|()| maybe(float()));
    (tokens, floats, maybe(stats()), maybe(stats()), maybe(any::<bool>())).prop_map(
        |(tokens, floats, power, temperature, lm_correctness)| {
            let [ttft, total, joules, prefill_j, decode_j, prefill_ms, decode_ms, cost] = floats;
            let mut metrics = ModelMetrics { temperature, tokens, lm_correctness, ..ModelMetrics::default() };
            metrics.latency.time_to_first_token_seconds = ttft;
            metrics.latency.total_query_seconds = total;
            metrics.energy.per_query_joules = joules;
            metrics.power.gpu = power;
            (metrics.phases.prefill_energy_j, metrics.phases.decode_energy_j) = (prefill_j, decode_j);
            (metrics.phases.prefill_duration_ms, metrics.phases.decode_duration_ms) = (prefill_ms, decode_ms);
            metrics.cost.total_cost_usd = cost;
            metrics
        },
    )
}

/// A record of any query. Its texts have no character with which [`Texts`](crate::saved::Texts) marks a cut.
pub(super) fn any_record() -> impl Strategy<Value = Record> {
    let text = "[^\u{2026}]{0,40}";
    let texts = (text, text, text, maybe(text), maybe(text));
    let time = || (0_i64..1 << 60).prop_map(at);
    let times = (time(), time(), maybe(time()), maybe(time()), time());
    let numbers = (0_u64..1 << 40, 0_u64..1 << 40, any::<u32>(), any::<u32>(), maybe(0_u64..1 << 40));
    let failure = maybe(failure_kind());
    (texts, times, numbers, failure, query_energy(), model_metrics()).prop_map(
        |(texts, times, numbers, failure, energy, model_metrics)| {
            let (query_index, request, session, attempts, cached_tokens) = numbers;
            let mut record = Record { model_metrics, ..bare_record(query_index) };
            (record.problem, record.answer, record.subject, record.model_answer, record.ergometer.cause) = texts;
            let column = &mut record.ergometer;
            (column.request, column.session, column.attempts) = (request, session, attempts);
            (column.scheduled, column.sent, column.first_token, column.last_token, column.end) = times;
            column.outcome = if failure.is_some() { QueryOutcome::Failed } else { QueryOutcome::Completed };
            (column.failure, column.cached_tokens, column.energy) = (failure, cached_tokens, energy);
            record
        },
    )
}

/// The query that is read from a record, with the energy of a source.
pub(super) fn query(record: &Record, source: EnergySource) -> Query {
    let (column, metrics) = (&record.ergometer, &record.model_metrics);
    let energy = match source {
        EnergySource::Measured => column.energy.measured,
        EnergySource::Modelled => column.energy.modelled,
    };
    let seconds = |time_ms: Option<f64>| time_ms.map(|time_ms| time_ms / 1e3);
    Query {
        request: column.request,
        index: column.query_index,
        session: column.session,
        subject: 0,
        outcome: column.outcome,
        attempts: u64::from(column.attempts),
        scheduled: Some(column.scheduled),
        sent: Some(column.sent),
        first_token: column.first_token,
        last_token: column.last_token,
        end: Some(column.end),
        input_tokens: metrics.tokens.input,
        cached_tokens: column.cached_tokens,
        output_tokens: metrics.tokens.output,
        total_tokens: metrics.tokens.total,
        ttft_s: metrics.latency.time_to_first_token_seconds,
        total_s: metrics.latency.total_query_seconds,
        gpu_joules: metrics.energy.per_query_joules,
        gpu_watts: metrics.power.gpu.map(|stats| stats.avg),
        energy: energy.map(|energy| Energy {
            gross: energy.gross.joules,
            low: energy.gross.low,
            high: energy.gross.high,
            net: energy.net.map(|net| net.joules),
        }),
        attribution: column.energy.attribution.map(|found| Attribution {
            share: found.share,
            low: found.low,
            high: found.high,
            prefill_j: found.prefill_j,
            decode_j: found.decode_j,
        }),
        phases: Phases {
            prefill_j: metrics.phases.prefill_energy_j,
            decode_j: metrics.phases.decode_energy_j,
            prefill_s: seconds(metrics.phases.prefill_duration_ms),
            decode_s: seconds(metrics.phases.decode_duration_ms),
        },
        temperature_c: metrics.temperature.map(|stats| stats.avg),
        correct: metrics.lm_correctness,
        cost_usd: metrics.cost.total_cost_usd,
    }
}
