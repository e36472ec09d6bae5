//! `ergo trace` on constructed traces: several devices on one plane, control characters, files that are not traces.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Output;

use ergometer_trace_testing::xspace::{Space, Style};
use ergometer_trace_testing::{Event, Line, Plane};
use serde_json::Value;

use super::{assert_fails, ergo, stderr, stdout};

/// An op on the host: name, start and length in nanoseconds, device.
type Op = (&'static str, i64, i64, i64);

/// The bytes of a trace with ops of the module `jit_f` on one thread, and one warning of the profiler.
fn space(ops: &[Op], warning: &str) -> Vec<u8> {
    let event = |&(name, start_ns, duration_ns, ordinal): &Op| Event {
        module: Some("jit_f"),
        op: Some("an_op"),
        ordinal: Some(ordinal),
        ..Event::new(name, start_ns, duration_ns)
    };
    let line = Line { name: "worker", ..Line::new(7, ops.iter().map(event).collect()) };
    let plane = Plane { name: "/host:CPU", lines: vec![line] };
    let warnings = if warning.is_empty() { Vec::new() } else { vec![warning.into()] };
    Space { planes: vec![(&plane).into()], warnings, ..Space::default() }.encode(Style::Plain)
}

fn piped(arguments: &[&str], bytes: Vec<u8>) -> Output {
    let output = ergo().arg("trace").args(arguments).arg("-").write_stdin(bytes).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    output
}

fn rows(arguments: &[&str], bytes: &[u8]) -> Vec<Value> {
    let output = piped(&[arguments, &["--format", "json"]].concat(), bytes.to_vec());
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn devices_of_one_plane_are_separated() {
    let bytes = space(&[("a", 0, 10, 0), ("b", 20, 30, 0), ("c", 100, 5, 1), ("d", 200, 5, 1), ("e", 300, 1, 1)], "");
    let ops = rows(&["kernels"], &bytes);
    let of = |row: &Value| (row["kernel"].as_str().unwrap().to_owned(), row["device_ordinal"].as_i64().unwrap());
    let expected = [("b", 0), ("a", 0), ("c", 1), ("d", 1), ("e", 1)].map(|(name, ordinal)| (name.to_owned(), ordinal));
    assert_eq!(ops.iter().map(of).collect::<Vec<_>>(), expected);
    assert!(ops.iter().all(|row| row["plane"] == "/host:CPU"));
    let first = rows(&["kernels", "--top", "1"], &bytes);
    assert_eq!(
        first.iter().map(of).collect::<Vec<_>>(),
        [expected[0].clone(), expected[2].clone()],
        "one row per device"
    );
    let table = stdout(&piped(&["kernels", "--top", "2"], bytes.clone()));
    assert!(table.contains("/host:CPU#0") && table.contains("/host:CPU#1") && table.contains("and 1 more"), "{table}");
    assert_eq!(rows(&["modules", "--device", "cpu#1"], &bytes)[0]["events"], 3);
    for command in ["ops", "modules", "executions", "steps", "gaps", "scopes"] {
        let found = rows(&[command, "--device", "cpu#1"], &bytes);
        assert!(!found.is_empty() && found.iter().all(|row| row["device_ordinal"] == 1), "{command}: {found:?}");
    }
    let lines = stdout(&piped(&["cat", "--device", "cpu#0"], bytes.clone()));
    assert_eq!(lines.lines().count(), 2, "{lines}");
    let output = piped(&["summary", "--format", "json"], bytes.clone());
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let work = summary["planes"][0]["work"].as_array().unwrap();
    let figures = |work: &Value| ["device_ordinal", "busy_ps", "span_ps"].map(|key| work[key].as_i64().unwrap());
    assert_eq!(work.iter().map(figures).collect::<Vec<_>>(), [[0, 40_000, 50_000], [1, 11_000, 201_000]]);
    assert_eq!(work[1]["top"].as_array().unwrap().len(), 1, "the op is the same");
    let shown = stdout(&piped(&["summary"], bytes));
    assert!(shown.contains("/host:CPU#0   busy 40.00 of 50.00 ns (80.0 %)"), "{shown}");
}

#[test]
fn steps_are_not_busy_longer_than_their_duration() {
    let bytes = space(&[("a", 0, 10, 0), ("b", 20, 30, 0), ("c", 100, 5, 0)], "");
    for step in rows(&["steps"], &bytes) {
        let time = |key: &str| step[key].as_i64().unwrap();
        assert!(time("busy_ps") <= time("span_ps") && time("span_ps") > 0, "{step}");
        assert!(time("window_start_ps") <= time("start_ps") && step["share"].as_f64().unwrap() <= 1.0, "{step}");
    }
}

#[test]
fn control_characters_are_escaped() {
    let name = "evil\u{1b}[2J\u{7}\0\nerror: fake\u{202e}";
    let bytes = space(&[(name, 0, 10, 0)], "lost \u{1b}]0;x\u{7}\nwarning: more");
    for command in ["summary", "ops", "kernels", "events", "modules", "executions", "steps", "gaps", "scopes"] {
        let output = piped(&[command], bytes.clone());
        for text in [stdout(&output), stderr(&output)] {
            let is_bad = |character: char| (character.is_control() && character != '\n') || character == '\u{202e}';
            assert!(!text.contains(is_bad), "{command}: {text:?}");
            assert!(!text.contains("\nerror: fake") && !text.contains("\nwarning: more"), "{command}: {text}");
        }
    }
    let output = piped(&["kernels"], bytes.clone());
    assert!(stdout(&output).contains(r"evil\u{1b}[2J\u{7"), "{}", stdout(&output));
    assert!(
        stderr(&output).contains(r"the profiler reported a warning: lost \u{1b}]0;x\u{7}\nwarning: more"),
        "{}",
        stderr(&output)
    );
    assert_eq!(rows(&["kernels"], &bytes)[0]["name"], name, "JSON has the name unescaped");
}

#[test]
fn warnings_are_printed_in_every_format() {
    let bytes = space(&[("a", 0, 10, 0)], "dropped 7 events");
    for command in ["summary", "ops", "modules", "executions", "steps", "gaps", "scopes", "functions"] {
        for format in ["table", "json", "csv"] {
            let messages = stderr(&piped(&[command, "--format", format], bytes.clone()));
            assert!(
                messages.contains("warning: the profiler reported a warning: dropped 7 events"),
                "{command} {format}: {messages}"
            );
        }
    }
}

#[test]
fn events_of_zero_duration_take_no_time() {
    let shown = stdout(&piped(&["summary"], space(&[("a", 5, 0, 0)], "")));
    assert!(shown.contains("busy 0 ps") && !shown.contains("100 %)"), "{shown}");
}

#[test]
fn a_file_that_is_not_a_trace_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path: PathBuf = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_string_lossy().into_owned()
    };
    let pack = |bytes: &[u8]| {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    };
    let json = b" \n{\"traceEvents\": []}";
    let says = ["is JSON (a Chrome or PyTorch trace)", "not supported yet", "hint: "];
    assert_fails(&["trace", "ops", &write("trace.json", json)], 1, &says);
    assert_fails(&["trace", "ops", &write("trace.json.gz", &pack(json))], 1, &says);
    let whole = space(&[("a", 0, 10, 0)], "");
    let mut followed = pack(&whole);
    followed.extend(pack(&[]));
    followed.extend(b"more");
    let followed = write("followed.gz", &followed);
    assert_fails(&["trace", "ops", &followed], 1, &["4 bytes that are not gzip follow its end", "--lenient"]);
    let kept = ergo().args(["trace", "ops", "--lenient", &followed]).output().unwrap();
    assert!(kept.status.success() && stdout(&kept).contains("an_op"), "{}", stderr(&kept));
    let cut = write("cut.xplane.pb", &whole[..3]);
    let output = ergo().args(["trace", "ops", "--lenient", &cut]).output().unwrap();
    assert!(!output.status.success() && !stderr(&output).contains("--lenient"), "{}", stderr(&output));
    let output = ergo().args(["trace", "ops", "-"]).write_stdin(Vec::new()).output().unwrap();
    assert!(stderr(&output).contains("standard input is empty"), "{}", stderr(&output));
    let plain = write("plain.xplane.pb", &whole);
    let output = ergo().args(["trace", "ops", &plain, &plain]).output().unwrap();
    assert!(stderr(&output).contains("given more than once"), "{}", stderr(&output));
}
