//! `ergo profile`, `finalize` and `list`: runs of the embedded model, also interrupted and killed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{assert_fails, ergo, stderr, stdout};

/// Without idle measurements, so that runs are short.
const QUICK: [&str; 4] = ["profile", "--idle", "0s", "--output-dir"];

pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The only run in a folder of runs.
pub(crate) fn run_in(folder: &Path) -> PathBuf {
    let mut runs: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs.remove(0)
}

/// How many completed or failed requests the journal has for each query.
pub(crate) fn requests_by_query(run: &Path) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for entry in std::fs::read_dir(run.join("journal")).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().ends_with(".events.jsonl") {
            let text = std::fs::read(&path).unwrap();
            let lines = text.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n"));
            for line in lines {
                let value: Value = serde_json::from_slice(line).unwrap();
                let ended = &value["ended"];
                if !ended.is_null() && ended["outcome"]["is"] != "cancelled" {
                    *counts.entry(ended["query"]["index"].as_u64().unwrap()).or_default() += 1;
                }
            }
        }
    }
    counts
}

/// Writes a dataset that repeats the built-in problems.
fn long_dataset(folder: &Path, lines: usize) -> PathBuf {
    let builtin = include_str!("../../../../assets/datasets/builtin.jsonl");
    let text: Vec<&str> = builtin.lines().cycle().take(lines).collect();
    let path = folder.join("long.jsonl");
    std::fs::write(&path, text.join("\n")).unwrap();
    path
}

#[test]
fn the_default_run_gives_a_run_folder_and_a_summary() {
    let folder = tempfile::tempdir().unwrap();
    let output = ergo().args(QUICK).arg(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let (shown, messages) = (stdout(&output), stderr(&output));
    for part in ["accuracy", "79.7 %", "TTFT", "tok/s"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(messages.contains("embedded tiny (0.1 M parameters)  ·  builtin, 600 queries"), "{messages}");
    assert!(messages.contains("saved"), "{messages}");
    let run = run_in(folder.path());
    assert!(run.to_string_lossy().ends_with("_tiny_builtin"));
    let summary = json(&run.join("summary.json"));
    assert_eq!(summary["total_queries"], 600);
    assert_eq!(summary["accuracy"]["correct"], 478);
    assert_eq!(summary["complete"], true);
    for file in
        ["data-00000-of-00001.arrow", "dataset_info.json", "state.json", "requests.parquet", "telemetry.parquet"]
    {
        assert!(run.join(file).is_file(), "{file}");
    }
    for name in ["model", "profiler_config", "dataset", "dataset_name", "hardware_label", "generated_at", "system_info"]
    {
        assert!(!summary[name].is_null(), "{name}");
    }
    for totals in [&summary["energy"]["measured"], &summary["energy"]["modelled"]] {
        let number = |name: &str| totals["balance"][name].as_f64().unwrap();
        if !totals.is_null() {
            let sum = number("requests_j") + number("idle_j") + number("unattributed_j");
            assert!((sum - number("meter_j")).abs() <= 1e-9 * sum, "{totals}");
        }
    }
}

#[test]
fn concurrent_requests_give_the_same_answers() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["-n", "120", "--concurrency", "4", "--model", "small", "--format", "json"];
    let output = ergo().args(QUICK).arg(folder.path()).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let together: Value = serde_json::from_slice(&output.stdout).unwrap();
    let alone = ergo()
        .args(QUICK)
        .arg(folder.path())
        .args(["-n", "120", "--model", "small", "--format", "json", "--name", "alone"])
        .output()
        .unwrap();
    let alone: Value = serde_json::from_slice(&alone.stdout).unwrap();
    assert_eq!(together["accuracy"]["correct"], alone["accuracy"]["correct"]);
    assert_eq!(together["tokens"]["output"], alone["tokens"]["output"]);
    assert_eq!(together["total_queries"], 120);
}

#[test]
fn a_run_is_replaced_only_with_overwrite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let first = ergo().args(QUICK).args([path, "-n", "3"]).output().unwrap();
    assert_eq!(first.status.code(), Some(0), "{}", stderr(&first));
    let run = run_in(folder.path());
    let before = json(&run.join("summary.json"));
    let again = ["profile", "--idle", "0s", "--output-dir", path, "-n", "4"];
    assert_fails(&again, 1, &["exists", "--overwrite", "--name", "--resume"]);
    assert_eq!(json(&run.join("summary.json")), before);
    let other = ergo().args(again).args(["--name", "other/one"]).output().unwrap();
    assert_eq!(other.status.code(), Some(0), "{}", stderr(&other));
    assert!(folder.path().join(format!("{}_other_one", run.file_name().unwrap().to_string_lossy())).is_dir());
    let replaced = ergo().args(again).arg("--overwrite").output().unwrap();
    assert_eq!(replaced.status.code(), Some(0), "{}", stderr(&replaced));
    assert_eq!(json(&run.join("summary.json"))["total_queries"], 4);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary folder is left");
}

