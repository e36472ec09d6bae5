//! `ergo attribute`, and `--engine-log` of `ergo finalize` and `ergo profile`, with recorded runs (`fixtures/serving`).

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use ergometer_clients::ModelFacts;
use ergometer_runs::config::{RunConfig, Schedule};
use ergometer_runs::sweep::{Identity, Sweep};
use flate2::read::GzDecoder;
use serde_json::Value;
use tempfile::TempDir;

use super::mock_server::Server;
use super::profile::{json, run_in};
use super::{assert_fails, ergo, stderr, stdout};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/serving")
}

/// Copies the journal of a recorded run.
fn copy_run(name: &str, run: &Path) {
    fs::create_dir_all(run.join("journal")).unwrap();
    for entry in fs::read_dir(fixtures().join(name).join("journal")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, run.join("journal").join(path.file_name().unwrap())).unwrap();
    }
}

/// Copies of the runs at 1 and 4 in flight, and the log of their server.
fn recorded() -> (TempDir, [PathBuf; 2], PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let runs = ["one", "four"].map(|name| {
        let run = folder.path().join(name);
        copy_run(name, &run);
        run
    });
    let log = folder.path().join("steps.jsonl");
    let mut steps = Vec::new();
    GzDecoder::new(fs::File::open(fixtures().join("steps.jsonl.gz")).unwrap()).read_to_end(&mut steps).unwrap();
    fs::write(&log, steps).unwrap();
    (folder, runs, log)
}

/// Replaces text in a file of the journal.
fn edit(run: &Path, file: &str, change: impl Fn(&str) -> String) {
    let path = run.join("journal").join(file);
    let text = fs::read_to_string(&path).unwrap();
    let changed = change(&text);
    assert_ne!(text, changed);
    fs::write(path, changed).unwrap();
}

/// Removes the idle measurements of a run, so that its net energy is unknown.
fn without_idle(run: &Path) {
    edit(run, "session-0.events.jsonl", |text| {
        text.split_inclusive('\n').filter(|line| !line.starts_with("{\"idle\"")).collect()
    });
}

fn attribute<'a>(arguments: impl IntoIterator<Item = &'a Path>, format: &str) -> Output {
    ergo().args(["attribute", "--format", format]).args(arguments).output().unwrap()
}

