//! The joules of single requests against a reference from the engine's step log (`fixtures/serving`).

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use ergometer::close::{CloseError, attribute, close, import_engine_log};
use flate2::read::GzDecoder;
use serde_json::Value;
use tempfile::TempDir;

use crate::table::Table;

const RUNS: [&str; 3] = ["one", "four", "sixteen"];

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/serving")
}

/// Copies of the recorded journals.
fn copies() -> (TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let copies = RUNS.map(|name| {
        let copy = folder.path().join(name);
        copy_journal(name, &copy);
        copy
    });
    (folder, copies.to_vec())
}

/// Copies the journal of a recorded run.
pub(crate) fn copy_journal(name: &str, run: &Path) {
    fs::create_dir_all(run.join("journal")).unwrap();
    for entry in fs::read_dir(fixtures().join(name).join("journal")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, run.join("journal").join(path.file_name().unwrap())).unwrap();
    }
}

/// Replaces text in the manifest of a run.
pub(crate) fn edit_manifest(run: &Path, from: &str, to: &str) {
    let path = run.join("journal/run.json");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(&path, text.replace(from, to)).unwrap();
}

/// The log of the engine.
fn engine_log() -> String {
    let mut steps = String::new();
    let compressed = fs::File::open(fixtures().join("steps.jsonl.gz")).unwrap();
    GzDecoder::new(compressed).read_to_string(&mut steps).unwrap();
    steps
}

fn truth(name: &str) -> Vec<f64> {
    let truth: Value = serde_json::from_slice(&fs::read(fixtures().join("truth.json")).unwrap()).unwrap();
    truth["shares"][name].as_array().unwrap().iter().map(|joules| joules.as_f64().unwrap()).collect()
}

/// The median relative error, and the smallest share of requests of one kind whose interval holds the truth.
fn errors(run: &Path) -> (f64, f64) {
    let truth = truth(run.file_name().unwrap().to_str().unwrap());
    let table = Table::read(run);
    let column = |name: &str| table.floats(&format!("ergometer/energy/attribution/{name}"));
    let (share, low, high) = (column("share"), column("low"), column("high"));
    let requests = table.integers("ergometer/request");
    let kinds = table.integers("model_metrics/random-8b/token_metrics/input");
    let mut errors = Vec::new();
    let mut covered = std::collections::BTreeMap::new();
    for row in 0..table.rows() {
        let truth = truth[usize::try_from(requests[row].unwrap()).unwrap()];
        errors.push((share[row].unwrap() / truth - 1.0).abs());
        let counts: &mut (u32, u32) = covered.entry(kinds[row]).or_default();
        counts.0 += u32::from(low[row].unwrap() <= truth && truth <= high[row].unwrap());
        counts.1 += 1;
    }
    assert_eq!(covered.len(), 3, "three kinds of requests");
    errors.sort_by(f64::total_cmp);
    let least = covered.values().map(|&(inside, of)| f64::from(inside) / f64::from(of)).fold(1.0, f64::min);
    (errors[errors.len() / 2], least)
}

/// Requests + idle + unattributed = meter, and the shares sum to the net energy of the requests.
fn assert_balanced(run: &Path) {
    let summary: Value = serde_json::from_slice(&fs::read(run.join("summary.json")).unwrap()).unwrap();
    let measured = &summary["energy"]["measured"];
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{measured}"));
    let balance = &measured["balance"];
    let parts = ["requests_j", "idle_j", "unattributed_j"].iter().map(|part| number(&balance[*part])).sum::<f64>();
    assert!((parts - number(&balance["meter_j"])).abs() < 1e-6 * parts);
    let table = Table::read(run);
    let gross: f64 = table.floats("ergometer/energy/measured/gross/joules").into_iter().flatten().sum();
    let unrecorded = number(&balance["unrecorded_j"]) + number(&balance["retried_j"]);
    assert!((gross + unrecorded - number(&balance["requests_j"])).abs() < 1e-6 * gross, "{gross} {balance}");
    let net: f64 = table.floats("ergometer/energy/attribution/share").into_iter().flatten().sum();
    assert!((net - number(&summary["attribution"]["share"])).abs() < 1e-6 * net);
    let phases = ["prefill_j", "decode_j"].map(|phase| number(&summary["attribution"][phase]));
    assert!((phases[0] + phases[1] - net).abs() < 1e-6 * net && phases[0] > 0.0 && phases[1] > 0.0);
}

fn assert_close_to_truth(runs: &[PathBuf], limits: [f64; 3], method: &str) {
    for (run, limit) in runs.iter().zip(limits) {
        let (median, covered) = errors(run);
        println!(
            "{method} {}: median error {:.1} %, interval holds {:.0} %",
            run.display(),
            median * 1e2,
            covered * 1e2
        );
        assert!(median <= limit, "{}: {median}", run.display());
        assert!(covered >= 0.9, "{}: {covered}", run.display());
        assert_balanced(run);
        let methods = Table::read(run).texts("ergometer/energy/attribution/method");
        assert!(methods.iter().all(|found| found.as_deref() == Some(method)), "{methods:?}");
    }
}