#[test]
fn unknown_names_are_reported_with_the_known_ones() {
    assert_fails(&["profile", "--dataset", "gsm8k"], 2, &["unknown dataset `gsm8k`", "builtin, jsonl"]);
    assert_fails(&["profile", "--client", "nobody"], 2, &["unknown client `nobody`", "embedded, openai, ollama"]);
    assert_fails(&["profile", "--model", "gpt-5"], 1, &["no embedded model `gpt-5`", "tiny and small"]);
    assert_fails(&["profile", "--grader", "vibes"], 2, &["vibes", "exact"]);
    assert_fails(&["profile", "--grader", "regex:("], 2, &["regex"]);
    assert_fails(&["profile", "--param", "warmth=1"], 2, &["no request parameter `warmth`", "temperature"]);
    assert_fails(&["profile", "--param", "temperature=hot"], 2, &["temperature", "must be a number from 0 to 100"]);
    assert_fails(&["profile", "--device", "gpu:77"], 2, &["gpu:77", "ergo doctor"]);
    assert_fails(&["profile", "--resume", "/nowhere", "--model", "small"], 2, &["--resume", "--model"]);
    assert_fails(&["profile", "--resume", "/nowhere"], 1, &["no such file or folder"]);
    assert_fails(&["finalize", "/nowhere"], 1, &["no such file or folder"]);
    assert_fails(&["finalize", "/nowhere", "--format", "csv"], 2, &["invalid value 'csv'", "table, json"]);
    assert_fails(
        &["profile", "--think-time", "2s"],
        2,
        &["is not multi-turn", "dataset sharegpt with --dataset-param turns=all"],
    );
    assert_fails(&["profile", "--concurrency", "0"], 2, &["`0` is not a whole number from 1 to 100000"]);
    assert_fails(&["profile", "--max-queries", "0"], 2, &["`0` is not a whole number of at least 1"]);
}

/// An invalid option of the judge is wrong usage, as the same option of the client is; a server that does not answer is not.
#[test]
fn an_invalid_judge_is_wrong_usage() {
    for address in ["ftp://localhost", "http://"] {
        assert_fails(&["profile", "--judge", address, "--judge-model", "m"], 2, &["the judge cannot be used"]);
        assert_fails(&["profile", "--base-url", address, "--model", "m"], 2, &[]);
    }
    let unset = ["profile", "--judge", "http://localhost:1", "--judge-model", "m"];
    let unset = [&unset[..], &["--judge-api-key-env", "ERGOMETER_NO_SUCH_KEY"]].concat();
    assert_fails(&unset, 2, &["is unset", "--judge-api-key-env"]);
    let gone = ["profile", "--idle", "0s", "--judge", "http://127.0.0.1:1", "--judge-model", "m"];
    assert_fails(&gone, 1, &["cannot reach the judge", "--judge takes"]);
}

#[test]
fn lists_have_every_kind() {
    for (what, parts) in [
        (
            "datasets",
            &["builtin", "jsonl", "parquet", "synthetic", "--dataset-param problem=", "--dataset-param where="][..],
        ),
        ("clients", &["embedded", "--param temperature="]),
        ("graders", &["exact", "normalised", "choice", "numeric", "regex", "none"]),
        ("sensors", &["host"]),
        ("all", &["builtin", "embedded", "exact", "host"]),
    ] {
        let output = ergo().args(["list", what]).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        for part in parts {
            assert!(stdout(&output).contains(part), "{what} lacks {part}: {}", stdout(&output));
        }
    }
    let output = ergo().args(["list", "graders", "--format", "json"]).output().unwrap();
    let graders: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(graders.as_array().unwrap().iter().all(|grader| grader["kind"] == "grader"));
}

