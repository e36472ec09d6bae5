//! Threads that cannot be started: an error, not a panic.
//!
//! Each thread reserves one gibibyte of address space, and `ulimit -v` leaves room for a number of threads: the rest
//! cannot be started. This fails like `ulimit -u`, which has no effect on root. The room besides the threads is large
//! enough that no other allocation fails.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};

use super::{stderr, stdout};

const STACK_BYTES: u64 = 1 << 30;
/// The address space of everything but the stacks, in kibibytes.
const ROOM_KIB: u64 = 900_000;

/// The threads that send requests.
fn senders() -> u64 {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() as u64 / 2).max(1))
}

/// Runs `ergo` with address space for this many threads.
fn with_threads(threads: u64, arguments: &[&str]) -> Output {
    let limit = ROOM_KIB + threads * STACK_BYTES / 1024;
    let script = format!("ulimit -v {limit}; exec \"$0\" \"$@\"");
    assert_cmd::Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_ergo")])
        .args(arguments)
        .env("RUST_MIN_STACK", STACK_BYTES.to_string())
        // One arena for all threads: another one reserves 64 MiB.
        .env("MALLOC_ARENA_MAX", "1")
        .env("RAYON_NUM_THREADS", "2")
        .timeout(Duration::from_secs(60))
        .output()
        .unwrap()
}

/// Runs `ergo` with room for few threads, and checks that it fails properly if it fails. Returns the messages without
/// room for any thread.
fn assert_no_panic(arguments: &[&str]) -> String {
    let outputs: Vec<Output> = [0, 1, 2, 3, 5].map(|threads| with_threads(threads, arguments)).into();
    for (output, place) in outputs.iter().zip(0..) {
        let message = stderr(output);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}, {place}: {:?} {message}", output.status);
        assert!(!message.contains("panicked"), "{arguments:?}, {place}: {message}");
    }
    stderr(&outputs[0])
}

#[test]
fn runs_report_that_no_thread_can_be_started() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().to_str().unwrap();
    let profile = ["profile", "--idle", "0s", "--max-queries", "2", "--overwrite", "--output-dir", runs];
    let message = assert_no_panic(&profile);
    assert!(message.contains("error: cannot start a thread: ") && message.contains("hint: "), "{message}");
    assert_eq!(with_threads(senders() + 16, &profile).status.code(), Some(0), "this many threads are enough");
}

#[test]
fn measurements_report_that_no_thread_can_be_started() {
    let message = assert_no_panic(&["measure", "--idle", "0s", "--", "true"]);
    assert!(message.contains("error: cannot start a thread: "), "{message}");
    assert!(assert_no_panic(&["monitor", "--once"]).contains("error: cannot start a thread: "));
    assert!(assert_no_panic(&["doctor", "--duration", "100ms"]).contains("error: cannot start a thread: "));
}

/// A name is looked up on a thread.
#[test]
fn clients_and_servers_report_that_no_thread_can_be_started() {
    let list = ["list", "models", "--client", "openai", "--base-url", "http://localhost:9"];
    assert!(assert_no_panic(&list).contains("error: cannot start a thread: "));
    let server = with_threads(0, &["mock-server", "--port", "0"]);
    assert_eq!(server.status.code(), Some(1));
    assert!(stderr(&server).contains("error: cannot start a thread: "), "{}", stderr(&server));
}

#[test]
fn traces_report_that_no_thread_can_be_started() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/xplane/h200_kernels_a.xplane.pb.xz");
    assert!(assert_no_panic(&["trace", "summary", trace]).contains("error: cannot start a thread: "));
}

/// The curves of several devices are built on several threads, or one after the other if there are none.
#[test]
fn energy_needs_no_threads() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/telemetry/h200_truth_a.json.gz");
    let arguments = ["energy", recording, "--format", "json", "--window", "1794730796077058..1794730796104278"];
    let energy = |threads| stdout(&with_threads(threads, &arguments));
    assert!(energy(0).contains("joules") && energy(0) == energy(16), "{}", energy(0));
}

/// Writes a model with a matrix of 2^18 weights, which are all zero.
fn write_large_model(folder: &Path) {
    let tiny = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/models/tiny");
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(tiny.join(file), folder.join(file)).unwrap();
    }
    let (width, inner, vocabulary) = (512, 24, 260);
    let mut config: Value = serde_json::from_slice(&std::fs::read(tiny.join("config.json")).unwrap()).unwrap();
    for (key, value) in [("hidden_size", width), ("intermediate_size", inner), ("num_hidden_layers", 1)] {
        config[key] = json!(value);
    }
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let layer = "model.layers.0";
    let tensors: Vec<(String, Vec<usize>)> = vec![
        (String::from("model.embed_tokens.weight"), vec![vocabulary, width]),
        (String::from("lm_head.weight"), vec![vocabulary, width]),
        (String::from("model.norm.weight"), vec![width]),
        (format!("{layer}.input_layernorm.weight"), vec![width]),
        (format!("{layer}.post_attention_layernorm.weight"), vec![width]),
        (format!("{layer}.self_attn.q_proj.weight"), vec![width, width]),
        (format!("{layer}.self_attn.k_proj.weight"), vec![width, width]),
        (format!("{layer}.self_attn.v_proj.weight"), vec![width, width]),
        (format!("{layer}.self_attn.o_proj.weight"), vec![width, width]),
        (format!("{layer}.mlp.gate_proj.weight"), vec![inner, width]),
        (format!("{layer}.mlp.up_proj.weight"), vec![inner, width]),
        (format!("{layer}.mlp.down_proj.weight"), vec![width, inner]),
    ];
    let (mut header, mut end) = (serde_json::Map::new(), 0);
    for (name, shape) in tensors {
        let start = end;
        end += 2 * shape.iter().product::<usize>();
        header.insert(name, json!({"dtype": "F16", "shape": shape, "data_offsets": [start, end]}));
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.resize(file.len() + end, 0);
    std::fs::write(folder.join("model.safetensors"), file).unwrap();
}

#[test]
fn a_large_model_reports_that_no_thread_can_be_started() {
    let folder = tempfile::tempdir().unwrap();
    write_large_model(folder.path());
    let (model, runs) = (folder.path().to_str().unwrap(), folder.path().join("runs"));
    let arguments = [
        "profile",
        "--model",
        model,
        "--idle",
        "0s",
        "--max-queries",
        "1",
        "--max-tokens",
        "1",
        "--overwrite",
        "--output-dir",
        runs.to_str().unwrap(),
    ];
    // The threads of the model are started after those of the runtime and before all others.
    for threads in 1..5 {
        let output = with_threads(senders() + threads, &arguments);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("error: ") && message.contains("cannot start a thread: "), "{message}");
        assert!(!message.contains("panicked"), "{message}");
    }
    let output = with_threads(senders() + 20, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}
