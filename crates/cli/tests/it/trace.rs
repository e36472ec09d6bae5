//! `ergo trace` on fixtures. The expected figures come from a separate reader of the raw files.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use serde_json::Value;

use super::{assert_fails, ergo, stderr, stdout};

fn trace(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/xplane");
    folder.join(name).to_string_lossy().into_owned()
}

/// The stdout and stderr of a command that succeeds.
fn output_of(arguments: &[&str]) -> (String, String) {
    let output = ergo().arg("trace").args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    (stdout(&output), stderr(&output))
}

fn json(arguments: &[&str]) -> Value {
    let (text, _) = output_of(&[arguments, &["--format", "json"]].concat());
    serde_json::from_str(&text).unwrap()
}

fn rows(arguments: &[&str]) -> Vec<Value> {
    json(arguments).as_array().unwrap().clone()
}

fn number(row: &Value, key: &str) -> i64 {
    row[key].as_i64().unwrap_or_else(|| panic!("{key} of {row}"))
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_else(|| panic!("{key} of {row}"))
}

#[test]
fn tables_match_the_snapshot() {
    let mut seen = String::new();
    for (columns, command, name) in [
        ("100", "summary", "gpu_infer_20.xplane.pb"),
        ("60", "summary", "gpu_infer_20.xplane.pb"),
        ("100", "summary", "gpu_autotune.xplane.pb"),
        ("100", "summary", "small_cpu_666.xplane.pb"),
        ("100", "ops", "gpu_autotune.xplane.pb"),
        ("60", "ops", "gpu_autotune.xplane.pb"),
        ("100", "kernels", "gpu_infer_20.xplane.pb"),
        ("100", "events", "small_cpu_666.xplane.pb"),
        ("100", "modules", "gpu_autotune.xplane.pb"),
        ("100", "executions", "gpu_autotune.xplane.pb"),
        ("100", "steps", "small_cpu_666.xplane.pb"),
        ("60", "steps", "gpu_autotune.xplane.pb"),
        ("100", "gaps", "gpu_autotune.xplane.pb"),
        ("100", "scopes", "gpu_autotune.xplane.pb"),
    ] {
        let output = ergo().args(["trace", command, &trace(name)]).env("COLUMNS", columns).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let shown = stdout(&output);
        let widest = shown.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(widest <= columns.parse().unwrap(), "{command} {name}: {widest} columns\n{shown}");
        seen.extend(["$ ergo trace ", command, " ", name, "   # ", columns, " columns\n", &shown, "\n"]);
    }
    insta::assert_snapshot!(seen);
}

#[test]
fn a_summary_has_every_plane_and_line() {
    let summary = json(&["summary", &trace("gpu_infer_20.xplane.pb")]);
    let planes = summary["planes"].as_array().unwrap();
    let gpu = &planes[0];
    assert_eq!((text(gpu, "name"), text(gpu, "platform")), ("/device:GPU:0", "gpu"));
    assert_eq!((text(gpu, "device"), number(gpu, "events")), ("NVIDIA H200", 3120));
    assert_eq!((number(gpu, "busy_ps"), number(gpu, "span_ps")), (29_793_798_000, 42_317_906_000));
    assert_eq!(number(gpu, "idle_ps"), 42_317_906_000 - 29_793_798_000);
    let lines = gpu["lines"].as_array().unwrap();
    assert_eq!(lines.iter().map(|line| number(line, "events")).sum::<i64>(), 3120);
    let module = &gpu["work"][0]["modules"][0];
    assert_eq!((text(module, "module"), number(module, "executions")), ("jit_fwd", 20));
    let busy = module["busy_per_execution_ps"]["mean"].as_f64().unwrap();
    assert!((busy - 1.4897e9).abs() < 1e6, "{busy}");
    assert_eq!(summary["warnings"], serde_json::json!([]));
    assert!(summary["zero_ns"].as_i64().unwrap() > 1_700_000_000_000_000_000);
    assert!(summary["other_planes"].as_array().unwrap().contains(&"Task Environment".into()), "{summary}");
    let host = planes.iter().find(|plane| plane["name"] == "/host:CPU").unwrap();
    assert_eq!((&host["work"], number(host, "events")), (&serde_json::json!([]), 742));
    let top = gpu["work"][0]["top"].as_array().unwrap();
    assert_eq!((top.len(), text(&top[0], "kernel"), number(&top[0], "count")), (5, "fusion_212", 160));
    assert!(top[0]["device_ordinal"].is_null() && gpu["work"][0]["device_ordinal"].is_null());
}

