use ergometer_runs::EnergySource;
use ergometer_runs::cost_model::{CostModel, RequestShape};
use ergometer_runs::testing::cost_models;
use ergometer_telemetry::DeviceId;
use tempfile::TempDir;

use super::super::example;
use super::*;

/// A run with measured energy in a folder with these models.
fn run_with(models: Option<&CostModels>) -> (TempDir, Run) {
    let folder = tempfile::tempdir().unwrap();
    if let Some(models) = models {
        models.write(folder.path()).unwrap();
    }
    let summary = json!({"energy": {"measured": {"net_j": {"value": 1.0}}}, "attribution": {"method": "arrivals"},
        "load": {"in_flight": {"max": 16}}});
    let run = example::with_summary(vec![example::query(0)], &[""], summary);
    let run = Run { folder: folder.path().to_path_buf(), energy: Some(EnergySource::Measured), ..run };
    (folder, run)
}

fn predicting(concurrency: f64) -> Options {
    let shape = RequestShape { input: 1000.0, output: 201.0, concurrency };
    Options { predict: vec![shape], ..Options::default() }
}

fn close(one: &Value, other: f64) -> bool {
    one.as_f64().is_some_and(|one| (one / other - 1.0).abs() < 1e-6)
}

#[test]
fn costs_have_intervals_and_what_cannot_be_separated_is_named() {
    let (_folder, run) = run_with(Some(&cost_models()));
    let found = CostModelAnalysis.run(&run, &Options::default()).unwrap();
    let costs = &found.data["costs"];
    assert!(close(&costs["j_per_prompt_token"]["value"], 0.016), "{costs}");
    assert!(close(&costs["j_per_1000_context_tokens"]["value"], 0.02), "{costs}");
    let (low, high) = (costs["j_per_decode_step"]["low"].as_f64(), costs["j_per_decode_step"]["high"].as_f64());
    assert!(low.is_some_and(|low| (1.33..1.35).contains(&low)) && high.is_some_and(|high| high > 1.45), "{costs}");
    assert_eq!(found.data["inseparable"], json!([["prompt_token", "prompt"]]));
    assert_eq!(found.data["may_be_near_zero"], json!(["context"]));
    assert_eq!(found.data["devices"][0]["r2_out_of_sample"], json!(0.984));
    assert_eq!(found.data.get("predictions"), None);
    let hints: Vec<Option<String>> = found.warnings.iter().map(Message::command_line_hint).collect();
    assert_eq!(
        hints,
        [
            Some(String::from("add requests with more varied prompt lengths")),
            Some(String::from("add requests with more varied lengths of prompts and answers")),
        ]
    );
}

#[test]
fn a_request_shape_has_a_price() {
    let (_folder, run) = run_with(Some(&cost_models()));
    let found = CostModelAnalysis.run(&run, &predicting(10.0)).unwrap();
    let price = &found.data["predictions"][0];
    // Prefill: 1000 x 16 mJ + 0.8 J. Decode: 20 steps, 200 sequences, and 200 x 1000 + 200 x 201 / 2 tokens of context.
    assert!(close(&price["prefill_j"]["value"], 16.8), "{price}");
    let decode = 20.0 * 1.4 + 200.0 * 0.04 + 220_100.0 * 2e-5;
    assert!(close(&price["decode_j"]["value"], decode), "{price}");
    assert!(close(&price["net_j_per_request"]["value"], 16.8 + decode), "{price}");
    assert!(close(&price["prefill_j_per_input_token"]["value"], 0.0168), "{price}");
    assert!(close(&price["decode_j_per_output_token"]["value"], decode / 201.0), "{price}");
    assert!(close(&price["net_kwh_per_1000_requests"]["value"], (16.8 + decode) / 3600.0), "{price}");
    let warning = "concurrency 64 is above the highest load that the model was fitted to (16 in flight)";
    let is_warned = |load: f64| {
        let found = CostModelAnalysis.run(&run, &predicting(load)).unwrap();
        found.warnings.iter().any(|found| found.text.starts_with(warning))
    };
    assert!(is_warned(64.0) && !is_warned(16.0));
}

#[test]
fn a_price_counts_all_devices() {
    let mut models = cost_models();
    models.models.push(CostModel { device: DeviceId::gpu(1), ..models.models[0].clone() });
    models.runs = vec![String::from("a"), String::from("b")];
    let (_folder, run) = run_with(Some(&models));
    let found = CostModelAnalysis.run(&run, &predicting(99.0)).unwrap();
    assert!(close(&found.data["predictions"][0]["prefill_j"]["value"], 33.6));
    assert!(
        !found.warnings.iter().any(|warning| warning.text.contains("extrapolation")),
        "the loads of a and b are unknown"
    );
    let fit: Vec<String> = found.tables[1].rows.iter().map(|row| row[0].shown()).collect();
    assert!(fit.contains(&String::from("R² out of sample, gpu:1 device")), "{fit:?}");
}

#[test]
fn a_run_without_a_model_says_why() {
    let (_folder, mut run) = run_with(None);
    let why = |run: &Run| {
        let found = CostModelAnalysis.run(run, &Options::default()).unwrap();
        assert!(found.tables.is_empty());
        (found.warnings[0].text.clone(), found.warnings[0].command_line_hint().unwrap())
    };
    let (text, hint) = why(&run);
    assert!(text.contains("requests did not overlap") && hint.contains("`ergo attribute RUN…`"), "{text} {hint}");
    run.summary.attribution.as_mut().unwrap().methods.insert(String::from("equal_share"), 3);
    assert!(why(&run).0.contains("the run is too short"));
    run.summary.attribution = None;
    assert!(why(&run).1.contains("ergo finalize"));
    run.summary.energy.measured.as_mut().unwrap().net_j = None;
    assert!(why(&run).0.contains("idle power is unknown"));
    run.energy = None;
    assert!(why(&run).0.contains("no energy values"));
    let error = CostModelAnalysis.run(&run, &predicting(1.0)).unwrap_err();
    assert!(error.to_string().starts_with("no cost model"), "a prediction needs the model");
}

#[test]
fn a_damaged_model_is_a_warning_unless_it_is_needed() {
    let (folder, run) = run_with(None);
    std::fs::write(folder.path().join("cost_model.json"), "{").unwrap();
    let found = CostModelAnalysis.run(&run, &Options::default()).unwrap();
    assert!(found.tables.is_empty() && found.data.is_empty());
    let [warning] = &found.warnings[..] else { panic!("{:?}", found.warnings) };
    assert!(warning.text.starts_with("no cost model: ") && warning.text.contains("cost_model.json is damaged"));
    assert!(warning.command_line_hint().unwrap().contains("ergo finalize"));
    let error = CostModelAnalysis.run(&run, &predicting(1.0)).unwrap_err();
    assert!(matches!(error, AnalysisError::Read(_)), "{error}");
}
