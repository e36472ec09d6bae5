//! `--sensor`: the user's own meter in every command that reads sensors, without leaking its secrets.

use std::path::Path;

use serde_json::Value;

use super::profile::{json, run_in};
use super::{assert_fails, ergo, stderr};

const METER: &str = "command[name=bmc,every=50ms]:true hunter2; echo Instantaneous power reading: 300 Watts";

#[test]
fn doctor_separates_working_meters_from_broken_ones() {
    let arguments = [
        "doctor",
        "--format",
        "json",
        "--duration",
        "1s",
        "--quiet",
        "--sensor",
        METER,
        "--sensor",
        "command:echo 'fish. hint: none'",
        "--sensor",
        "command:echo 40 W",
    ];
    let output = ergo().args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let finding = |source: &str| {
        let mut findings = report["findings"].as_array().unwrap().iter();
        findings.find(|finding| finding["source"] == source).unwrap_or_else(|| panic!("{report}")).clone()
    };
    assert_eq!(finding("command:bmc")["status"], "works");
    let broken = finding("command:echo");
    assert_eq!(broken["status"], "absent");
    assert!(broken["detail"].as_str().unwrap().ends_with("`fish. hint: none`"), "{broken}");
    assert!(broken["fix"].as_str().unwrap().starts_with("set pattern="), "{broken}");
    assert_eq!(finding("command:echo-2")["status"], "works", "sensor ids are unique");
    assert!(!report.to_string().contains("hunter2"), "the command is not shown: {report}");
}

#[test]
fn a_meter_without_a_value_is_an_error_before_the_measurement() {
    assert_fails(&["measure", "--sensor", "command:exit 3", "--", "true"], 1, &["command:exit", "exit status: 3"]);
    assert_fails(&["measure", "--sensor", "csv:/no/such/file", "--", "true"], 1, &["csv:file", "/no/such/file"]);
    assert_fails(&["measure", "--sensor", "ipmitool", "--", "true"], 2, &["KIND:TARGET"]);
    assert_fails(&["profile", "--sensor", "command[colour=red]:echo 3 W"], 2, &["colour"]);
}

#[test]
fn an_invalid_meter_is_reported_without_its_command() {
    let wrong = "command[timout=5s]:ipmitool -P hunter2 dcmi power reading";
    for arguments in [&["doctor"][..], &["monitor", "--once"], &["measure"], &["profile"]] {
        let output = ergo().args(arguments).args(["--sensor", wrong]).output().unwrap();
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(
            message.contains("error: --sensor: a command sensor has no key `timout`\nhint: the keys are name, every"),
            "{message}"
        );
        assert!(!message.contains("hunter2"), "{message}");
    }
}

/// The counter of a PDU, in tenths of a kWh, has more than the six digits that awk's `print` writes.
#[test]
fn the_pdu_example_of_the_guide_keeps_the_last_digit() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sensors.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let line = guide.lines().find(|line| line.contains("unit=kWh") && line.contains("awk")).unwrap();
    let awk = line.rsplit_once("| ").unwrap().1.trim_end_matches('\'');
    let output = std::process::Command::new("sh").args(["-c", &format!("echo 12345678 | {awk}")]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1234567.8\n", "{}", stderr(&output));
}

#[test]
fn energy_is_measured_with_a_meter_of_300_watts() {
    let arguments =
        ["measure", "--idle", "0s", "--format", "json", "--sensor", METER, "--device", "meter", "--", "sleep", "1"];
    let output = ergo().args(arguments).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let devices = report["devices"].as_array().unwrap();
    assert_eq!(devices.len(), 1, "{report}");
    let (energy, seconds) =
        (devices[0]["gross_j"]["mean"].as_f64().unwrap(), report["duration_s"]["mean"].as_f64().unwrap());
    assert_eq!((&devices[0]["device"], &devices[0]["summed"]), (&"meter:0".into(), &true.into()));
    assert!((energy / (300.0 * seconds) - 1.0).abs() < 0.01, "{energy} J in {seconds} s of 300 W");
}

