//! `ergo profile` with several loads or repeats: sweep folders, also interrupted and resumed.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use ergometer_mock_server::{Delay, MockServer, RunningServer, Script};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::profile::{json, requests_by_query, run_in};
use super::{assert_fails, ergo, stderr, stdout};

/// A server that ends with its test.
struct Served {
    runtime: Runtime,
    server: RunningServer,
}

impl Served {
    fn start(ttft: Duration) -> Self {
        let runtime = Runtime::new().unwrap();
        let script = Script { ttft: Delay::fixed(ttft), ..Script::instant() };
        let server = runtime.block_on(MockServer::start(script)).unwrap();
        Self { runtime, server }
    }

    fn stop(self) {
        self.runtime.block_on(self.server.stop());
    }

    /// The arguments of `ergo profile` for this server.
    fn arguments(&self, runs: &Path, more: &[&str]) -> Vec<String> {
        let mut arguments = vec![String::from("profile"), String::from("--base-url"), self.server.base_url()];
        arguments.extend(["--idle", "0s", "--grader", "none", "--output-dir"].map(String::from));
        arguments.push(runs.display().to_string());
        arguments.extend(more.iter().map(|argument| String::from(*argument)));
        arguments
    }

    fn profile(&self, runs: &Path, more: &[&str]) -> Output {
        ergo().args(self.arguments(runs, more)).output().unwrap()
    }
}

fn resume(sweep: &Path) -> Output {
    ergo().args(["profile", "--format", "json", "--resume"]).arg(sweep).output().unwrap()
}

fn runs_of(sweep: &Path) -> Vec<String> {
    let folders = std::fs::read_dir(sweep).unwrap().map(|entry| entry.unwrap()).filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> = folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_sweep_is_a_folder_of_complete_runs_and_one_table() {
    let served = Served::start(Duration::ZERO);
    let folder = tempfile::tempdir().unwrap();
    let output = served.profile(folder.path(), &["-n", "6", "-c", "1,3", "--name", "night"]);
    let (shown, messages) = (stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(0), "{messages}");
    let sweep = run_in(folder.path());
    let name = sweep.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("sweep_") && name.ends_with("_builtin_night"), "{name}");
    assert_eq!(runs_of(&sweep), ["concurrency_1", "concurrency_3"]);
    for part in ["point 1 of 2  ·  concurrency 1", "point 2 of 2  ·  concurrency 3", "saved    "] {
        assert!(messages.contains(part), "{part}: {messages}");
    }
    assert!(shown.contains("in flight") && shown.contains("highest tok/s at concurrency"), "{shown}");
    assert!(!shown.contains("accuracy"), "the table of a single run is not printed: {shown}");
    let record = json(&sweep.join("sweep.json"));
    assert_eq!((&record["axis"], &record["complete"]), (&"concurrency".into(), &true.into()));
    for (point, concurrency) in [(0, 1), (1, 3)] {
        let point = &record["points"][point];
        assert_eq!(point["schedule"]["concurrency"], concurrency);
        let run = sweep.join(point["runs"][0]["folder"].as_str().unwrap());
        let summary = json(&run.join("summary.json"));
        assert_eq!((&summary["total_queries"], &summary["complete"]), (&6.into(), &true.into()));
        assert_eq!(summary["profiler_config"]["schedule"]["concurrency"], concurrency);
        let (figure, rate) = (&point["figures"]["requests_per_second"], &summary["tokens"]["requests_per_second"]);
        assert_eq!((&figure["n"], &figure["low"]), (&1.into(), &Value::Null));
        assert!(figure["mean"].is_number() && rate.is_number());
        let finalized = ergo().arg("finalize").arg(&run).output().unwrap();
        assert_eq!(finalized.status.code(), Some(0), "{}", stderr(&finalized));
    }
    assert_fails(&["finalize", sweep.to_str().unwrap()], 1, &["is a sweep", "pass one of its run folders"]);
    let path = folder.path().to_str().unwrap();
    let again = served.arguments(folder.path(), &["-n", "6", "-c", "1,3", "--name", "night"]);
    let again: Vec<&str> = again.iter().map(String::as_str).collect();
    assert_fails(&again, 1, &["exists", "--overwrite", "--resume", path]);
}

