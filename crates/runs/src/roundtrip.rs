//! Property tests: every file of a run folder is read back as it was written.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ergometer_clients::{ChunkKind, FailureKind, Outcome as RequestOutcome, TokenSource, Transcript, Usage};
use ergometer_datasets::Query as Question;
use ergometer_statistics::{Distribution, Estimate};
use ergometer_telemetry::{Batch, Channel, DeviceId, Provenance, Reading, Scope, SensorInfo, Signal, Timeline};
use ergometer_units::Timestamp;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::config::Schedule;
use crate::cost_model::{Coefficients, CostModel, CostModels, Evidence, Work};
use crate::load_over_time::{BinTail, LoadBin, LoadOverTime, SessionSpan};
use crate::saved::{Attempt, AttemptOutcome, Attribution, Run, Telemetry, Texts};
use crate::store::example::{bare_record, record};
use crate::store::{DatasetWriter, MetadataShape, RecordSchema, RequestsWriter, TelemetryWriter};
use crate::summary::{
    Accuracy, BalanceSummary, DeviceSummary, EnergyTotals, IntelligenceSummary, JudgeSummary, SubjectAccuracy,
};
use crate::sweep::{Identity, RunFigures};
use crate::{Closing, EnergySource, Exchange, Summary, Sweep, testing};

fn float() -> impl Strategy<Value = f64> {
    prop::num::f64::NORMAL | prop::num::f64::ZERO | prop::num::f64::SUBNORMAL
}

fn maybe<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::of(strategy)
}

fn estimate() -> impl Strategy<Value = Estimate> {
    (float(), maybe(float()), maybe(float())).prop_map(|(value, low, high)| Estimate { value, low, high })
}

fn distribution() -> impl Strategy<Value = Distribution> {
    prop::collection::vec(-1e9..1e9_f64, 1..150).prop_map(|values| Distribution::from_values(&values).unwrap())
}

fn balance() -> impl Strategy<Value = BalanceSummary> {
    [float(), float(), float(), float(), float(), float(), float()].prop_map(
        |[requests_j, idle_j, unattributed_j, meter_j, unrecorded_j, retried_j, unknown_s]| BalanceSummary {
            requests_j,
            idle_j,
            unattributed_j,
            meter_j,
            unrecorded_j,
            retried_j,
            unknown_s,
        },
    )
}

/// Totals with a value in every field, also in fields that are added later.
fn totals() -> impl Strategy<Value = EnergyTotals> {
    let summary = testing::summary(json!({"energy": {"measured": {}}}));
    let Value::Object(zero) = serde_json::to_value(summary.energy.measured.unwrap()).unwrap() else { unreachable!() };
    let field = (maybe(float()), estimate(), balance());
    prop::collection::vec(field, zero.len()).prop_map(move |fields| {
        let mut totals = zero.clone();
        let read = |totals: &Map<String, Value>| serde_json::from_value::<EnergyTotals>(totals.clone().into());
        for (name, (number, estimate, balance)) in zero.keys().zip(fields) {
            // The first value that the type of the field accepts. A balance has defaults, so it accepts an estimate.
            let values = [json!(number), json!(number.unwrap_or(0.0)), json!(balance), json!(estimate)];
            let is_valid = values.into_iter().any(|value| {
                totals.insert(name.clone(), value);
                read(&totals).is_ok()
            });
            assert!(is_valid, "no value for {name}");
        }
        read(&totals).unwrap()
    })
}

fn device() -> impl Strategy<Value = DeviceSummary> {
    let energy = (maybe(estimate()), prop::collection::vec(float(), 0..3), maybe(balance()));
    (0_u32..9, any::<String>(), any::<bool>(), energy).prop_map(|(index, name, summed, (gross_j, idle_w, balance))| {
        DeviceSummary {
            device: DeviceId::gpu(index),
            name,
            scope: Scope::Device,
            provenance: Provenance::Counter,
            summed,
            gross_j,
            idle_w,
            balance,
        }
    })
}

fn accuracy() -> impl Strategy<Value = Accuracy> {
    let subject = (any::<u64>(), any::<u64>(), estimate()).prop_map(|(correct, graded, rate)| SubjectAccuracy {
        correct,
        graded,
        rate,
    });
    let subjects = prop::collection::btree_map(any::<String>(), subject, 0..3);
    (any::<String>(), any::<u64>(), any::<u64>(), estimate(), subjects)
        .prop_map(|(grader, correct, graded, rate, by_subject)| Accuracy { grader, correct, graded, rate, by_subject })
}