#[test]
fn executions_are_found_on_every_platform() {
    let modules = |name: &str| {
        let found = rows(&["modules", &trace(name), "--sort", "name"]);
        let of = |row: &Value| (text(row, "module").to_owned(), number(row, "executions"), number(row, "events"));
        found.iter().map(of).collect::<Vec<_>>()
    };
    let autotune = modules("gpu_autotune.xplane.pb");
    let name = |number| format!("jit_autotune_fn_{number}");
    assert_eq!(autotune, [(name(0), 5, 20), (name(1), 5, 10), (name(2), 5, 10), (name(3), 5, 15)]);
    assert_eq!(modules("gpu_train_3.xplane.pb"), [("jit__lambda".to_owned(), 3, 1095)]);
    assert_eq!(modules("gpu_train_200.xplane.pb.xz")[0].1, 200);
    let calls: Vec<i64> = modules("h200_kernels_a.xplane.pb.xz").iter().map(|module| module.1).collect();
    assert_eq!(calls, [19_328, 3_634, 22_990, 5_860]);
    let executions = rows(&["executions", &trace("gpu_autotune.xplane.pb")]);
    assert_eq!(executions.len(), 20);
    assert!(executions.is_sorted_by_key(|row| number(row, "start_ps")));
    assert!(executions.iter().all(|row| text(row, "found_by") == "scope"), "{executions:?}");
    assert_eq!(executions.iter().map(|row| number(row, "events")).sum::<i64>(), 55);
    let cpu = rows(&["executions", &trace("small_cpu_666.xplane.pb"), "--prefix", "jit_step"]);
    assert_eq!((cpu.len(), text(&cpu[0], "found_by")), (5, "run_id"));
}

#[test]
fn steps_come_from_annotations() {
    let steps = rows(&["steps", &trace("gpu_train_3.xplane.pb")]);
    let of = |row: &Value| (number(row, "step"), number(row, "events"), number(row, "executions"));
    assert_eq!(steps.iter().map(of).collect::<Vec<_>>(), [(0, 365, 1), (1, 365, 1), (2, 365, 1)]);
    assert!(steps.iter().all(|step| text(step, "found_by") == "annotation" && text(step, "name") == "train"));
    let (table, _) = output_of(&["steps", &trace("gpu_autotune.xplane.pb")]);
    assert!(table.contains("no step annotations") && table.contains("8 of 55 events"), "{table}");
}

#[test]
fn rows_are_consistent() {
    let file = trace("gpu_autotune.xplane.pb");
    for (command, key) in [("ops", "op"), ("kernels", "kernel")] {
        let rows = rows(&[command, &file]);
        assert_eq!(rows.iter().map(|row| number(row, "count")).sum::<i64>(), 55, "{command}");
        assert!(rows.iter().all(|row| row[key] == row["name"]));
        assert!(rows.is_sorted_by(|left, right| number(left, "self_ps") >= number(right, "self_ps")));
        let shares: f64 = rows.iter().map(|row| row["share"].as_f64().unwrap()).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{shares}");
        for row in &rows {
            let ordered = ["min_ps", "median_ps", "p90_ps", "max_ps"].map(|key| row[key].as_f64().unwrap());
            assert!(ordered.is_sorted(), "{row}");
            assert!(number(row, "busy_ps") <= number(row, "total_ps"), "{row}");
        }
    }
    let classes = rows(&["ops", &file]).iter().filter(|row| text(row, "class") == "compute").count();
    assert_eq!(classes, 10, "a custom call that clears its memory first still computes");
    let gaps = rows(&["gaps", &file]);
    let idle: i64 = gaps.iter().map(|gap| number(gap, "duration_ps")).sum();
    assert_eq!((gaps.len(), idle), (45, 5_370_871_000 - 2_170_054_000));
    let scopes = rows(&["scopes", &file]);
    let roots: i64 = scopes.iter().filter(|row| number(row, "depth") == 0).map(|row| number(row, "count")).sum();
    assert_eq!(roots, 55);
}