#[test]
fn repeats_run_in_rounds_and_have_intervals() {
    let served = Served::start(Duration::ZERO);
    let folder = tempfile::tempdir().unwrap();
    let output = served.profile(folder.path(), &["-n", "4", "-c", "1,3", "--repeat", "2", "--format", "csv"]);
    let (shown, messages) = (stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(0), "{messages}");
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("axis,value,runs,complete_runs,energy,requests_per_second,"));
    assert!(lines[1].starts_with("concurrency,1,2,2,") && lines[2].starts_with("concurrency,3,2,2,"), "{shown}");
    let at = |text: &str| messages.find(text).unwrap_or_else(|| panic!("{text}: {messages}"));
    let second = at("point 2 of 2  ·  concurrency 3  ·  repeat 1 of 2");
    assert!(second < at("point 1 of 2  ·  concurrency 1  ·  repeat 2 of 2"), "{messages}");
    let sweep = run_in(folder.path());
    let [one, three] = ["concurrency_1", "concurrency_3"].map(|point| [1, 2].map(|n| format!("{point}_repeat_{n}")));
    assert_eq!(runs_of(&sweep), [one, three].concat());
    let figure = &json(&sweep.join("sweep.json"))["points"][0]["figures"]["requests_per_second"];
    assert_eq!(figure["n"], 2);
    let [low, mean, high] = ["low", "mean", "high"].map(|name| figure[name].as_f64().unwrap());
    assert!(low <= mean && mean <= high);
}

