//! Analyses of synthetic runs with known results, and of runs with little data.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch};
use ergometer_analysis::AnalysisError;
use ergometer_analysis::analyses::{ALL, Findings, Options, find};
use ergometer_diagnostics::Message;
use ergometer_runs::config::Slo;
use ergometer_runs::saved::{Energy, Outcome, Phases, Query, Run};
use ergometer_runs::{EnergySource, ReadError, testing};
use ergometer_units::Timestamp;
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;
use serde_json::{Value, json};

const OURS: [&str; 4] = ["regression", "percentiles", "energy_per_token", "phases"];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs").join(name)
}

fn run_of(queries: Vec<Query>) -> Run {
    Run {
        folder: PathBuf::from("nowhere"),
        summary: testing::summary(json!({})),
        queries,
        subjects: vec![String::new()],
        energy: Some(EnergySource::Measured),
        not_finite: 0,
    }
}

fn analyse(id: &str, run: &Run) -> Findings {
    find(id).unwrap().run(run, &Options::default()).unwrap()
}

/// A query with a fixed cost of 20 ms, 1 ms per input token and 10 ms per output token, at 100 W over 40 W idle power.
fn query(place: u32, input: u64, output: u64) -> Query {
    let (prefill_s, decode_s) = (0.02 + 0.001 * input as f64, 0.01 * output as f64);
    let seconds = prefill_s + decode_s;
    let sent = Timestamp::from_nanos_since_epoch(i64::from(place) * 10_000_000_000);
    #[expect(clippy::cast_possible_truncation, reason = "some seconds")]
    let after = |seconds: f64| {
        Timestamp::from_nanos_since_epoch(i64::from(place) * 10_000_000_000 + (seconds * 1e9).round() as i64)
    };
    Query {
        request: u64::from(place),
        scheduled: Some(sent),
        sent: Some(sent),
        first_token: Some(after(prefill_s)),
        last_token: Some(after(seconds)),
        end: Some(after(seconds)),
        input_tokens: Some(input),
        output_tokens: Some(output),
        ttft_s: Some(prefill_s),
        total_s: Some(seconds),
        gpu_joules: Some(100.0 * seconds),
        gpu_watts: Some(100.0),
        energy: Some(Energy {
            gross: 100.0 * seconds,
            low: 99.0 * seconds,
            high: 101.0 * seconds,
            net: Some(60.0 * seconds),
        }),
        phases: Phases {
            prefill_j: Some(100.0 * prefill_s),
            decode_j: Some(100.0 * decode_s),
            prefill_s: Some(prefill_s),
            decode_s: Some(decode_s),
        },
        ..Query::default()
    }
}

fn varied() -> Vec<Query> {
    (0..60).map(|place| query(place, u64::from(place * 37 % 100) + 1, u64::from(place * 23 % 40) + 2)).collect()
}

fn near(found: &Value, wanted: f64) {
    let found = found.as_f64().unwrap();
    assert!((found - wanted).abs() <= 1e-9 * wanted.abs().max(1.0), "{found} is not {wanted}");
}

#[test]
fn the_cost_per_token_is_recovered() {
    let run = run_of(varied());
    let lines = analyse("regression", &run).data;
    near(&lines["regressions"]["input_tokens_vs_ttft"]["slope"], 0.001);
    near(&lines["regressions"]["input_tokens_vs_ttft"]["intercept"], 0.02);
    near(&lines["regressions"]["input_tokens_vs_ttft"]["r2"], 1.0);
    near(&lines["regressions"]["total_tokens_vs_power"]["avg_y"], 100.0);
    assert_eq!(lines["fits"]["input_tokens_vs_ttft"]["slope_unit"], "s/token");
    assert_eq!(lines["fits"]["total_tokens_vs_gross_energy"]["energy_source"], "measured");
    let phases = analyse("phases", &run).data;
    for (cost, query, input, output) in
        [("time_s", 0.02, 0.001, 0.01), ("gross_energy_j", 2.0, 0.1, 1.0), ("net_energy_j", 1.2, 0.06, 0.6)]
    {
        let found = &phases["by_regression"][cost];
        near(&found["constant"]["value"], query);
        near(&found["per_input_token"]["value"], input);
        near(&found["per_output_token"]["value"], output);
    }
    // By time stamps, the cost per input token includes a part of the fixed cost of a query.
    assert!(phases["by_clock"]["prefill"]["time_s"]["per_token"]["low"].as_f64().unwrap() > 0.001);
    near(&phases["by_clock"]["decode"]["time_s"]["per_token"]["value"], 0.01);
    let input = &phases["comparisons"][0];
    assert_eq!((&input["what"], &input["differ"]), (&json!("seconds per input token"), &json!(true)));
    assert!(input["verdict"].as_str().unwrap().contains("fixed cost of a query"), "{input}");
    let tokens = analyse("energy_per_token", &run).data;
    let of = |place: usize| tokens["by_output_tokens"][place]["gross_j_per_output_token"]["value"].as_f64().unwrap();
    assert!(of(0) > of(1) && of(1) > of(2), "longer answers spread the cost of the prompt");
}

