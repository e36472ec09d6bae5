//! Help, manual, completions, and `ergo doctor`.

use super::{assert_fails, ergo, stdout};

#[test]
fn help_shows_the_commands_and_their_options() {
    let mut seen = String::new();
    for arguments in [
        &["--help"][..],
        &["doctor", "--help"],
        &["monitor", "--help"],
        &["measure", "--help"],
        &["energy", "--help"],
        &["trace", "--help"],
        &["trace", "summary", "--help"],
        &["trace", "ops", "--help"],
        &["trace", "cat", "--help"],
        &["profile", "--help"],
        &["analyze", "--help"],
        &["list", "--help"],
        &["mock-server", "--help"],
        &["compare", "--help"],
    ] {
        let output = ergo().args(arguments).output().unwrap();
        assert!(output.status.success());
        seen.extend(["$ ergo ", &arguments.join(" "), "\n", &stdout(&output), "\n"]);
    }
    insta::assert_snapshot!(seen);
}

#[test]
fn a_manual_page_and_completions_are_generated() {
    let man = ergo().arg("man").output().unwrap();
    assert!(stdout(&man).contains(".TH ergo 1"));
    for shell in ["bash", "zsh", "fish"] {
        let script = ergo().args(["completions", shell]).output().unwrap();
        assert!(script.status.success() && stdout(&script).contains("monitor"), "{shell}");
    }
}

#[test]
fn doctor_finds_or_explains_every_source() {
    let output = ergo().args(["doctor", "--format", "json", "--duration", "600ms", "--quiet"]).output().unwrap();
    assert!(output.status.success());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["source"] == "RAPL"), "{report}");
    assert!(findings.iter().any(|finding| finding["device"].as_str().unwrap().contains("NVIDIA")), "{report}");
    for finding in findings {
        assert!(["works", "limited", "absent"].contains(&finding["status"].as_str().unwrap()));
        assert!(!finding["detail"].as_str().unwrap().is_empty());
    }
    assert!(!report["sensors"].as_array().unwrap().is_empty(), "the host has at least one sensor");
}

#[test]
fn wrong_usage_is_reported() {
    assert_fails(
        &["doctor", "--device", "gpu:99"],
        2,
        &["no device or sensor `gpu:99`", "hint: choose one of the devices"],
    );
    assert_fails(&["monitor", "--device", "nvml-nonsense:0"], 2, &["no device or sensor `nvml-nonsense:0`"]);
    assert_fails(&["monitor", "--interval", "5"], 2, &["`5` is not a duration", "500ms"]);
    assert_fails(&["monitor", "--duration", "5000000000000000h"], 2, &["longer than a year"]);
    assert_fails(&["monitor", "--interval", "1ms"], 2, &["shorter than 10 ms", "--interval 10ms"]);
    assert_fails(&["monitor", "--format", "xml"], 2, &["jsonl"]);
    assert_fails(&["frobnicate"], 2, &["unrecognized subcommand"]);
    assert_fails(&["measure"], 2, &["COMMAND"]);
}
