//! Any content of the JSON files of a run.

use std::collections::BTreeMap;

use ergometer_clients::FailureKind;
use ergometer_statistics::{Distribution, Estimate, Likelihood};
use ergometer_telemetry::{DeviceId, Provenance, Scope};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{failure_kind, float, maybe};
use crate::cost_model::{Coefficients, CostModel, CostModels, Evidence, Work};
use crate::load_over_time::{BinTail, LoadBin, LoadOverTime, SessionSpan};
use crate::summary::{
    Accuracy, BalanceSummary, DeviceSummary, EnergyTotals, IntelligenceSummary, JudgeSummary, SubjectAccuracy,
};
use crate::{Closing, EnergySource, Summary, testing};

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
    prop::collection::btree_map(failure_kind(), any::<u64>(), 0..4)
}

pub(super) fn summary() -> impl Strategy<Value = Summary> {
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

fn likelihood() -> impl Strategy<Value = Likelihood> {
    (prop::collection::vec(float(), 4), prop::collection::vec(float(), 2), float()).prop_map(
        |(products, two, slack)| {
            serde_json::from_value(json!({"products": products, "targets": two, "best": two, "slack": slack})).unwrap()
        },
    )
}

fn coefficients() -> impl Strategy<Value = Coefficients> {
    let fit = (maybe(float()), maybe(float()), 0_usize..1000, float());
    let likelihoods = prop::collection::vec(likelihood(), 0..3);
    (work(), prop::collection::vec(work(), 0..4), likelihoods, fit).prop_map(
        |(least_squares, draws, likelihoods, (r2, r2_out_of_sample, observations, load_range))| Coefficients {
            least_squares,
            draws,
            likelihoods,
            r2,
            r2_out_of_sample,
            observations,
            load_range,
        },
    )
}

pub(super) fn cost_models() -> impl Strategy<Value = CostModels> {
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

pub(super) fn load_over_time() -> impl Strategy<Value = LoadOverTime> {
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