#[test]
fn the_file_has_the_format_of_intelligence_per_watt() {
    let run = Run::open(&fixture("h200_one")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let findings = analyse("regression", &run);
    let at = Run { folder: folder.path().to_path_buf(), ..run };
    let path = findings.write(&at.folder, "regression").unwrap();
    let written: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&written), ["analysis", "summary", "warnings", "data"]);
    assert_eq!(written["summary"], json!({"total_samples": 40}));
    let regressions = &written["data"]["regressions"];
    assert_eq!(
        keys(regressions),
        [
            "input_tokens_vs_ttft",
            "total_tokens_vs_energy",
            "total_tokens_vs_latency",
            "total_tokens_vs_power",
            "total_tokens_vs_power_log"
        ]
    );
    for (_, line) in regressions.as_object().unwrap() {
        assert_eq!(keys(line), ["count", "slope", "intercept", "r2", "avg_y"]);
    }
    assert!(findings.warnings.is_empty(), "{:?}", findings.warnings);
    let failing = analyse("regression", &Run::open(&fixture("mock_limits")).unwrap());
    let failed = "3 of 120 queries failed; a failed query is included in a fit if both of its values are known";
    assert!(failing.warnings.contains(&Message::from(failed)), "{:?}", failing.warnings);
}

#[test]
fn no_slope_is_reported_for_noise_or_a_single_length() {
    // Noise that does not depend on tokens.
    let mut queries = varied();
    for (place, query) in queries.iter_mut().enumerate() {
        query.ttft_s = Some([0.3, 0.1, 0.25, 0.05, 0.2][place * 7 % 5]);
    }
    let fits = analyse("regression", &run_of(queries)).data["fits"].clone();
    let verdict = fits["input_tokens_vs_ttft"]["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("no evidence of a slope"), "{verdict}");

    let same: Vec<Query> = (0..30).map(|place| query(place, 50, 20)).collect();
    let found = analyse("regression", &run_of(same.clone()));
    let line = &found.data["regressions"]["total_tokens_vs_latency"];
    assert_eq!(
        (&line["count"], &line["slope"], &line["intercept"], &line["r2"]),
        (&json!(30), &Value::Null, &Value::Null, &Value::Null)
    );
    near(&line["avg_y"], 0.27);
    assert_eq!(
        found.data["fits"]["total_tokens_vs_latency"]["verdict"],
        "no fit: all queries have the same number of tokens"
    );
    let phases = analyse("phases", &run_of(same)).data;
    assert!(phases["by_regression"]["time_s"]["reason"].as_str().unwrap().contains("the same number of input tokens"));

    let together: Vec<Query> =
        (0..30).map(|place| query(place, 10 + u64::from(place), 20 + u64::from(place))).collect();
    let phases = analyse("phases", &run_of(together)).data;
    assert!(phases["by_regression"]["time_s"]["reason"].as_str().unwrap().contains("too strongly correlated"));
}

#[test]
fn runs_with_little_data_give_warnings() {
    for id in OURS {
        let empty = find(id).unwrap().run(&run_of(Vec::new()), &Options::default());
        assert!(matches!(empty, Err(AnalysisError::Read(ReadError::NoQueries { .. }))), "{id}");
    }
    let failed = Query { outcome: Outcome::Failed, ..Query::default() };
    let run = run_of(vec![failed.clone(), failed]);
    for id in ["percentiles", "energy_per_token", "phases"] {
        let found = analyse(id, &run);
        assert!(found.warnings.iter().any(|warning| warning.text.starts_with("all queries failed")), "{id}: {found:?}");
    }
    assert_eq!(analyse("percentiles", &run).data["ttft_ms"], Value::Null);
    let one = run_of(vec![query(0, 10, 10)]);
    let lines = analyse("regression", &one).data;
    assert_eq!(lines["fits"]["total_tokens_vs_latency"]["verdict"], "no fit: only one query has both values");
    assert_eq!(analyse("percentiles", &one).data["ttft_ms"]["std"], Value::Null);
    let without = Run { energy: None, ..run_of(vec![Query { energy: None, gpu_joules: None, ..query(0, 10, 10) }]) };
    assert!(analyse("energy_per_token", &without).warnings[0].text.contains("no energy"));
    assert_eq!(analyse("regression", &without).data["fits"].get("total_tokens_vs_gross_energy"), None);
    let spoilt = Run { not_finite: 3, ..run_of(varied()) };
    for id in OURS {
        let warnings = analyse(id, &spoilt).warnings;
        assert!(
            warnings.contains(&Message::from("3 numbers in the records are NaN or infinite and are left out")),
            "{id}"
        );
    }
}

#[test]
fn zeros_are_counted_and_left_out_with_skip_zeroes() {
    let zero = Query {
        input_tokens: Some(0),
        output_tokens: Some(0),
        ttft_s: Some(0.0),
        total_s: Some(0.0),
        gpu_joules: Some(0.0),
        gpu_watts: Some(1e-13),
        ..Query::default()
    };
    let run = run_of(vec![zero.clone(), zero]);
    let found = analyse("regression", &run);
    let zeros = [
        "a GPU energy of 0",
        "a GPU power of 0",
        "a TTFT of 0",
        "an E2E latency of 0",
        "0 output tokens",
        "0 input tokens",
        "0 tokens in total",
    ];
    let in_fits = |zero| if zero == "a GPU power of 0" { "of power leave zeros out" } else { "include zeros" };
    assert_eq!(
        found.warnings,
        zeros.map(|zero| Message::new(format!("2 queries have {zero}; fits {}", in_fits(zero))))
    );
    // The file has the wording of intelligence-per-watt.
    let names =
        ["per-query energy", "per-query power", "TTFT", "latency", "completion-token", "prompt-token", "total-token"];
    let in_file = serde_json::to_value(found.artifact("regression")).unwrap();
    let expected = names.map(|name| format!("encountered 2 {name} samples equal to 0.0 in dataset"));
    assert_eq!(in_file["warnings"], json!(expected));
    let power = &found.data["regressions"]["total_tokens_vs_power"];
    assert_eq!((&power["count"], &power["avg_y"]), (&json!(0), &Value::Null));
    let skipping = Options { skip_zeroes: true, ..Options::default() };
    let kept = find("regression").unwrap().run(&run, &skipping).unwrap();
    assert_eq!(kept.data["regressions"], json!({}));
    let mixed = Run { queries: varied().into_iter().map(|query| Query { gpu_watts: None, ..query }).collect(), ..run };
    let kept = find("regression").unwrap().run(&mixed, &skipping).unwrap();
    assert_eq!(kept.data["regressions"].as_object().unwrap().len(), 3, "fits without power are left out");
}

/// A time within nine seconds, or rarely any time.
fn any_time() -> impl Strategy<Value = i64> {
    prop_oneof![20 => 0_i64..9_000_000_000, 1 => any::<i64>()]
}

/// A reading: time, signal and value.
fn any_reading() -> impl Strategy<Value = (i64, &'static str, f64)> {
    let signals =
        ["clock_core", "temperature", "requests_waiting", "power", "power_ring", "energy", "throttle_reasons"];
    (any_time(), prop::sample::select(signals.to_vec()), prop_oneof![0.0..2000.0, any::<f64>()])
}

/// Writes `telemetry.parquet` with these readings, sorted by signal.
fn write_telemetry(folder: &Path, mut readings: Vec<(i64, &'static str, f64)>) {
    readings.sort_by_key(|reading| (reading.1, reading.0));
    let text = |of: &dyn Fn(&'static str) -> &'static str| -> ArrayRef {
        Arc::new(readings.iter().map(|reading| of(reading.1)).collect::<DictionaryArray<Int32Type>>())
    };
    let times: ArrayRef = Arc::new(readings.iter().map(|reading| reading.0).collect::<Int64Array>());
    let values: ArrayRef = Arc::new(readings.iter().map(|reading| reading.2).collect::<Float64Array>());
    let sessions: ArrayRef = Arc::new(Int64Array::from(vec![0; readings.len()]));
    let columns = [
        ("time_ns", times),
        ("session", sessions),
        ("sensor", text(&|_| "nvml")),
        ("device", text(&|_| "gpu:0")),
        ("scope", text(&|_| "device")),
        ("signal", text(&|signal| signal)),
        ("value", values),
        ("unit", text(&|_| "W")),
        ("provenance", text(&|_| "counter")),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = std::fs::File::create(folder.join("telemetry.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// A query with any of its values absent.
fn any_query() -> impl Strategy<Value = Query> {
    let number = || prop::option::of(prop_oneof![Just(0.0), 0.0..10.0, Just(1e308), Just(-1e-300), 1e-9..1e-6]);
    let tokens = || prop::option::of(prop_oneof![0_u64..5, 0_u64..5000, Just(u64::MAX)]);
    let time = || prop::option::of(any_time().prop_map(Timestamp::from_nanos_since_epoch));
    let energy = prop::option::of((0.0..9.0, number()));
    (
        (any::<bool>(), prop::option::of(any::<bool>())),
        [time(), time(), time(), time(), time()],
        [tokens(), tokens(), tokens()],
        [number(), number(), number(), number(), number(), number()],
        energy,
    )
        .prop_map(
            |(
                (fails, correct),
                [scheduled, sent, first_token, last_token, end],
                [input_tokens, output_tokens, total_tokens],
                numbers,
                energy,
            )| Query {
                outcome: if fails { Outcome::Failed } else { Outcome::Completed },
                scheduled,
                sent,
                first_token,
                last_token,
                end,
                correct,
                input_tokens,
                output_tokens,
                total_tokens,
                ttft_s: numbers[0],
                total_s: numbers[1],
                gpu_joules: numbers[2],
                gpu_watts: numbers[3],
                energy: energy.map(|(gross, net)| Energy { gross, low: gross, high: gross, net }),
                phases: Phases {
                    prefill_j: numbers[4],
                    decode_j: numbers[5],
                    prefill_s: numbers[0],
                    decode_s: numbers[1],
                },
                ..Query::default()
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn findings_are_valid_for_any_run(
        queries in prop::collection::vec(any_query(), 1..40), readings in prop::collection::vec(any_reading(), 0..60))
    {
        let folder = tempfile::tempdir().unwrap();
        write_telemetry(folder.path(), readings);
        let queries = queries.into_iter().zip(0..).map(|(query, request)| Query { request, ..query }).collect();
        let run = Run { folder: folder.path().to_path_buf(), ..run_of(queries) };
        let limits = Some(Slo { ttft_s: Some(0.1), e2e_s: Some(1.0), ..Slo::default() });
        for analysis in ALL {
            let id = analysis.id();
            let found = analyse(id, &run);
            prop_assert_eq!(&found, &analyse(id, &run), "the analysis is deterministic");
            let judged = analysis.run(&run, &Options { limits, ..Options::default() });
            prop_assert!(judged.is_ok(), "{}", id);
            let entries = json!({"summary": found.summary, "data": found.data});
            prop_assert!(!entries.to_string().contains("NaN"), "{}: {}", id, entries);
            for table in &found.tables {
                prop_assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{}", &table.id);
                let mut cells = table.rows.iter().flatten();
                prop_assert!(cells.all(|cell| !cell.shown().contains("NaN")), "{}: {:?}", &table.id, &table.rows);
                let mut labels: Vec<String> = table.rows.iter().map(|row| row[0].shown()).collect();
                labels.sort_unstable();
                let is_apart = labels.windows(2).all(|pair| pair[0] != pair[1]);
                prop_assert!(is_apart || !OURS.contains(&id), "row labels are unique: {:?}", labels);
            }
        }
    }
}
