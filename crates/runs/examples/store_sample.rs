//! Writes the files of a small synthetic run for the tests in `tests/interop`: `store_sample DIR [RECORDS]`. Every
//! fourth request failed, so every nullable column has a null. As a benchmark, a large RECORDS shows how long many
//! records take, and `/usr/bin/time -v` how much memory they need.

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ergometer_clients::{ChunkKind, FailureKind, Outcome, TokenSource, Transcript, Usage};
use ergometer_datasets::Query;
use ergometer_runs::Exchange;
use ergometer_runs::record::{
    ComputeMetrics, Cost, DeviceShare, EnergyMethod, EnergyMetrics, EnergyValue, ErgometerColumn, GpuColumn,
    GradeColumn, GrossAndNet, HardwareUtilization, LatencyMetrics, MemoryMetrics, ModelMetrics, PhaseMetrics,
    PowerMetrics, QueryEnergy, QueryOutcome, Record, TokenMetrics,
};
use ergometer_runs::store::{DatasetWriter, MetadataShape, RecordSchema, RequestsWriter, TelemetryWriter};
use ergometer_telemetry::SystemInfo;
use ergometer_telemetry::{
    Batch, Channel, DeviceId, Method, Provenance, Reading, Scope, SensorInfo, Signal, Stats, Timeline,
};
use ergometer_units::{Seconds, Timestamp};
use serde_json::{Map, Value, json};

const MODEL: &str = "org/modèle-1.5B.q4";
/// The start of the run, which has one request a second.
const START_NS: i64 = 1_794_730_772_000_000_001;
const SECOND_NS: i64 = 1_000_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("usage: store_sample DIR [RECORDS]")?);
    let records = match arguments.next() {
        Some(number) => number.to_str().ok_or("RECORDS is no number")?.parse()?,
        None => 12,
    };
    std::fs::create_dir_all(&folder)?;
    let begin = Instant::now();

    let mut shape = MetadataShape::default();
    (0..records).map(metadata).for_each(|metadata| shape.observe(&metadata));
    let mut dataset = DatasetWriter::create(&folder, RecordSchema::new(MODEL, &shape))?;
    let mut requests = RequestsWriter::create(&folder)?;
    for index in 0..records {
        let exchange = exchange(index, u32::from(index >= records / 2));
        dataset.push(&record(&exchange))?;
        requests.push(&exchange)?;
    }
    let mut telemetry = TelemetryWriter::create(&folder)?;
    telemetry.push(0, &timeline(0, records / 2))?;
    telemetry.push(1, &timeline(records / 2, records))?;
    let (records, requests, readings) = (dataset.finish()?, requests.finish()?, telemetry.finish()?);
    let seconds = begin.elapsed().as_secs_f64();
    println!("{records} records, {requests} requests, {readings} readings in {seconds:.2} s");
    Ok(())
}

fn metadata(index: u64) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert("level".to_owned(), json!(index % 5));
    metadata.insert("weight".to_owned(), if index.is_multiple_of(2) { json!(1) } else { json!(0.5) });
    metadata.insert("choices".to_owned(), json!(["a", "ß", index]));
    metadata.insert("a.b/c d".to_owned(), json!(index.is_multiple_of(3)));
    if index % 2 == 1 {
        metadata.insert("source".to_owned(), json!("экзамен"));
    }
    metadata
}

