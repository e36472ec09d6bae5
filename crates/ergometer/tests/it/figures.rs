//! Grades, accuracy, cost and hardware utilization.

use ergometer_clients::{FailureKind, ModelFacts};
use ergometer_runs::config::{Prices, RunConfig};
use ergometer_sensors::hardware::peak_of;

use crate::client::{Scripted, Step, answer};
use crate::dataset::Questions;
use crate::rig::{Rig, assert_near, closed, config};
use crate::sensors::{blind, whole};
use crate::table::Table;

/// Correct on 10 and 12, wrong on 11 and 14, failed on 13.
fn pupil() -> Scripted {
    Scripted::new(|index| match index {
        0 => answer("10", 20),
        2 => answer("12", 20),
        3 => vec![Step::Say("13"), Step::Fail(FailureKind::MidStream, "gone")],
        _ => answer("99", 20),
    })
}

#[tokio::test]
async fn answers_are_graded_and_counted_by_subject() {
    let rig = Rig::new();
    let run = closed(rig.run(config(), Questions::new(5), pupil(), whole()).await);
    let accuracy = run.summary.accuracy.as_ref().unwrap();
    assert_eq!((accuracy.grader.as_str(), accuracy.correct, accuracy.graded), ("exact", 2, 5));
    assert_near(accuracy.rate.value, 0.4, 1e-12);
    assert!(accuracy.rate.low.unwrap() < 0.4 && 0.4 < accuracy.rate.high.unwrap());
    let by_subject: Vec<_> =
        accuracy.by_subject.iter().map(|(subject, found)| (subject.as_str(), found.correct, found.graded)).collect();
    assert_eq!(by_subject, [("even", 2, 3), ("odd", 0, 2)]);
    let table = Table::read(&rig.folder());
    let correct = [Some(true), Some(false), Some(true), Some(false), Some(false)];
    assert_eq!(table.booleans("model_metrics/*/lm_correctness"), correct);
    assert_eq!(table.booleans("ergometer/grade/correct"), correct);
    assert_eq!(table.texts("answer")[3], Some(String::from("13")));
    let totals = run.summary.energy.measured.as_ref().unwrap();
    let per_joule = run.summary.intelligence.as_ref().unwrap().per_joule.value;
    assert_near(per_joule, 2.0 / totals.gross_j.value, 1e-9);
    let per_watt = run.summary.intelligence.as_ref().unwrap().per_watt.unwrap().value;
    assert_near(per_watt, 0.4 / (totals.gross_j.value / run.summary.duration_s), 1e-9);
}

#[tokio::test]
async fn the_configured_grader_is_used() {
    let rig = Rig::new();
    let config = |grader: &str| RunConfig { grader: Some(grader.parse().unwrap()), ..config() };
    let chatty = || Scripted::new(|_| answer("the total is 10.0, I think", 1));
    let run = closed(rig.run(config("numeric"), Questions::new(2), chatty(), blind()).await);
    assert_eq!((run.summary.accuracy.unwrap().correct, Table::read(&rig.folder()).rows()), (1, 2));
    let rig = Rig::new();
    let run = closed(rig.run(config("none"), Questions::new(2), chatty(), blind()).await);
    assert!(run.summary.accuracy.is_none() && run.summary.intelligence.is_none());
    let table = Table::read(&rig.folder());
    assert!(table.is_absent("model_metrics/*/lm_correctness") && table.is_absent("ergometer/grade/grader"));
}

#[tokio::test]
async fn cost_is_tokens_times_prices() {
    let rig = Rig::new();
    let prices = Prices { input_usd_per_million: Some(3.0), output_usd_per_million: Some(15.0) };
    let run = closed(rig.run(RunConfig { prices, ..config() }, Questions::new(5), pupil(), blind()).await);
    let table = Table::read(&rig.folder());
    let cost = |name: &str| table.floats(&format!("model_metrics/*/cost/{name}"));
    // Ten input and two output tokens; failed requests have no token counts.
    assert_near(cost("input_cost_usd")[0].unwrap(), 10.0 * 3e-6, 1e-9);
    assert_near(cost("output_cost_usd")[0].unwrap(), 2.0 * 15e-6, 1e-9);
    assert_near(cost("total_cost_usd")[0].unwrap(), 60e-6, 1e-9);
    assert_eq!((cost("total_cost_usd")[3], cost("tool_cost_usd")[0]), (None, None));
    assert_near(run.summary.cost_usd.unwrap(), 4.0 * 60e-6, 1e-9);
    assert_eq!((run.summary.tokens.input, run.summary.tokens.output), (Some(40), Some(8)));
    let free = Rig::new();
    let run = closed(free.run(config(), Questions::new(1), pupil(), blind()).await);
    assert!(
        run.summary.cost_usd.is_none() && Table::read(&free.folder()).is_absent("model_metrics/*/cost/total_cost_usd")
    );
}

#[tokio::test]
async fn utilization_matches_values_computed_by_hand() {
    let rig = Rig::new();
    let weights = 16e9;
    let facts = ModelFacts { weight_bytes: Some(16_000_000_000), ..ModelFacts::default() };
    let client = Scripted { facts, ..Scripted::new(|_| answer("10", 30)) };
    let large = RunConfig { model_parameters: Some(8_000_000_000), ..config() };
    let run = closed(rig.run(large, Questions::new(2), client, whole()).await);
    assert_eq!(run.summary.gpu_info.as_ref().unwrap().name, "NVIDIA H200");
    assert_eq!(run.summary.hardware_label, "H200");
    let peak = peak_of("NVIDIA H200").unwrap();
    let table = Table::read(&rig.folder());
    let metric = |path: &str| table.floats(&format!("model_metrics/*/{path}"))[0].unwrap();
    let flops = 2.0 * 8e9 * 12.0;
    assert_near(metric("compute_metrics/flops_per_request"), flops, 1e-12);
    assert_near(metric("compute_metrics/macs_per_request"), flops / 2.0, 1e-12);
    assert_near(metric("compute_metrics/flops_per_token"), 16e9, 1e-12);
    let seconds = metric("latency_metrics/total_query_seconds");
    assert_near(metric("hardware_utilization/derived/mfu"), flops / (seconds * peak.fp16_flop_per_s), 1e-6);
    let decode = metric("phase_metrics/decode_duration_ms") / 1e3;
    assert_near(metric("hardware_utilization/derived/mbu"), weights / (decode * peak.memory_bytes_per_s), 1e-6);
    assert_near(metric("hardware_utilization/derived/arithmetic_intensity"), flops / (2.0 * weights), 1e-6);

    let unknown = Rig::new();
    closed(unknown.run(config(), Questions::new(1), pupil(), whole()).await);
    let table = Table::read(&unknown.folder());
    for path in
        ["hardware_utilization/derived/mfu", "hardware_utilization/derived/mbu", "compute_metrics/flops_per_request"]
    {
        assert!(table.is_absent(&format!("model_metrics/*/{path}")), "{path} of a model without facts");
    }
}