fn failures() -> impl Strategy<Value = BTreeMap<FailureKind, u64>> {
    let kind = prop_oneof![
        Just(FailureKind::Connect),
        Just(FailureKind::Truncated),
        Just(FailureKind::TimeoutTotal),
        (400_u16..600).prop_map(FailureKind::HttpStatus),
    ];
    prop::collection::btree_map(kind, any::<u64>(), 0..4)
}

fn summary() -> impl Strategy<Value = Summary> {
    let texts = [any::<String>(), any::<String>(), any::<String>(), any::<String>()];
    let counts = (any::<u64>(), failures(), failures(), any::<u64>(), any::<u64>());
    let cached = maybe(any::<u64>());
    let energy = (maybe(totals()), maybe(totals()), prop::collection::vec(device(), 0..3), any::<u64>());
    let latency = [maybe(distribution()), maybe(distribution()), maybe(distribution()), maybe(distribution())];
    let closing = prop_oneof![
        Just(Closing::Finished),
        Just(Closing::Duration),
        Just(Closing::TooManyFailures),
        Just(Closing::Interrupted),
        Just(Closing::Unwritable),
        Just(Closing::Unreadable),
        Just(Closing::Failed),
    ];
    let intelligence = (estimate(), maybe(estimate()), maybe(estimate()));
    let rest = (maybe(float()), prop::collection::vec((any::<String>(), maybe(any::<String>())), 0..3), maybe(closing));
    let load = ([maybe(distribution()), maybe(distribution())], cached);
    (texts, counts, energy, latency, maybe(accuracy()), maybe(intelligence), rest, load).prop_map(
        |(
            [model, dataset, hardware, fingerprint],
            counts,
            energy,
            latency,
            accuracy,
            intelligence,
            rest,
            (load, cached),
        )| {
            let mut summary = testing::summary(json!({
                "format_version": 1, "profiler_config": {"warmup": 2},
                "load": {"steady_state": {"energy": {}}, "goodput": {}, "in_flight": {}},
            }));
            (summary.model, summary.dataset, summary.hardware_label) = (model, dataset, hardware);
            summary.dataset_fingerprint = fingerprint;
            let outcomes = &mut summary.outcomes;
            (outcomes.completed, outcomes.failed, outcomes.retried, outcomes.cancelled, outcomes.lost) = counts;
            (summary.energy.measured, summary.energy.modelled, summary.energy.devices, _) = energy;
            [
                summary.latency.ttft_ms,
                summary.latency.tpot_ms,
                summary.latency.e2e_ms,
                summary.latency.schedule_lag_ms,
            ] = latency;
            summary.accuracy = accuracy;
            summary.judge = summary.accuracy.as_ref().map(|accuracy| JudgeSummary {
                model: accuracy.grader.clone(),
                judged: accuracy.correct,
                without_verdict: 0,
                unjudged: accuracy.graded,
            });
            summary.intelligence = intelligence.map(|(per_joule, per_watt, with_meter)| IntelligenceSummary {
                per_joule,
                per_joule_with_meter: with_meter,
                per_watt,
                per_watt_with_meter: None,
                energy: Some(EnergySource::Modelled),
            });
            let (cost_usd, warnings, closing) = rest;
            (summary.warnings, summary.remedies) = warnings.into_iter().unzip();
            (summary.cost_usd, summary.closing) = (cost_usd, closing);
            if let Some(of_run) = summary.load.as_mut() {
                [of_run.whole.ttft_ms, of_run.whole.itl_ms] = load;
            }
            summary.tokens.cached = cached;
            summary
        },
    )
}

fn work() -> impl Strategy<Value = Work> {
    prop::array::uniform6(float())
}

fn coefficients() -> impl Strategy<Value = Coefficients> {
    let fit = (maybe(float()), maybe(float()), 0_usize..1000, float());
    (work(), prop::collection::vec(work(), 0..4), fit).prop_map(
        |(least_squares, draws, (r2, r2_out_of_sample, observations, load_range))| Coefficients {
            least_squares,
            draws,
            r2,
            r2_out_of_sample,
            observations,
            load_range,
        },
    )
}