fn exchange(index: u64, session: u32) -> Exchange {
    let sent = Timestamp::from_nanos_since_epoch(START_NS + SECOND_NS * index.cast_signed());
    let after = |time: f64| sent + Seconds::from_millis(time);
    let mut transcript = Transcript::default();
    let failed = index % 4 == 3;
    if !failed {
        transcript.push(after(40.0), ChunkKind::Reasoning, "Let me add.");
        for token in 0..32_u32 {
            transcript.push(after(60.0 + 10.0 * f64::from(token)), ChunkKind::Content, "четыре ");
        }
        transcript.usage = Some(Usage { input: 120 + index % 7, output: 33, cached: None, source: TokenSource::Model });
        transcript.finish = Some("stop".to_owned());
    }
    let cause = || "no response within 60 s".to_owned();
    Exchange {
        request: index,
        session,
        attempt: 1,
        query: Query {
            index,
            problem: format!("What is {index} + 2?\nThink first. {}", "Explain each step. ".repeat(20)),
            answer: (index + 2).to_string(),
            subject: "arithmetic".to_owned(),
            metadata: metadata(index),
            ..Query::default()
        },
        scheduled: sent,
        sent,
        end: after(400.0),
        transcript,
        outcome: if failed {
            Outcome::Failed { kind: FailureKind::TimeoutTotal, cause: cause() }
        } else {
            Outcome::Completed
        },
        is_retried: false,
    }
}

fn record(exchange: &Exchange) -> Record {
    let completed = exchange.outcome == Outcome::Completed;
    let answer = completed.then(|| exchange.transcript.text.clone());
    let (failure, cause) = match &exchange.outcome {
        Outcome::Failed { kind, cause } => (Some(*kind), Some(cause.clone())),
        Outcome::Completed | Outcome::Cancelled | Outcome::Lost => (None, None),
    };
    Record {
        problem: exchange.query.problem.clone(),
        answer: exchange.query.answer.clone(),
        subject: exchange.query.subject.clone(),
        dataset_metadata: exchange.query.metadata.clone(),
        model_metrics: match (&answer, exchange.transcript.usage) {
            (Some(answer), Some(usage)) => metrics(answer, usage),
            _ => ModelMetrics::default(),
        },
        model_answer: answer,
        ergometer: ErgometerColumn {
            query_index: exchange.query.index,
            request: exchange.request,
            session: exchange.session,
            outcome: if completed { QueryOutcome::Completed } else { QueryOutcome::Failed },
            failure,
            cause,
            attempts: exchange.attempt,
            scheduled: exchange.scheduled,
            sent: exchange.sent,
            first_token: exchange.transcript.first_token(),
            last_token: exchange.transcript.last_token(),
            end: exchange.end,
            token_source: exchange.transcript.usage.map(|usage| usage.source),
            cached_tokens: exchange.transcript.usage.and_then(|usage| usage.cached),
            finish: exchange.transcript.finish.clone(),
            reasoning: None,
            tool_calls: None,
            server_times: exchange.transcript.server_times,
            processor_seconds: Some(0.004),
            energy: if completed { energy() } else { QueryEnergy::default() },
            grade: completed.then(|| GradeColumn {
                grader: "number".to_owned(),
                correct: Some(false),
                extracted: Some("4".to_owned()),
                reply: None,
            }),
            conversation: exchange.query.turn.map(|turn| turn.conversation),
            turn: exchange.query.turn.map(|turn| turn.number),
        },
    }
}

fn energy() -> QueryEnergy {
    let value = |joules: f64| EnergyValue {
        joules,
        low: joules - 2.0,
        high: joules + 2.0,
        method: EnergyMethod::Window(Method::ActivityAware),
        provenance: Provenance::Counter,
    };
    let gpu = GrossAndNet { gross: value(140.0), net: Some(value(100.0)) };
    let cpu = GrossAndNet { gross: EnergyValue { method: EnergyMethod::EqualShare, ..value(30.0) }, net: None };
    QueryEnergy {
        attribution: None,
        measured: Some(gpu),
        modelled: None,
        devices: vec![
            DeviceShare { device: DeviceId::gpu(0), scope: Scope::Device, energy: gpu },
            DeviceShare { device: DeviceId::cpu(0), scope: Scope::Package, energy: cpu },
        ],
    }
}