fn done(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn several_runs_are_fitted_together() {
    let (_folder, runs, _) = recorded();
    let output = attribute(runs.each_ref().map(PathBuf::as_path), "json");
    let found = done(&output);
    assert_eq!((&found[0]["run"], &found[1]["run"]), (&"one".into(), &"four".into()));
    for (place, run) in runs.iter().enumerate() {
        let summary = json(&run.join("summary.json"));
        assert_eq!(found[place]["attribution"], summary["attribution"]);
        assert_eq!(summary["attribution"]["cost_model"]["runs"], serde_json::json!(["one", "four"]));
        assert!(stderr(&output).contains(&format!("saved    {}", run.display())));
    }
    edit(&runs[1], "run.json", |text| text.replace("\"H200\"", "\"H100\""));
    let paths = runs.each_ref().map(|run| run.to_str().unwrap());
    let arguments = [&["attribute"], &paths[..]].concat();
    assert_fails(&arguments, 1, &["four cannot be fitted together", "the hardware differs: H200 and H100"]);
    assert_fails(&["attribute", paths[0], paths[0]], 1, &["is given twice", "pass each run once"]);
}

/// A process that is killed while it writes the files of the runs has stored the cost model in all journals.
#[test]
fn a_killed_fit_is_completed_by_finalize() {
    let (_folder, runs, _) = recorded();
    let finalize = |run: &Path| {
        let output = ergo().arg("finalize").arg(run).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    };
    let table = |run: &Path| fs::read(run.join("requests.parquet")).unwrap();
    for run in &runs {
        finalize(run);
    }
    let before = runs.each_ref().map(|run| (table(run), fs::read(run.join("summary.json")).unwrap()));
    done(&attribute(runs.each_ref().map(PathBuf::as_path), "json"));
    let after = runs.each_ref().map(|run| table(run));
    assert_ne!(before[1].0, after[1]);
    // The first run was being written, the second is as before.
    fs::write(runs[0].join("requests.parquet"), &after[0][..99]).unwrap();
    fs::remove_file(runs[0].join("summary.json")).unwrap();
    fs::write(runs[1].join("requests.parquet"), &before[1].0).unwrap();
    fs::write(runs[1].join("summary.json"), &before[1].1).unwrap();
    for (run, after) in runs.iter().zip(&after) {
        finalize(run);
        assert_eq!(table(run), *after);
        let summary = json(&run.join("summary.json"));
        assert_eq!(summary["attribution"]["cost_model"]["runs"], serde_json::json!(["one", "four"]));
    }
}

#[test]
fn a_sweep_has_the_figures_of_its_runs_after_they_were_fitted() {
    let (folder, runs, log) = recorded();
    let sweep = folder.path().join("sweep_x");
    fs::create_dir(&sweep).unwrap();
    let config: RunConfig = serde_json::from_value(json(&runs[0].join("journal/run.json"))["config"].clone()).unwrap();
    let identity = Identity {
        hardware_label: String::from("H200"),
        model: String::from("random-8b"),
        model_facts: ModelFacts::default(),
        dataset: String::from("mix"),
        dataset_fingerprint: String::new(),
    };
    let schedules = [1, 4, 64].map(|concurrency| Schedule::Concurrency { concurrency });
    Sweep::new(config, &schedules, 1, 0.0, identity).unwrap().write(&sweep).unwrap();
    let names = ["concurrency_1", "concurrency_4", "concurrency_64"];
    runs.iter().zip(names).for_each(|(run, name)| fs::rename(run, sweep.join(name)).unwrap());
    copy_run("one", &sweep.join(names[2]));
    fs::write(sweep.join(names[2]).join("journal/session-0.events.jsonl"), "").unwrap();

    let figures = || {
        let record = json(&sweep.join("sweep.json"));
        [0, 1].map(|point| {
            let (point, run) = (&record["points"][point], sweep.join(names[point]));
            let measured = json(&run.join("summary.json"))["energy"]["measured"].clone();
            let mean = point["figures"]["decode_j_per_output_token"]["mean"].as_f64().unwrap();
            assert_eq!(Some(mean), measured["decode_j_per_output_token"].as_f64());
            assert_eq!(point["runs"][0]["complete"], true);
            mean
        })
    };
    let output = attribute([sweep.as_path()], "json");
    assert_eq!(done(&output).as_array().unwrap().len(), 2);
    assert!(stderr(&output).contains("concurrency_64 is left out: none of its requests has ended"));
    let by_arrivals = figures();
    let output = attribute([sweep.as_path(), Path::new("--engine-log"), &log], "csv");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("\nconcurrency_4,step_log,"), "{}", stdout(&output));
    assert_ne!(figures(), by_arrivals);
}

#[test]
fn runs_without_net_energy_are_shown_with_the_reason() {
    let (_folder, runs, _) = recorded();
    without_idle(&runs[1]);
    let both = || runs.each_ref().map(PathBuf::as_path);
    let output = attribute(both(), "table");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let row = stdout(&output).lines().find(|line| line.trim_start().starts_with("four")).map(str::to_owned).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["four", "-", "-", "-", "-", "-"]);
    let reason = "four: no energy was attributed to requests: idle power was not measured";
    assert!(stderr(&output).contains(reason), "{}", stderr(&output));
    assert_eq!(stdout(&attribute(both(), "csv")).lines().last(), Some("four,,,,,,,,"));
    let found = done(&attribute(both(), "json"));
    assert!(found[0]["attribution"]["share"].is_number());
    assert_eq!(found[1], serde_json::json!({"run": "four", "attribution": null}));

    let output = attribute([runs[1].as_path()], "json");
    assert_eq!(output.status.code(), Some(1), "nothing was attributed");
    assert!(stderr(&output).contains("no energy was attributed to requests"), "{}", stderr(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found, serde_json::json!([{"run": "four", "attribution": null}]));
}