#[test]
fn repeats_of_a_sweep_are_compared_and_have_a_curve() {
    let served = Served::start(Duration::from_millis(5));
    let folder = tempfile::tempdir().unwrap();
    let output = served.profile(folder.path(), &["-n", "12", "-c", "1,2,4", "--repeat", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let sweep = run_in(folder.path());
    let compared = |format: &str| {
        let output = ergo().args(["compare", "--format", format]).arg(&sweep).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        output
    };
    let output = compared("json");
    assert!(!stderr(&output).contains("each load was run only once"), "{}", stderr(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let candidates = found["candidates"].as_array().unwrap();
    assert_eq!(candidates.len(), 2);
    for candidate in candidates {
        assert_eq!(candidate["runs"].as_array().unwrap().len(), 2);
        let row = |name: &str| {
            let rows = candidate["rows"].as_array().unwrap();
            rows.iter().find(|row| row["metric"] == name).unwrap_or_else(|| panic!("{name}")).clone()
        };
        let change = row("e2e_p50")["change"].clone();
        let [low, value, high] = [&change["interval"]["low"], &change["value"], &change["interval"]["high"]]
            .map(|number| number.as_f64().unwrap());
        assert!(change["method"] == "welch" && low < value && value < high, "{change}");
        // Two runs may vary so much that the baseline of a ratio might be zero; then the reason says so.
        let rate = row("requests_per_second");
        let is_explained = rate["reason"].as_str().is_some_and(|reason| reason.contains("zero"));
        assert!(
            rate["change"]["method"] == "fieller" && rate["change"]["interval"]["low"].is_number() || is_explained,
            "{rate}"
        );
    }
    let points = found["curve"]["points"].as_array().unwrap();
    assert_eq!(points.len(), 3);
    for point in points {
        let speed = &point["output_tokens_per_second"];
        assert!(speed["low"].as_f64().unwrap() <= speed["value"].as_f64().unwrap(), "{point}");
    }

    // Figures with a knee: from 1 to 2 in flight throughput nearly doubles, from 2 to 4 mostly latency grows.
    let mut record = json(&sweep.join("sweep.json"));
    for (point, (speed, e2e)) in [(100.0, 100.0), (190.0, 105.0), (200.0, 300.0)].into_iter().enumerate() {
        let point = &mut record["points"][point];
        point["client_limited"] = 0.into();
        point["figures"]["output_tokens_per_second"]["mean"] = speed.into();
        point["figures"]["e2e_p50_ms"]["mean"] = e2e.into();
    }
    std::fs::write(sweep.join("sweep.json"), record.to_string()).unwrap();
    let shown = stdout(&compared("table"));
    assert!(shown.contains("knee at concurrency 2: the largest ratio of tok/s to E2E latency"), "{shown}");
    let found: Value = serde_json::from_slice(&compared("json").stdout).unwrap();
    assert_eq!((&found["curve"]["knee"], &found["curve"]["no_knee_because"]), (&2.0.into(), &Value::Null));
}

#[test]
fn resuming_repeats_only_deleted_runs() {
    let served = Served::start(Duration::ZERO);
    let folder = tempfile::tempdir().unwrap();
    let output = served.profile(folder.path(), &["-n", "3", "--repeat", "3", "--header", "X-Api-Key: hunter2"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let sweep = run_in(folder.path());
    assert!(!std::fs::read_to_string(sweep.join("sweep.json")).unwrap().contains("hunter2"));
    let kept = |run: u32| json(&sweep.join(format!("concurrency_1_repeat_{run}/summary.json")))["generated_at"].clone();
    let before = [kept(1), kept(3)];
    std::fs::remove_dir_all(sweep.join("concurrency_1_repeat_2")).unwrap();
    assert_fails(&["profile", "--resume", sweep.to_str().unwrap()], 1, &["the header X-Api-Key", "secret"]);
    let given = ["profile", "--header", "X-Api-Key: hunter2", "--resume"];
    let output = ergo().args(given).arg(&sweep).args(["--format", "json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&record["complete"], &record["points"][0]["figures"]["ttft_p50_ms"]["n"]), (&true.into(), &3.into()));
    assert_eq!(record, json(&sweep.join("sweep.json")));
    assert_eq!([kept(1), kept(3)], before, "complete runs are unchanged");

    std::fs::remove_dir_all(sweep.join("concurrency_1_repeat_3")).unwrap();
    served.stop();
    let output = ergo().args(given).arg(&sweep).output().unwrap();
    let messages = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{messages}");
    assert!(messages.contains("no server answers") && messages.contains("--resume"), "{messages}");
    assert!(stdout(&output).contains("2 of 3 runs"), "what is there is shown: {}", stdout(&output));
    assert_eq!(runs_of(&sweep), ["concurrency_1_repeat_1", "concurrency_1_repeat_2"]);
}

#[test]
fn an_interrupted_sweep_keeps_its_data_and_is_resumed() {
    let served = Served::start(Duration::from_millis(50));
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ergo"));
    command.args(served.arguments(folder.path(), &["-n", "200", "-c", "2,4"]));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    let run = loop {
        assert!(Instant::now() < deadline, "no request ended in time");
        std::thread::sleep(Duration::from_millis(5));
        let sweep = std::fs::read_dir(folder.path()).unwrap().next();
        let run: Option<PathBuf> = sweep.map(|sweep| sweep.unwrap().path().join("concurrency_2"));
        match run.filter(|run| run.join("journal/run.json").is_file()) {
            Some(run) if requests_by_query(&run).len() >= 5 => break run,
            _ => {}
        }
    };
    let sweep = run.parent().unwrap();
    assert_fails(&["profile", "--resume", sweep.to_str().unwrap()], 1, &["in use by another ergo"]);
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let record = json(&sweep.join("sweep.json"));
    let first = &record["points"][0]["runs"][0];
    assert_eq!((&first["closing"], &first["complete"]), (&"interrupted".into(), &false.into()));
    assert!(record["points"][0]["figures"]["requests_per_second"]["mean"].is_number());
    assert_eq!(record["points"][1]["runs"][0]["closing"], Value::Null);
    assert_eq!(runs_of(sweep), ["concurrency_2"]);

    let output = resume(sweep);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["complete"], true);
    let done = requests_by_query(&run);
    assert!(done.len() == 200 && done.values().all(|&count| count == 1), "none twice");
    assert_eq!(json(&run.join("summary.json"))["sessions"], 2);
}

#[test]
fn a_sweep_is_replaced_as_a_whole_after_the_first_new_run() {
    let served = Served::start(Duration::ZERO);
    let folder = tempfile::tempdir().unwrap();
    let make = |more: &[&str]| served.profile(folder.path(), &[&["-n", "2", "--overwrite"], more].concat());
    assert_eq!(make(&["-c", "1,2"]).status.code(), Some(0));
    let sweep = run_in(folder.path());
    let output = make(&["-c", "1,2", "--duration", "0s"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(runs_of(&sweep), ["concurrency_1", "concurrency_2"], "the old sweep stays until the new one has a run");
    let output = make(&["-c", "3,4"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(run_in(folder.path()), sweep, "no temporary folder is left");
    assert_eq!(runs_of(&sweep), ["concurrency_3", "concurrency_4"]);
    let summary = json(&sweep.join("concurrency_3/summary.json"));
    assert_eq!(summary["output_dir"], sweep.join("concurrency_3").to_str().unwrap());
}

#[test]
fn invalid_sweeps_are_reported() {
    let csv = ["profile", "--format", "csv"];
    assert_fails(&csv, 2, &["csv is for sweeps", "--format json"]);
    assert_fails(&["profile", "-c", "1,4,1"], 2, &["concurrency 1 is given twice", "--repeat"]);
}