fn metrics(answer: &str, usage: Usage) -> ModelMetrics {
    let stats = |avg: f64| {
        let (max, median, min, covered) = (avg + 20.0, avg + 1.0, avg - 20.0, Seconds::from_millis(400.0));
        Some(Stats { avg, max, median, min, count: 20, covered })
    };
    let tokens = (usage.input + usage.output) as f64;
    ModelMetrics {
        compute: ComputeMetrics {
            flops_per_request: Some(3e9 * tokens),
            macs_per_request: Some(1.5e9 * tokens),
            total_flops: Some(3e9 * tokens),
            flops_per_token: Some(3e9),
        },
        energy: EnergyMetrics {
            per_query_joules: Some(140.0),
            cpu_per_query_joules: Some(30.0),
            ane_per_query_joules: None,
        },
        latency: LatencyMetrics {
            per_token_ms: Some(10.0),
            throughput_tokens_per_sec: Some(82.5),
            time_to_first_token_seconds: Some(0.04),
            total_query_seconds: Some(0.4),
        },
        memory: MemoryMetrics { cpu_mb: stats(8000.0), gpu_mb: stats(70_000.0) },
        power: PowerMetrics { gpu: stats(350.0), cpu: stats(75.0) },
        temperature: stats(50.0),
        tokens: TokenMetrics {
            input: Some(usage.input),
            output: Some(usage.output),
            total: Some(usage.input + usage.output),
        },
        phases: PhaseMetrics {
            prefill_energy_j: Some(20.0),
            decode_energy_j: Some(120.0),
            prefill_duration_ms: Some(40.0),
            decode_duration_ms: Some(330.0),
            prefill_power_avg_w: Some(500.0),
            decode_power_avg_w: Some(364.0),
            prefill_energy_per_input_token_j: Some(0.16),
            decode_energy_per_output_token_j: Some(3.6),
        },
        utilization: HardwareUtilization {
            compute_utilization_pct: Some(90.0),
            memory_bandwidth_utilization_pct: Some(40.0),
            tensor_core_utilization_pct: Some(12.0),
            memory_used_gb: Some(70.0),
            memory_total_gb: Some(141.0),
            mfu: Some(0.01),
            mbu: Some(0.4),
            arithmetic_intensity: Some(2.0),
        },
        cost: Cost {
            input_cost_usd: Some(1.2e-5),
            output_cost_usd: Some(9e-6),
            tool_cost_usd: None,
            total_cost_usd: Some(2.1e-5),
        },
        gpu_info: Some(GpuColumn {
            name: "NVIDIA H200".to_owned(),
            vendor: "NVIDIA".to_owned(),
            device_id: 0,
            device_type: "gpu".to_owned(),
            backend: "nvml".to_owned(),
        }),
        system_info: Some(SystemInfo {
            os_name: Some("Debian GNU/Linux".to_owned()),
            os_version: Some("12".to_owned()),
            cpu_count: Some(16),
            ..SystemInfo::default()
        }),
        lm_correctness: Some(false),
        lm_response: Some(answer.to_owned()),
    }
}

/// A hundred readings of energy and of temperature for each of these requests.
fn timeline(first: u64, end: u64) -> Timeline {
    let device = DeviceId::gpu(0);
    let channel =
        |signal, provenance| Channel { device, scope: Scope::Device, signal, provenance, update_period: None };
    let channels = [channel(Signal::Energy, Provenance::Counter), channel(Signal::Temperature, Provenance::Gauge)];
    let info = SensorInfo {
        id: "nvml:0".to_owned(),
        name: "NVIDIA H200".to_owned(),
        device,
        interval: Duration::from_millis(10),
    };
    let mut timeline = Timeline::default();
    let key = timeline.add_sensor(&info, &channels);
    let mut batch = Batch::default();
    for tick in (100 * first)..(100 * end) {
        let at = Timestamp::from_nanos_since_epoch(START_NS + SECOND_NS / 100 * tick.cast_signed());
        let after = at - Seconds::from_millis(if tick % 10 == 0 { 5.0 } else { 0.0 });
        batch.readings.push(Reading { channel: 0, after, at, value: 3.5 * tick as f64 });
        batch.readings.push(Reading { channel: 1, after: at, at, value: 50.0 + (tick % 7) as f64 });
        if batch.readings.len() >= 1000 {
            timeline.append(key, &batch);
            batch.clear();
        }
    }
    timeline.append(key, &batch);
    timeline
}