#[test]
fn every_file_format_is_opened_and_mapped_columns_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/datasets");
    for name in ["excel.csv", "zstd.parquet", "stream.arrow", "saved"] {
        let runs = folder.path().join(name);
        let dataset = format!("{fixtures}/{name}");
        let part = ["--dataset-param", "where=category=sums", "--dataset-param", "shuffle=1"];
        let output = ergo().args(QUICK).arg(&runs).args(["--dataset", &dataset]).args(part).output().unwrap();
        let messages = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{messages}");
        assert!(messages.contains("(problem=question, answer=target, subject=category), 3 queries"), "{messages}");
    }
    let dataset = format!("{fixtures}/splits");
    assert_fails(&["profile", "--dataset", &dataset], 1, &["several splits: train, test", "split=NAME"]);
    assert_fails(&["profile", "--dataset-param", "limit=0"], 2, &["limit", "leaves no query"]);
}

#[test]
fn a_dataset_by_path_is_mapped_and_graded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my questions.jsonl");
    let lines = ["{\"q\":\"What is 39 + 1?\",\"a\":40,\"level\":1}", "{\"q\":\"What is 2 + 2?\",\"a\":\"five\"}"];
    std::fs::write(&path, lines.join("\n")).unwrap();
    let runs = folder.path().join("runs");
    let arguments = ["--dataset-param", "problem=q", "--dataset-param", "answer=a", "--format", "json"];
    let dataset = path.to_str().unwrap();
    let output = ergo().args(QUICK).arg(&runs).args(["--dataset", dataset]).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["accuracy"]["correct"], &summary["accuracy"]["graded"]), (&1.into(), &2.into()));
    assert!(run_in(&runs).to_string_lossy().ends_with("_tiny_my_questions"));
    assert_fails(
        &["profile", "--dataset", dataset],
        1,
        &["line 1: no column with the prompt", "the columns are q, a, level", "--dataset-param problem=COLUMN"],
    );
}

#[test]
fn failed_requests_are_counted_and_set_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.jsonl");
    // The context of the model is 256 bytes; the second and third problems are longer.
    let long = "x".repeat(400);
    let lines =
        format!("{{\"problem\":\"a\"}}\n{{\"problem\":\"{long}\"}}\n{{\"problem\":\"{long}\"}}\n{{\"problem\":\"b\"}}");
    std::fs::write(&path, lines).unwrap();
    let dataset = path.to_str().unwrap();
    let runs = folder.path().join("runs");
    let output = ergo().args(QUICK).arg(&runs).args(["--dataset", dataset]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("2 requests failed: rejected"), "{}", stderr(&output));
    let summary = json(&run_in(&runs).join("summary.json"));
    assert_eq!((&summary["outcomes"]["completed"], &summary["outcomes"]["failed"]["rejected"]), (&2.into(), &2.into()));
    let early = folder.path().join("early");
    let arguments = ["--dataset", dataset, "--max-failures", "1"];
    let output = ergo().args(QUICK).arg(&early).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let summary = json(&run_in(&early).join("summary.json"));
    assert_eq!((&summary["total_queries"], &summary["closing"]), (&2.into(), &"too_many_failures".into()));
    assert!(stderr(&output).contains("--resume"), "{}", stderr(&output));
}

/// Starts a long run and waits until this many requests have ended.
#[expect(clippy::zombie_processes, reason = "every caller kills it and waits, or waits for its end")]
fn started(runs: &Path, dataset: &Path, resume: Option<&Path>, ended: usize) -> (Child, PathBuf) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ergo"));
    match resume {
        Some(run) => command.arg("profile").arg("--resume").arg(run),
        None => command.args(QUICK).arg(runs).arg("--dataset").arg(dataset).args(["--model", "small", "-c", "2"]),
    };
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        assert!(Instant::now() < deadline, "{ended} requests never ended");
        std::thread::sleep(Duration::from_millis(5));
        let Some(run) = std::fs::read_dir(runs).ok().and_then(|mut entries| entries.next()) else { continue };
        let run = run.unwrap().path();
        if run.join("journal/run.json").is_file() && requests_by_query(&run).len() >= ended {
            return (child, run);
        }
    }
}