#[test]
fn filters_order_and_top_apply() {
    let file = trace("gpu_autotune.xplane.pb");
    let all = rows(&["ops", &file]);
    let some = rows(&["ops", &file, "--regex", "fn_[01]$", "--min-duration", "2us"]);
    assert!(!some.is_empty() && some.len() < all.len());
    for row in &some {
        assert!(["jit_autotune_fn_0", "jit_autotune_fn_1"].contains(&text(row, "module")), "{row}");
        assert!(number(row, "min_ps") >= 2_000_000, "{row}");
    }
    let gemms = rows(&["kernels", &file, "--prefix", "gemm_"]);
    assert!(!gemms.is_empty() && gemms.iter().all(|row| text(row, "name").starts_with("gemm_")));
    let by_max = rows(&["ops", &file, "--sort", "max", "--top", "3"]);
    assert_eq!(by_max.len(), 3);
    assert!(by_max.is_sorted_by(|left, right| number(left, "max_ps") >= number(right, "max_ps")));
    let by_name = rows(&["ops", &file, "--sort", "name", "--reverse"]);
    assert!(by_name.is_sorted_by(|left, right| text(left, "name") >= text(right, "name")));
    let host = rows(&["events", &file, "--device", "HOST:cpu"]);
    assert!(host.iter().all(|row| text(row, "plane") == "/host:CPU"));
    let both = rows(&["events", &file, "--device", "gpu:0,host"]);
    assert_eq!(both.len(), rows(&["events", &file]).len());
    let (table, _) = output_of(&["ops", &file, "--top", "2"]);
    assert!(table.contains("… and 8 more: --top 0 prints all"), "{table}");
    let module = |command: &str| rows(&[command, &file, "--module", "fn_3"]);
    assert!(module("ops").iter().chain(&module("executions")).all(|row| text(row, "module") == "jit_autotune_fn_3"));
    assert_eq!((module("ops").len(), module("executions").len()), (2, 5));
    let copies = rows(&["kernels", &file, "--class", "memcpy", "--sort", "share"]);
    assert!(!copies.is_empty() && copies.iter().all(|row| text(row, "class") == "memcpy"), "{copies:?}");
    let (shown, note) = output_of(&["summary", &file, "--device", "cpu"]);
    assert!(note.contains("no matching device has events; the devices with events are /device:GPU:0"), "{note}");
    assert!(!shown.contains("note"), "{shown}");
    let (shown, _) = output_of(&["summary", &file, "--prefix", "jit_autotune_fn_0"]);
    assert!(shown.contains("20 executions of 4 modules") && shown.contains("note  the filter applies"), "{shown}");
    let (table, note) = output_of(&["ops", &file, "--prefix", "nothing_like_it"]);
    assert_eq!(table, "");
    assert!(note.contains("no ops match the filter"), "{note}");
}

#[test]
fn csv_has_the_same_figures_as_json() {
    for command in ["ops", "modules", "executions", "steps", "gaps", "scopes"] {
        let file = trace("gpu_autotune.xplane.pb");
        let (csv, _) = output_of(&[command, &file, "--format", "csv"]);
        let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let head = lines.next().unwrap();
        let json = rows(&[command, &file]);
        let lines: Vec<Vec<&str>> = lines.collect();
        assert_eq!(lines.len(), json.len(), "{command}");
        let busy = head.iter().position(|key| ["busy_ps", "duration_ps"].contains(key)).unwrap();
        for (line, row) in lines.iter().zip(&json) {
            assert_eq!(line.len(), head.len(), "{command}: {line:?}");
            assert_eq!(line[busy].parse::<i64>().unwrap(), number(row, head[busy]), "{command}");
        }
    }
    let (csv, _) = output_of(&["summary", &trace("gpu_autotune.xplane.pb"), "--format", "csv"]);
    assert!(csv.starts_with("plane,host,line,line_id,events,"), "{csv}");
    assert!(csv.lines().any(|line| line.starts_with("/device:GPU:0,") && line.contains(",,,55,")), "{csv}");
}

#[test]
fn events_are_printed_with_all_values() {
    let file = trace("gpu_autotune.xplane.pb");
    let (lines, _) = output_of(&["cat", &file]);
    let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 781);
    let device: Vec<&Value> = events.iter().filter(|event| text(event, "plane") == "/device:GPU:0").collect();
    assert_eq!(device.len(), 55);
    let total: i64 = rows(&["kernels", &file]).iter().map(|row| number(row, "total_ps")).sum();
    assert_eq!(device.iter().map(|event| number(event, "duration_ps")).sum::<i64>(), total);
    let first = device[0];
    assert_eq!((text(first, "name"), number(first, "start_ps")), ("gemm_fusion_dot", 14_262_789_000));
    let stats = &first["stats"];
    assert_eq!((number(stats, "scope_range_id"), text(stats, "hlo_op")), (281_474_976_710_658, "gemm_fusion_dot"));
    assert_eq!(stats["theoretical_occupancy_pct"], 25.0);
    let (few, _) = output_of(&["cat", &file, "--device", "gpu", "--prefix", "loop_", "--top", "3", "--metadata"]);
    assert_eq!(few.lines().count(), 3);
    assert!(few.lines().all(|line| line.contains("\"name\":\"loop_") && line.contains("\"kind_stats\":{")), "{few}");
}

