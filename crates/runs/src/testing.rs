//! Builds summaries, configurations, identities and cost models for tests. For a summary or a configuration, a test gives the
//! fields it needs, and the other required fields are added.

use ergometer_clients::ModelFacts;
use ergometer_telemetry::{DeviceId, Scope};
use serde_json::{Map, Value, json};

use crate::Summary;
use crate::config::RunConfig;
use crate::cost_model::{Coefficients, CostModel, CostModels, Evidence};
use crate::sweep::Identity;

/// Builds a summary with these fields. Missing fields of a given part (a latency, the load, energy totals) are added.
///
/// # Panics
/// If the fields are not valid in a summary.
#[must_use]
pub fn summary(fields: Value) -> Summary {
    let mut summary = fields;
    complete(&mut summary);
    Summary::from_value(summary).expect("the fields make a summary")
}

/// Builds a configuration with these fields.
///
/// # Panics
/// If the fields are not valid in a configuration.
#[must_use]
pub fn config(fields: Value) -> RunConfig {
    let mut fields = fields;
    fields.as_object_mut().into_iter().for_each(complete_config);
    serde_json::from_value(fields).expect("the fields make a configuration")
}

/// The identity of the runs of a sweep.
#[must_use]
pub fn identity() -> Identity {
    Identity {
        hardware_label: String::from("H200"),
        model: String::from("m"),
        model_facts: ModelFacts::default(),
        dataset: String::from("builtin"),
        dataset_fingerprint: String::from("abc"),
    }
}

/// Cost models of GPU 0: 16 mJ per prompt token and 800 mJ per prompt, of which one is traded for the other; 1.4 J per
/// decode step, 40 mJ per sequence, and 20 µJ per token of context, of which the interval reaches zero.
#[must_use]
pub fn cost_models() -> CostModels {
    // Values from -0.98 to 0.98, in three orders that are not correlated.
    let part = |number: u32, factor: u32| 0.02 * f64::from((number * factor) % 99) - 0.98;
    let draw = |number: u32| {
        let (one, two, three) = (part(number, 1), part(number, 37), part(number, 61));
        let (prompt_token, prompt) = (0.016 * (1.0 + 0.05 * one), 0.8 * (1.0 - 0.9 * one));
        [prompt_token, prompt, 1.4 * (1.0 + 0.05 * two), 0.04, 2e-5 * (1.0 + three), 0.0]
    };
    let shares = Coefficients {
        least_squares: draw(49),
        draws: (0..99).map(draw).collect(),
        likelihoods: Vec::new(),
        r2: Some(0.988),
        r2_out_of_sample: Some(0.984),
        observations: 180,
        load_range: 16.0,
    };
    let prices = shares.clone();
    let model = CostModel { device: DeviceId::gpu(0), scope: Scope::Device, summed: true, shares, prices };
    CostModels { evidence: Evidence::Arrivals, runs: Vec::new(), calibration_s: 6.0, lag_ms: 4.0, models: vec![model] }
}

/// Adds the required fields of each part of a summary.
fn complete(summary: &mut Value) {
    for part in ["load", "latency"] {
        if let Some(part) = summary.get_mut(part).and_then(Value::as_object_mut) {
            complete_latencies(part);
        }
    }
    if let Some(load) = summary.get_mut("load").and_then(Value::as_object_mut) {
        add(load, json!({"mode": "concurrency", "duration_s": 1.0, "completed": 0}));
        complete_in_flight(load);
        if let Some(steady) = load.get_mut("steady_state").and_then(Value::as_object_mut) {
            complete_latencies(steady);
            complete_in_flight(steady);
            add(steady, json!({"mode": "concurrency", "duration_s": 1.0, "completed": 0}));
            if let Some(energy) = steady.get_mut("energy").and_then(Value::as_object_mut) {
                add(energy, json!({"gross_j": {"value": 1.0}, "mean_power_w": 1.0, "energy": "measured"}));
            }
        }
    }
    for source in ["measured", "modelled"] {
        if let Some(totals) = summary.pointer_mut(&format!("/energy/{source}")).and_then(Value::as_object_mut) {
            let zero = json!({"value": 0.0});
            add(totals, json!({"gross_j": zero, "mean_power_w": 0.0, "gross_j_per_query": zero}));
        }
    }
    if let Some(config) = summary.get_mut("profiler_config").and_then(Value::as_object_mut) {
        complete_config(config);
    }
    if let Some(accuracy) = summary.get_mut("accuracy").and_then(Value::as_object_mut) {
        add(accuracy, json!({"grader": "exact", "correct": 0, "graded": 1, "rate": {"value": 0.0}}));
    }
    if let Some(server) = summary.get_mut("server").and_then(Value::as_object_mut) {
        add(server, json!({"software": "", "metrics_url": ""}));
    }
}

fn complete_config(config: &mut Map<String, Value>) {
    add(config, json!({"dataset": {"id": "builtin"}, "client": {"id": "openai", "model": "m"}}));
    add(config, json!({"request": {"seed": 0}, "schedule": {"mode": "concurrency", "concurrency": 1}}));
    add(config, json!({"warmup": 0, "idle_s": 0.0, "devices": [], "prices": {}}));
    add(config, json!({"server_is_local": false, "model_cpu": true}));
}

fn complete_latencies(part: &mut Map<String, Value>) {
    for (name, latency) in part {
        if let Some(latency) = latency.as_object_mut().filter(|_| name.ends_with("_ms")) {
            let middle = latency.get("p50").cloned().unwrap_or(json!(0.0));
            add(latency, json!({"count": 1000, "mean": middle, "min": middle, "max": middle, "p50": middle}));
            add(latency, json!({"p90": middle, "p95": middle}));
        }
    }
}

fn complete_in_flight(part: &mut Map<String, Value>) {
    if let Some(in_flight) = part.get_mut("in_flight").and_then(Value::as_object_mut) {
        add(in_flight, json!({"mean": 1.0, "max": 1}));
    }
    if let Some(goodput) = part.get_mut("goodput").and_then(Value::as_object_mut) {
        add(goodput, json!({"requests_per_second": 0.0, "share": 0.0, "good": 0}));
    }
}

/// Adds the fields that are missing.
fn add(object: &mut Map<String, Value>, fields: Value) {
    let Value::Object(fields) = fields else { return };
    for (name, value) in fields {
        object.entry(name).or_insert(value);
    }
}