fn cost_models() -> impl Strategy<Value = CostModels> {
    let evidence = prop_oneof![Just(Evidence::StepLog), Just(Evidence::Arrivals), Just(Evidence::Tokens)];
    let scope = prop_oneof![Just(Scope::Device), Just(Scope::Package), Just(Scope::Memory)];
    let model = (0_u32..9, scope, any::<bool>(), coefficients(), coefficients()).prop_map(
        |(index, scope, summed, shares, prices)| CostModel {
            device: DeviceId::gpu(index),
            scope,
            summed,
            shares,
            prices,
        },
    );
    let runs = prop::collection::vec(any::<String>(), 0..3);
    (evidence, runs, float(), float(), prop::collection::vec(model, 0..3)).prop_map(
        |(evidence, runs, calibration_s, lag_ms, models)| CostModels { evidence, runs, calibration_s, lag_ms, models },
    )
}

fn tail() -> impl Strategy<Value = BinTail> {
    (float(), maybe(float()), float()).prop_map(|(p50, p99, max)| BinTail { p50, p99, max })
}

fn load_over_time() -> impl Strategy<Value = LoadOverTime> {
    let session = (any::<u32>(), any::<i64>(), float(), maybe((float(), float()))).prop_map(
        |(session, start_ns, duration_s, steady_state_s)| SessionSpan { session, start_ns, duration_s, steady_state_s },
    );
    let counts = prop::array::uniform6(any::<u64>());
    let bin = (any::<u32>(), [float(), float(), float()], counts, maybe(tail()), maybe(tail())).prop_map(
        |(session, [start_s, in_flight, output_tokens], counts, schedule_lag_ms, ttft_ms)| {
            let [scheduled, sent, completed, failed, retried, in_flight_max] = counts;
            LoadBin {
                session,
                start_s,
                scheduled,
                sent,
                completed,
                failed,
                retried,
                in_flight,
                in_flight_max,
                output_tokens,
                schedule_lag_ms,
                ttft_ms,
            }
        },
    );
    (float(), prop::collection::vec(session, 0..3), prop::collection::vec(bin, 0..5)).prop_map(
        |(bin_s, sessions, bins)| LoadOverTime { format_version: LoadOverTime::VERSION, bin_s, sessions, bins },
    )
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let times = (0_i64..1 << 40, prop::collection::vec(0_i64..1 << 30, 0..6));
    let usage = (0_u64..1 << 40, 0_u64..1 << 40, maybe(0_u64..1 << 40)).prop_map(|(input, output, cached)| Usage {
        input,
        output,
        cached,
        source: TokenSource::Usage,
    });
    let request = (any::<u32>(), maybe(any::<String>()), maybe(usage));
    let outcome = any::<String>().prop_flat_map(|cause| {
        prop_oneof![
            Just(RequestOutcome::Completed),
            Just(RequestOutcome::Failed { kind: FailureKind::Truncated, cause }),
            Just(RequestOutcome::Cancelled),
            Just(RequestOutcome::Lost),
        ]
    });
    (request, 0_u32..9, 1_u32..5, times, outcome).prop_map(
        |((request, request_id, usage), session, attempt, (sent_ns, gaps), outcome)| {
            let at = Timestamp::from_nanos_since_epoch;
            let mut transcript = Transcript { request_id, usage, ..Transcript::default() };
            let mut now = sent_ns;
            for gap in gaps {
                now += gap;
                transcript.push(at(now), ChunkKind::Content, "x");
            }
            let is_retried = matches!(outcome, RequestOutcome::Failed { .. });
            Exchange {
                request: u64::from(request),
                session,
                attempt,
                query: Question { index: u64::from(request) % 97, ..Question::default() },
                scheduled: at(sent_ns - 5),
                sent: at(sent_ns),
                end: at(now + 1),
                transcript,
                outcome,
                is_retried,
            }
        },
    )
}

fn timeline(readings: &[(usize, i64, f64)]) -> Timeline {
    let device = DeviceId::gpu(0);
    let channel =
        |signal| Channel { device, scope: Scope::Device, signal, provenance: Provenance::Gauge, update_period: None };
    let interval = Duration::from_millis(20);
    let info = SensorInfo { id: String::from("a"), name: String::from("a"), device, interval };
    let mut timeline = Timeline::default();
    let key = timeline.add_sensor(&info, &[channel(Signal::Temperature), channel(Signal::ClockCore)]);
    let mut batch = Batch::default();
    for &(channel, at_ns, value) in readings {
        let at = Timestamp::from_nanos_since_epoch(at_ns);
        batch.readings.push(Reading { channel, after: at, at, value });
    }
    timeline.append(key, &batch);
    timeline
}