/// The files of a run that contain a word.
fn files_with(word: &[u8], folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(word, &path));
        } else if std::fs::read(&path).unwrap().windows(word.len()).any(|part| part == word) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn a_run_uses_the_meter_and_does_not_store_its_command() {
    let folder = tempfile::tempdir().unwrap();
    let mut profile = ergo();
    profile.args([
        "profile",
        "--idle",
        "0s",
        "--max-queries",
        "40",
        "--sensor",
        METER,
        "--device",
        "meter",
        "--output-dir",
    ]);
    let output = profile.arg(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let run = run_in(folder.path());
    let summary = json(&run.join("summary.json"));
    let devices = summary["energy"]["devices"].as_array().unwrap_or_else(|| panic!("{summary}"));
    assert_eq!(devices.len(), 1, "{devices:?}");
    assert_eq!((&devices[0]["device"], &devices[0]["summed"]), (&"meter:0".into(), &true.into()));
    assert_eq!(files_with(b"hunter2", &run), Vec::<String>::new());
    assert!(!files_with(b"command:bmc", &run).is_empty(), "the name of the sensor is stored");
}

/// A sensor command that gives values and then hangs.
fn hanging_meter(folder: &Path, values: usize) -> String {
    let count = folder.join("count");
    // The processes that it starts hang, too.
    let hang = format!("{{ sleep 600 & echo $! > {0}/process; wait; }}", folder.display());
    format!("echo x >> {0}; test $(wc -l < {0}) -le {values} || {hang}; echo 300 W", count.display())
}

#[test]
fn the_energy_of_a_meter_that_hangs_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let meter = format!("command[name=bmc,every=20ms,timeout=200ms]:{}", hanging_meter(folder.path(), 3));
    let runs = folder.path().join("runs");
    let mut profile = ergo();
    profile.args(["profile", "--idle", "500ms", "--max-queries", "20", "--device", "meter", "--sensor", &meter]);
    let output = profile.arg("--output-dir").arg(&runs).output().unwrap();
    let messages = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{messages}");
    assert!(messages.contains("the command did not end within 0.2 s and was killed"), "{messages}");
    assert!(messages.contains("the energy of meter:0 bmc is unknown"), "{messages}");
    for wrong in ["still running", "no sensor measures energy", "abandoned"] {
        assert!(!messages.contains(wrong), "{messages}");
    }
    let summary = json(&run_in(&runs).join("summary.json"));
    let energy = &summary["energy"];
    assert_eq!((&energy["measured"], &energy["modelled"]), (&Value::Null, &Value::Null), "{energy}");
    let device = &energy["devices"][0];
    assert_eq!(
        (&device["device"], &device["gross_j"], &device["balance"]),
        (&"meter:0".into(), &Value::Null, &Value::Null)
    );
    assert_eq!(energy["queries_without_energy"], 20);
}

#[cfg(target_os = "linux")]
#[test]
fn a_killed_ergo_leaves_no_sensor_command_behind() {
    let folder = tempfile::tempdir().unwrap();
    let meter = format!("command[name=bmc,every=20ms]:{}", hanging_meter(folder.path(), 3));
    for arguments in [&["measure", "--", "sleep", "600"][..], &["monitor", "--duration", "1h", "--format", "jsonl"]] {
        let (first, rest) = arguments.split_first().unwrap();
        let mut ergo = std::process::Command::new(env!("CARGO_BIN_EXE_ergo"))
            .args([first, "--sensor", &meter])
            .args(rest)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let process = super::line_in(&folder.path().join("process"));
        ergo.kill().unwrap();
        ergo.wait().unwrap();
        super::assert_ends(&process);
        for file in ["process", "count"] {
            std::fs::remove_file(folder.path().join(file)).unwrap();
        }
    }
}