#[test]
fn a_run_that_is_killed_three_times_is_resumed_and_loses_nothing() {
    const QUERIES: usize = 3000;
    let folder = tempfile::tempdir().unwrap();
    let dataset = long_dataset(folder.path(), QUERIES);
    let runs = folder.path().join("runs");
    let mut resume = None;
    let mut before = 0;
    for ended in [20, 700, 1500] {
        let (mut child, run) = started(&runs, &dataset, resume.as_deref(), ended);
        child.kill().unwrap();
        child.wait().unwrap();
        let done = requests_by_query(&run);
        assert!(done.len() >= before && done.len() < QUERIES, "{} of {QUERIES}", done.len());
        assert!(done.values().all(|&count| count == 1));
        assert!(!run.join("summary.json").exists(), "the run was killed before it closed");
        before = done.len();
        resume = Some(run);
    }
    let run = resume.unwrap();
    let finalized = ergo().arg("finalize").arg(&run).args(["--format", "json"]).output().unwrap();
    assert_eq!(finalized.status.code(), Some(0), "{}", stderr(&finalized));
    let summary: Value = serde_json::from_slice(&finalized.stdout).unwrap();
    assert_eq!((&summary["total_queries"], &summary["complete"]), (&before.into(), &false.into()));
    assert!(stderr(&finalized).contains("the run is not complete"), "{}", stderr(&finalized));

    let output = ergo().arg("profile").arg("--resume").arg(&run).args(["--format", "json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["total_queries"], &summary["complete"]), (&QUERIES.into(), &true.into()));
    assert_eq!(summary["sessions"], 4);
    // The model small answers 548 of the 600 problems correctly; the dataset repeats them five times.
    assert_eq!(summary["accuracy"]["correct"], 5 * 548);
    let done = requests_by_query(&run);
    assert_eq!(done.len(), QUERIES);
    assert!(done.values().all(|&count| count == 1), "a query was sent twice");

    std::fs::write(&dataset, "{\"problem\":\"another\"}\n").unwrap();
    let resume = ["profile", "--resume", run.to_str().unwrap()];
    assert_fails(&resume, 1, &["cannot resume", "the dataset long has changed", "ergo finalize"]);
}

#[test]
fn an_interrupted_run_keeps_its_data() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = long_dataset(folder.path(), 20_000);
    let runs = folder.path().join("runs");
    let (mut child, run) = started(&runs, &dataset, None, 50);
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let summary = json(&run.join("summary.json"));
    let queries = summary["total_queries"].as_u64().unwrap();
    assert!((50..20_000).contains(&queries), "{queries}");
    assert_eq!((&summary["closing"], &summary["complete"]), (&"interrupted".into(), &false.into()));
    assert_eq!(requests_by_query(&run).len() as u64, queries);
    assert!(run.join("requests.parquet").is_file());
}

/// A second run in the same folder would mix two journals.
#[test]
fn a_run_in_progress_cannot_be_resumed_or_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = long_dataset(folder.path(), 20_000);
    let runs = folder.path().join("runs");
    let (mut child, run) = started(&runs, &dataset, None, 10);
    let path = run.to_str().unwrap();
    assert_fails(&["profile", "--resume", path], 1, &["in use by another ergo"]);
    assert_fails(&["finalize", path], 1, &["in use by another ergo"]);
    let (dataset, runs) = (dataset.to_str().unwrap(), runs.to_str().unwrap());
    let overwrite = ["profile", "--dataset", dataset, "--output-dir", runs, "--model", "small", "--overwrite"];
    assert_fails(&overwrite, 1, &["in use by another ergo"]);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn secrets_are_neither_stored_nor_shown() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let output = ergo()
        .args(QUICK)
        .arg(&runs)
        .args(["--client-param", "api_key=hunter2hunter2", "--param", "password=hunter2hunter2"])
        .args([
            "--header",
            "Authorization: Bearer hunter2hunter2",
            "--base-url",
            "http://u:hunter2hunter2@host/?k=hunter2hunter2",
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "the embedded client takes none of these options");
    assert!(!stderr(&output).contains("hunter2hunter2"), "{}", stderr(&output));
}

/// The folder of a run without a record is removed, so there is nothing to resume.
#[test]
fn a_full_disk_suggests_to_resume_only_a_run_that_was_kept() {
    // In units of 512 or 1024 bytes, depending on the shell. The manifest has about 2 KB, the journal of 40 queries more
    // than 100 KB.
    for (limit, is_kept) in [("0", false), ("1", false), ("40", true)] {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("ulimit -f {limit}; exec \"$0\" \"$@\"");
        let output = assert_cmd::Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_ergo")])
            .args(QUICK)
            .arg(folder.path())
            .output()
            .unwrap();
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{limit}: {message}");
        assert!(message.contains("error: cannot write ") && message.contains("hint: free disk space"), "{message}");
        let runs: Vec<PathBuf> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(runs.len(), usize::from(is_kept), "{limit}: {runs:?}");
        match runs.first() {
            Some(run) => assert!(message.contains(&format!("ergo profile --resume {}`", run.display())), "{message}"),
            None => assert!(!message.contains("--resume"), "{message}"),
        }
    }
}