#[test]
fn compressed_piped_and_several_files_are_read() {
    let (plain, folder) = (trace("gpu_autotune.xplane.pb"), tempfile::tempdir().unwrap());
    let bytes = fs::read(&plain).unwrap();
    let packed = folder.path().join("gpu_autotune.xplane.pb.gz");
    let mut writer = flate2::write::GzEncoder::new(fs::File::create(&packed).unwrap(), flate2::Compression::fast());
    writer.write_all(&bytes).unwrap();
    writer.finish().unwrap();
    let expected = rows(&["ops", &plain]);
    assert_eq!(rows(&["ops", packed.to_str().unwrap()]), expected);
    assert_eq!(rows(&["ops", folder.path().to_str().unwrap()]), expected, "a folder is read as the files in it");
    let piped = ergo().args(["trace", "ops", "-", "--format", "json"]).write_stdin(bytes).output().unwrap();
    assert_eq!(serde_json::from_slice::<Vec<Value>>(&piped.stdout).unwrap(), expected);
    let two = json(&["summary", &plain, &trace("gpu_infer_20.xplane.pb")]);
    let gpus = two["planes"].as_array().unwrap().iter().filter(|plane| text(plane, "name") == "/device:GPU:0");
    assert_eq!(gpus.map(|plane| number(plane, "events")).sum::<i64>(), 55 + 3120);
    assert_eq!(two["files"].as_array().unwrap().len(), 2);
    let notes = two["notes"].to_string();
    assert!(notes.contains("2 profiler sessions") && !notes.contains("twice"), "{notes}");
    let again = json(&["summary", &plain, packed.to_str().unwrap()])["notes"].to_string();
    assert!(again.contains("counts twice") && !again.contains("profiler sessions"), "{again}");
    let packed = packed.to_str().unwrap();
    assert_fails(&["trace", "ops", packed, "--max-size", "10KiB"], 1, &["limit of 10240 bytes", "--max-size"]);
    let piped =
        ergo().args(["trace", "ops", "-", "--max-size", "10KiB"]).write_stdin(vec![0; 10_241]).output().unwrap();
    let messages = stderr(&piped);
    assert!(messages.contains("standard input") && messages.contains("the path of an uncompressed file"), "{messages}");
}

#[test]
fn truncated_traces_are_reported_or_read_with_lenient() {
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("cut.xplane.pb");
    let whole = fs::read(trace("gpu_autotune.xplane.pb")).unwrap();
    fs::write(&cut, &whole[..whole.len() * 9 / 10]).unwrap();
    let cut = cut.to_str().unwrap();
    assert_fails(&["trace", "summary", cut], 1, &["cut.xplane.pb is damaged", "hint: ", "--lenient"]);
    let (text, warnings) = output_of(&["summary", cut, "--lenient", "--format", "json"]);
    let summary: Value = serde_json::from_str(&text).unwrap();
    assert!(warnings.contains("warning: ") && warnings.contains("skipped 25 damaged bytes"), "{warnings}");
    assert!(!summary["warnings"].as_array().unwrap().is_empty());
    assert_eq!(number(&summary["planes"][0], "events"), 55, "the GPU is before the cut");
}

#[test]
fn wrong_usage_is_reported() {
    let file = trace("gpu_autotune.xplane.pb");
    assert_fails(
        &["trace", "modules", &file, "--device", "tpu"],
        2,
        &["`tpu`", "hint: the devices are /device:GPU:0, /host:CPU"],
    );
    assert_fails(&["trace", "ops", &file, "--device", "tpu"], 2, &["`tpu`", "hint: the devices are /device:GPU:0"]);
    assert_fails(&["trace", "ops", &file, "--regex", "jit_(a"], 2, &["unclosed group", "jit_(a\n        ^"]);
    assert_fails(&["trace", "ops", &file, "--min-duration", "5"], 2, &["`5` is not a duration", "500ns"]);
    assert_fails(&["trace", "ops", &file, "--sort", "beauty"], 2, &["beauty", "median"]);
    assert_fails(&["trace", "gaps", &file, "--sort", "p90"], 2, &["p90", "duration, start"]);
    assert_fails(&["trace", "ops", &file, "--max-size", "lots"], 2, &["`lots` is not a size"]);
    assert_fails(&["trace", "cat", &file, "--format", "csv"], 2, &["jsonl"]);
    assert_fails(&["trace", "ops"], 2, &["FILE"]);
    assert_fails(&["trace", "ops", "/nowhere.xplane.pb"], 1, &["/nowhere.xplane.pb", "hint: "]);
    assert_fails(&["trace", "ops", file!()], 1, &["hint: "]);
    let folder = tempfile::tempdir().unwrap();
    assert_fails(&["trace", "ops", folder.path().to_str().unwrap()], 1, &["no trace in", "hint: "]);
}