#[test]
fn requests_in_a_batch_have_the_joules_of_the_step_log() {
    let (_folder, runs) = copies();
    for run in &runs {
        close(run).unwrap();
    }
    assert_close_to_truth(&runs, [0.03, 0.03, 0.05], "arrivals");
    attribute(&runs, None).unwrap();
    assert_close_to_truth(&runs, [0.02, 0.03, 0.05], "arrivals");
    let model: Value = serde_json::from_slice(&fs::read(runs[0].join("cost_model.json")).unwrap()).unwrap();
    assert_eq!(model["runs"], serde_json::json!(RUNS));
    // The model of all runs stays when a run is closed again, and goes when the run is fitted to itself.
    let before = fs::read(runs[2].join("requests.parquet")).unwrap();
    close(&runs[2]).unwrap();
    assert_eq!(fs::read(runs[2].join("requests.parquet")).unwrap(), before);
    attribute(&runs[2..], None).unwrap();
    assert_ne!(fs::read(runs[2].join("requests.parquet")).unwrap(), before);
}

#[test]
fn an_engine_log_gives_the_steps() {
    let (folder, runs) = copies();
    let log = folder.path().join("steps.jsonl");
    let steps = engine_log();
    fs::write(&log, &steps).unwrap();
    attribute(&runs, Some(&fixtures().join("steps.jsonl.gz"))).unwrap();
    let compressed = fs::read(runs[0].join("requests.parquet")).unwrap();
    attribute(&runs, Some(&log)).unwrap();
    assert_eq!(fs::read(runs[0].join("requests.parquet")).unwrap(), compressed, "a compressed log gives the same");
    // The reference includes one more run, at 64 in flight.
    assert_close_to_truth(&runs, [0.02, 0.02, 0.04], "step_log");
    // A log of other requests is not used, and the run says why.
    let other = steps.replace("\"tokens\": 64", "\"tokens\": 65");
    fs::write(&log, other.replace("\"tokens\": 768", "\"tokens\": 769")).unwrap();
    let closed = attribute(&runs[2..], Some(&log)).unwrap();
    let warning = closed[0].warnings.iter().map(ToString::to_string).find(|text| text.contains("engine log"));
    assert!(warning.unwrap().contains("of the 300 requests"), "{:?}", closed[0].warnings);
    assert_eq!(closed[0].summary.attribution.as_ref().unwrap().method, "arrivals");
    assert!(matches!(attribute(&runs[..1], Some(&folder.path().join("none"))), Err(CloseError::EngineLog { .. })));
}

#[test]
fn runs_that_do_not_belong_together_are_refused() {
    let (folder, runs) = copies();
    let log = folder.path().join("steps.jsonl");
    fs::write(&log, engine_log()).unwrap();
    attribute(&runs[..1], None).unwrap();
    let files = || {
        let journal = fs::read_dir(runs[0].join("journal")).unwrap().map(|entry| entry.unwrap());
        let mut names: Vec<_> = journal.map(|entry| entry.file_name()).collect();
        names.sort();
        (names, fs::read(runs[0].join("summary.json")).unwrap())
    };
    let before = files();
    let refused = |runs: &[PathBuf]| {
        let error = attribute(runs, Some(&log)).unwrap_err();
        assert_eq!(files(), before, "no run is changed if another is refused");
        error.to_string()
    };
    assert!(refused(&[runs[0].clone(), runs[0].clone()]).contains("given twice"));
    edit_manifest(&runs[1], "\"hardware_label\": \"H200\"", "\"hardware_label\": \"H100\"");
    let error = refused(&runs[..2]);
    assert!(error.ends_with("the hardware differs: H200 and H100"), "{error}");
    edit_manifest(&runs[1], "\"is\": \"this_machine\"", "\"is\": \"elsewhere\", \"host\": \"far.example\"");
    let error = refused(&runs[..2]);
    assert!(error.contains("its server is on far.example"), "{error}");
    let sixteen = [runs[0].clone(), runs[2].clone()];
    fs::write(runs[2].join("journal/session-0.events.jsonl"), "").unwrap();
    assert!(refused(&sixteen).contains("no request of"));
}