#[test]
fn runs_without_their_journals_cannot_be_attributed_again() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = folder.path().join("sweep");
    let saved = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/h200_sweep");
    let mut files = vec![PathBuf::from("sweep.json")];
    for concurrency in ["1", "2", "4", "8", "16", "32", "64"] {
        files.push(Path::new(&format!("concurrency_{concurrency}")).join("summary.json"));
    }
    for file in &files {
        let to = sweep.join(file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(saved.join(file), to).unwrap();
    }
    let sweep = sweep.to_str().unwrap();
    assert_fails(&["attribute", sweep], 1, &["no run of", "has a journal with requests", "hint: if there is a copy"]);
    let run = format!("{sweep}/concurrency_1");
    assert_fails(&["attribute", &run], 1, &["has no journal", "can be read, but not finalized, attributed or resumed"]);
    assert_fails(&["attribute", folder.path().to_str().unwrap()], 1, &["has no journal", "hint: pass a run folder"]);
}

#[test]
fn finalize_uses_an_engine_log_after_runs_were_fitted_together() {
    let (_folder, runs, log) = recorded();
    done(&attribute(runs.each_ref().map(PathBuf::as_path), "json"));
    let finalize = |more: &[&str]| {
        let output = ergo().args(["finalize", "--format", "json"]).arg(&runs[1]).args(more).output().unwrap();
        done(&output)["attribution"].clone()
    };
    assert_eq!(finalize(&[])["method"], "arrivals");
    for more in [&["--engine-log", log.to_str().unwrap()][..], &[]] {
        let found = finalize(more);
        assert_eq!(found["methods"].as_object().unwrap().keys().collect::<Vec<_>>(), ["step_log"]);
        assert_eq!(found["cost_model"]["evidence"], "step_log");
    }
}

#[test]
fn a_server_on_another_machine_has_no_energy_to_attribute() {
    let (folder, runs, log) = recorded();
    let log = log.to_str().unwrap();
    edit(&runs[0], "run.json", |text| text.replace("\"this_machine\"", "\"elsewhere\", \"host\": \"far.example\""));
    let run = runs[0].to_str().unwrap();
    let expected = ["its server is on far.example", "repeat the run with --server-is-local"];
    assert_fails(&["attribute", run], 1, &expected);
    assert_fails(&["finalize", run, "--engine-log", log], 1, &expected);
    assert!(!runs[0].join("journal/engine.log").exists());

    // Refused without a connection: nothing answers at this address.
    let (runs, server) = (folder.path().join("runs"), "http://192.0.2.1:9");
    let profile = ["profile", "--base-url", server, "--model", "m", "--engine-log", log, "--output-dir"];
    let profile = [&profile[..], &[runs.to_str().unwrap()]].concat();
    assert_fails(
        &profile,
        2,
        &["--engine-log cannot be used: the server is on 192.0.2.1", "pass --server-is-local if"],
    );
    assert!(!runs.exists());
}

#[test]
fn an_engine_log_that_cannot_be_used_keeps_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let (runs, log) = (folder.path().join("runs"), folder.path().join("steps.jsonl"));
    let server = Server::start(&[]);
    let address = server.address();
    let profile = ["profile", "--base-url", &address, "--idle", "0s", "-n", "3", "--grader", "none", "--output-dir"];
    let profile = [&profile[..], &[runs.to_str().unwrap(), "--engine-log"]].concat();
    let [given, a_folder] =
        [log.as_path(), folder.path()].map(|path| [&profile[..], &[path.to_str().unwrap()]].concat());
    assert_fails(&given, 2, &["cannot read the engine log", "ergo attribute RUN --engine-log FILE"]);
    assert_fails(&a_folder, 2, &["cannot read the engine log", "it is not a file"]);
    assert!(!runs.exists(), "before the first request");

    fs::write(&log, "INFO: the server started\n").unwrap();
    let output = ergo().args(&given).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("the engine log contains no steps"), "{}", stderr(&output));
    let summary = json(&run_in(&runs).join("summary.json"));
    assert_eq!((&summary["complete"], &summary["outcomes"]["completed"]), (&true.into(), &3.into()));
}
