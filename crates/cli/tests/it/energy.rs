//! `ergo energy`: estimates of windows in a recording.

use std::fs;

use super::{assert_fails, ergo, fixture, stderr, stdout};

/// Two windows of the truth recording: 69 ms of `math` and 27 ms of `math`.
const WINDOWS: [(i64, i64); 2] =
    [(1_794_730_796_077_058, 1_794_730_796_104_278), (1_794_730_795_564_919, 1_794_730_795_633_779)];

fn truth() -> String {
    fixture("h200_truth_a.json.gz").to_string_lossy().into_owned()
}

#[test]
fn windows_are_printed_in_the_given_order() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("windows.txt");
    fs::write(&list, format!("# start end\n{} {}\n", WINDOWS[1].0, WINDOWS[1].1)).unwrap();
    let window = format!("{}..{}", WINDOWS[0].0, WINDOWS[0].1);
    let output = ergo().args(["energy", &truth(), "--window", &window, "--windows"]).arg(&list).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report.as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for (row, (start, end)) in rows.iter().zip(WINDOWS) {
        assert_eq!((row["start_us"].as_i64(), row["end_us"].as_i64()), (Some(start), Some(end)));
        assert_eq!(row["method"], "activity_aware");
        let number = |key: &str| row[key].as_f64().unwrap();
        let truth = 764.5 * (end - start) as f64 / 1e6;
        assert!(number("low") <= truth && truth <= number("high"), "{row}: {truth} J");
        assert!(number("low") <= number("joules") && number("joules") <= number("high"));
        let gpu = &row["devices"][0];
        assert_eq!((gpu["device"].as_str(), gpu["scope"].as_str()), (Some("gpu:0"), Some("device")));
        assert_eq!(gpu["joules"], row["joules"], "the energy of the GPU includes its memory");
    }
}

#[test]
fn tables_and_csv_are_printed() {
    let window = format!("{}..{}", WINDOWS[0].0, WINDOWS[0].1);
    let table = ergo().args(["energy", &truth(), "--format", "table", "--window", &window]).output().unwrap();
    assert!(stdout(&table).contains("27.2 ms") && stdout(&table).contains(" J ±"), "{}", stdout(&table));
    assert!(stdout(&table).contains("activity_aware: from the energy counter"), "{}", stdout(&table));
    let csv = ergo().args(["energy", &truth(), "--format", "csv", "--window", &window]).output().unwrap();
    let lines: Vec<String> = stdout(&csv).lines().map(str::to_owned).collect();
    assert_eq!(lines[0], "start_us,end_us,device,joules,low,high,method,notes");
    assert!(lines[1].contains(",all,") && lines[2].contains(",gpu:0 device,"), "{lines:?}");
}

#[test]
fn invalid_windows_and_files_are_reported() {
    let (truth, folder) = (truth(), tempfile::tempdir().unwrap());
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_string_lossy().into_owned()
    };
    assert_fails(&["energy", &truth, "--window", "2000..1000"], 2, &["ends before it starts"]);
    assert_fails(
        &["energy", &truth, "--window", "1000..2000"],
        1,
        &["window 1 (1000..2000 us) lies outside the recording", "hint:"],
    );
    assert_fails(&["energy", &truth, "--window", "soon"], 2, &["`soon` is not a window", "START_US..END_US"]);
    assert_fails(&["energy", &truth], 2, &["no window", "--windows FILE"]);
    assert_fails(&["energy", &truth, "--windows", "/nowhere"], 1, &["cannot read the windows in /nowhere"]);
    assert_fails(&["energy", &truth, "--windows", &file("latin1", b"1 2\n\xe9\n")], 1, &["cannot read the windows"]);
    assert_fails(
        &["energy", &truth, "--windows", &file("short", b"1000 2000\n17\n")],
        2,
        &["line 2", "is not a window"],
    );
    assert_fails(&["energy", "/nowhere.json.gz", "--window", "1..2"], 1, &["/nowhere.json.gz", "No such file"]);
    assert_fails(&["energy", &file("empty", b""), "--window", "1..2"], 1, &["empty"]);
    // Also if the name is part of the message.
    let relative = ergo().current_dir(&folder).args(["energy", "empty", "--window", "1..2"]).output().unwrap();
    assert!(stderr(&relative).contains("error: empty: the recording is empty"), "{}", stderr(&relative));
    assert_fails(&["energy", &file("binary", b"\x00\x01\x02\xff"), "--window", "1..2"], 1, &["hint:"]);
    assert_fails(&["energy", &file("else.json", b"{\"a\": 1}"), "--window", "1..2"], 1, &["hint:"]);
    let whole = fs::read(fixture("h200_truth_a.json.gz")).unwrap();
    assert_fails(&["energy", &file("cut.gz", &whole[..whole.len() / 2]), "--window", "1..2"], 1, &["cut.gz"]);
    assert_fails(&["energy", folder.path().to_str().unwrap(), "--window", "1..2"], 1, &["directory"]);
}