/// A run can be closed with a log after it was fitted together with runs that have none.
#[test]
fn a_log_replaces_the_model_of_several_runs() {
    let (folder, runs) = copies();
    let log = folder.path().join("steps.jsonl");
    let steps = engine_log();
    attribute(&runs[..2], None).unwrap();
    let method = |run: &Path| close(run).unwrap().summary.attribution.unwrap();
    // A log that does not match keeps the model.
    fs::write(&log, steps.replace("\"tokens\": 64", "\"tokens\": 65").replace("\"tokens\": 768", "\"tokens\": 769"))
        .unwrap();
    import_engine_log(&runs[0], &log).unwrap();
    let found = method(&runs[0]);
    assert_eq!((found.method.as_str(), found.cost_model.unwrap().runs.len()), ("arrivals", 2));
    fs::write(&log, &steps).unwrap();
    import_engine_log(&runs[0], &log).unwrap();
    let found = method(&runs[0]);
    assert_eq!((found.method.as_str(), found.cost_model.unwrap().runs.len()), ("step_log", 0));
    assert_close_to_truth(&runs[..1], [0.03; 3], "step_log");
    // A model that was fitted to such logs stays.
    attribute(&runs[..2], Some(&log)).unwrap();
    import_engine_log(&runs[0], &log).unwrap();
    assert_eq!(method(&runs[0]).cost_model.unwrap().runs, RUNS[..2]);
}

/// The steps of the log, with one sequence of another client in each decode step.
fn with_another_client(steps: &str) -> String {
    let shared =
        steps.replace("\"requests\": [", "\"requests\": [\"other\", ").replace("\"context\": [", "\"context\": [500, ");
    assert_ne!(shared, steps);
    shared
}

#[test]
fn energy_of_other_clients_in_the_log_is_in_no_share() {
    let (folder, runs) = copies();
    let log = folder.path().join("steps.jsonl");
    fs::write(&log, with_another_client(&engine_log())).unwrap();
    for run in &runs[1..] {
        let closed = attribute(std::slice::from_ref(run), Some(&log)).unwrap();
        let measured = closed[0].summary.energy.measured.as_ref().unwrap();
        let (share, net) = (closed[0].summary.attribution.as_ref().unwrap().share, measured.net_j.unwrap().value);
        assert!(share < 0.98 * net, "{share} of {net}");
        assert!((measured.balance.unrecorded_j - (net - share)).abs() < 0.01 * net, "{:?}", measured.balance);
        assert_balanced(run);
    }
}

/// Changes the readings of a recorded run: `generated` multiplies the server's count of generated tokens, and its prefix
/// cache had `hits` per second.
fn edit_readings(run: &Path, generated: f64, hits: f64) {
    let path = run.join("journal/session-0.readings.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let header: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let channels: Vec<&str> = header["sensors"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|sensor| sensor["channels"].as_array().unwrap())
        .map(|channel| channel["signal"].as_str().unwrap())
        .collect();
    let place = |signal: &str| channels.iter().position(|known| *known == signal).unwrap();
    let (generation, cache) = (place("generation_tokens"), place("prefix_cache_hits"));
    let start = format!("[{generation},");
    let mut lines: Vec<String> = Vec::new();
    // The last line has the number of readings, which changes.
    let count = text.lines().count();
    for line in text.lines().take(count - 1) {
        let Some(rest) = line.strip_prefix(&start) else {
            lines.push(line.to_owned());
            continue;
        };
        let rest: Vec<&str> = rest.trim_end_matches(']').split(',').collect();
        let value: f64 = rest[2].parse().unwrap();
        let count = lines.iter().filter(|line| line.starts_with(&start)).count() as f64;
        lines.push(format!("[{generation},{},{},{:.1}]", rest[0], rest[1], value * generated));
        lines.push(format!("[{cache},{},{},{:.1}]", rest[0], rest[1], count * hits));
    }
    fs::write(&path, lines.join("\n") + "\n").unwrap();
}

#[test]
fn what_the_server_did_unseen_widens_the_intervals() {
    let width = |run: &Path, doubt: &str| {
        let closed = close(run).unwrap();
        let texts: Vec<String> = closed.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(texts.iter().any(|text| text.contains(doubt)), !doubt.is_empty() && doubt != "absent", "{texts:?}");
        let found = closed.summary.attribution.unwrap();
        assert_eq!(found.method, "arrivals");
        assert_balanced(run);
        (found.low / found.share, found.high / found.share)
    };
    let (_folder, runs) = copies();
    edit_readings(&runs[1], 1.0, 0.0);
    let plain = width(&runs[1], "absent");
    let (_folder, runs) = copies();
    edit_readings(&runs[1], 2.0, 0.0);
    let others = width(&runs[1], "of which");
    assert!(
        others.0 < 0.55 && others.1 > plain.1,
        "half of the tokens are of another client: {others:?}, not {plain:?}"
    );
    let (_folder, runs) = copies();
    edit_readings(&runs[1], 1.0, 1000.0);
    let cached = width(&runs[1], "from its cache");
    assert!(cached.0 < 0.9 * plain.0 && cached.1 > 1.1 * plain.1, "{cached:?}, not {plain:?}");
}