/// Writes a run with a record for each answer, and its summary.
fn write_records(folder: &Path, answers: &[Option<String>]) {
    let mut shape = MetadataShape::default();
    let records: Vec<_> = (0..)
        .zip(answers)
        .map(|(index, answer)| {
            let mut record = if answer.is_some() { record(index) } else { bare_record(index) };
            record.model_answer.clone_from(answer);
            shape.observe(&record.dataset_metadata);
            record
        })
        .collect();
    let mut writer = DatasetWriter::create(folder, RecordSchema::new("m", &shape)).unwrap();
    for record in &records {
        writer.push(record).unwrap();
    }
    writer.finish().unwrap();
    testing::summary(json!({"model": "m", "energy": {"measured": {}}})).write(folder).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn summary_json(summary in summary()) {
        let folder = tempfile::tempdir().unwrap();
        summary.write(folder.path()).unwrap();
        prop_assert_eq!(Summary::read(folder.path()).unwrap(), summary);
    }

    #[test]
    fn load_json(load in load_over_time()) {
        let folder = tempfile::tempdir().unwrap();
        prop_assert_eq!(LoadOverTime::read(folder.path()).unwrap(), None);
        load.write(folder.path()).unwrap();
        prop_assert_eq!(LoadOverTime::read(folder.path()).unwrap(), Some(load));
    }

    #[test]
    fn cost_model_json(models in cost_models()) {
        let folder = tempfile::tempdir().unwrap();
        models.write(folder.path()).unwrap();
        prop_assert_eq!(CostModels::read(folder.path()).unwrap(), Some(models));
    }

    #[test]
    fn sweep_json(summaries in prop::collection::vec(summary(), 1..4), repeats in 1_u32..3, name in any::<String>()) {
        let config = testing::summary(json!({"profiler_config": {}})).profiler_config.known().unwrap().clone();
        let schedules: Vec<Schedule> =
            (1..=4).map(|concurrency| Schedule::Concurrency { concurrency }).take(summaries.len()).collect();
        let identity = Identity {
            hardware_label: name.clone(),
            model: name.clone(),
            model_facts: ergometer_clients::ModelFacts::default(),
            dataset: name.clone(),
            dataset_fingerprint: name,
        };
        let mut sweep = Sweep::new(config, &schedules, repeats, 1.5, identity).unwrap();
        for (point, summary) in summaries.iter().enumerate() {
            sweep.take((point, 0), summary);
            prop_assert_eq!(sweep.points[point].runs[0].figures.clone().unwrap(), RunFigures::from_summary(summary));
        }
        // The mean of values near the largest float overflows, and JSON has no infinity.
        let is_finite = sweep.points.iter().flat_map(|point| point.figures.values()).all(|figure| {
            figure.mean.is_finite() && figure.std.is_none_or(f64::is_finite)
        });
        prop_assume!(is_finite);
        let folder = tempfile::tempdir().unwrap();
        sweep.write(folder.path()).unwrap();
        prop_assert_eq!(Sweep::read(folder.path()).unwrap(), sweep);
    }

    #[test]
    fn requests_parquet(exchanges in prop::collection::vec(exchange(), 0..20)) {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = RequestsWriter::create(folder.path()).unwrap();
        for exchange in &exchanges {
            writer.push(exchange).unwrap();
        }
        writer.finish().unwrap();
        let mut read = Vec::new();
        Attempt::each(folder.path(), |attempt, gaps| read.push((attempt, gaps.to_vec()))).unwrap();
        let mut offsets = Vec::new();
        Attempt::each_with_offsets(folder.path(), |attempt, found| offsets.push((attempt, found.to_vec()))).unwrap();
        let since_sent = |exchange: &Exchange| -> Vec<i64> {
            exchange.transcript.chunks.iter().map(|chunk| (chunk.at - exchange.sent).as_nanos()).collect()
        };
        let expected: Vec<Vec<i64>> = exchanges.iter().map(since_sent).collect();
        prop_assert_eq!(offsets.iter().map(|(_, found)| found.clone()).collect::<Vec<_>>(), expected);
        prop_assert_eq!(read.len(), exchanges.len());
        for ((attempt, gaps), exchange) in read.iter().zip(&exchanges) {
            let transcript = &exchange.transcript;
            let pairs = transcript.chunks.windows(2);
            let expected: Vec<i64> = pairs.map(|pair| (pair[1].at - pair[0].at).as_nanos()).collect();
            prop_assert_eq!(gaps, &expected);
            prop_assert_eq!((attempt.request, attempt.index), (exchange.request, exchange.query.index));
            prop_assert_eq!(&attempt.request_id, &transcript.request_id);
            let tokens = transcript.usage.map(|usage| (Some(usage.output), usage.cached)).unwrap_or_default();
            prop_assert_eq!((attempt.output_tokens, attempt.cached_tokens), tokens);
            prop_assert_eq!((attempt.session, attempt.attempt), (exchange.session, u64::from(exchange.attempt)));
            let outcome = match exchange.outcome {
                RequestOutcome::Completed => AttemptOutcome::Completed,
                RequestOutcome::Failed { .. } => AttemptOutcome::Failed,
                RequestOutcome::Cancelled => AttemptOutcome::Cancelled,
                RequestOutcome::Lost => AttemptOutcome::Lost,
            };
            prop_assert_eq!((attempt.outcome, attempt.is_retried), (outcome, exchange.is_retried));
            let times = (attempt.scheduled, attempt.sent, attempt.first_token, attempt.end);
            prop_assert_eq!(
                times,
                (Some(exchange.scheduled), Some(exchange.sent), transcript.first_token(), Some(exchange.end))
            );
        }
    }

    #[test]
    fn telemetry_parquet(readings in prop::collection::vec((0_usize..2, 0_i64..1 << 40, float()), 0..60)) {
        let written = timeline(&readings);
        let folder = tempfile::tempdir().unwrap();
        let mut writer = TelemetryWriter::create(folder.path()).unwrap();
        writer.push(3, &written).unwrap();
        writer.finish().unwrap();
        let read = Telemetry::read(folder.path(), &["temperature", "clock_core"]).unwrap();
        for (id, channel) in written.channels() {
            let column = written.column(id).readings();
            let found = read.channels.iter().find(|found| found.signal == channel.signal.to_string());
            let (values, sessions) = found.map_or((Vec::new(), 3), |found| (found.values.clone(), found.session));
            prop_assert_eq!((values, sessions), (column.values.to_vec(), 3));
        }
    }

    #[test]
    fn records(answers in prop::collection::vec(maybe("[^\u{2026}]{0,40}"), 1..20)) {
        let folder = tempfile::tempdir().unwrap();
        write_records(folder.path(), &answers);
        let run = Run::open(folder.path()).unwrap();
        prop_assert_eq!(run.queries.len(), answers.len());
        let all: Vec<usize> = (0..answers.len()).collect();
        let texts = Texts::read(&run, &all, 1000).unwrap();
        for ((index, query), answer) in run.queries.iter().enumerate().zip(&answers) {
            let written = if answer.is_some() { record(index as u64) } else { bare_record(index as u64) };
            let gross = written.ergometer.energy.measured.map(|energy| energy.gross);
            prop_assert_eq!(query.energy.map(|energy| (energy.gross, energy.low, energy.high)),
                gross.map(|gross| (gross.joules, gross.low, gross.high)));
            let attribution = written.ergometer.energy.attribution.map(|found| Attribution {
                share: found.share,
                low: found.low,
                high: found.high,
                prefill_j: found.prefill_j,
                decode_j: found.decode_j,
            });
            prop_assert_eq!(query.attribution, attribution);
            prop_assert_eq!((query.index, query.sent), (index as u64, Some(written.ergometer.sent)));
            prop_assert_eq!((query.end, query.output_tokens),
                (Some(written.ergometer.end), written.model_metrics.tokens.output));
            prop_assert_eq!(query.cached_tokens, written.ergometer.cached_tokens);
            prop_assert_eq!(&texts[&index].response, &answer.clone().unwrap_or_default());
            prop_assert_eq!(&texts[&index].problem, &written.problem);
        }
    }
}
