//! Token counts that the server did not send: its tokenizer counts after the run, and the user's tokenizer on closing.

use std::fs;
use std::path::{Path, PathBuf};

use ergometer::close;
use ergometer::journal::SessionEvents;
use ergometer_clients::{TokenSource, Usage};
use ergometer_diagnostics::{CommandLine, Diagnostic};
use ergometer_mock_server::{MockServer, Script};
use ergometer_runs::config::RunConfig;
use ergometer_runs::saved::Attempt;

use crate::client::{Call, Scripted, answer};
use crate::dataset::Questions;
use crate::rig::{Rig, closed, config, has_warning};
use crate::sensors::blind;
use crate::table::Table;

fn usage(output: u64) -> Usage {
    Usage { input: 20, output, cached: None, source: TokenSource::Tokenize }
}

/// A copy of a test tokenizer: one token for each byte, and a chat template.
fn tokenizer(folder: &Path) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/models/tiny");
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(from.join(name), folder.join(name)).unwrap();
    }
    folder.join("tokenizer.json")
}

fn sources(rig: &Rig) -> Vec<Option<String>> {
    Table::read(&rig.folder()).texts("ergometer/token_source")
}

#[tokio::test]
async fn missing_tokens_are_counted_by_the_server_after_the_measurement() {
    let rig = Rig::new();
    let events = rig.journal().events_path(0);
    let count = move |index| {
        assert!(SessionEvents::read(&events).unwrap().closed.is_some(), "the session has ended");
        (index != 2).then(|| usage(3 + index))
    };
    let client = Scripted::new(|_| answer("10", 1)).counted_by(count);
    let calls = client.calls();
    let run = closed(rig.run(config(), Questions::new(5), client, blind()).await);
    assert_eq!(calls.all().last(), Some(&Call::Close));
    let mut counted = calls.counted();
    counted.sort_unstable();
    assert_eq!(counted, [0, 1, 2, 3, 4]);
    let tokens = &run.summary.tokens;
    assert_eq!((tokens.requests, tokens.input, tokens.source.as_deref()), (4, Some(80), Some("tokenize")));
    assert!(has_warning(&run, "the tokens of 1 answer are unknown"), "{:?}", run.summary.warnings);
    let outputs = Table::read(&rig.folder()).integers("model_metrics/*/token_metrics/output");
    assert_eq!(outputs, [Some(3), Some(4), None, Some(6), Some(7)]);

    // A resumed run counts only what is missing.
    let client = Scripted::new(|_| answer("10", 1)).counted_by(|index| Some(usage(3 + index)));
    let calls = client.calls();
    let run = closed(rig.resume(Questions::new(5), client, blind()).await);
    assert_eq!((calls.sent(), calls.counted(), run.summary.sessions), (vec![], vec![2], 1));
    assert_eq!(run.summary.tokens.requests, 5);
    assert!(!has_warning(&run, "unknown"), "{:?}", run.summary.warnings);
}

#[tokio::test]
async fn a_server_without_a_tokenizer_is_given_up_early() {
    let rig = Rig::new();
    let client = Scripted::new(|_| answer("10", 0)).counted_by(|_| None);
    let calls = client.calls();
    let run = closed(rig.run(config(), Questions::new(60), client, blind()).await);
    assert!((3..20).contains(&calls.counted().len()), "{:?}", calls.counted());
    assert!(has_warning(&run, "the tokens of 60 answers are unknown"));
    assert!(!rig.folder().join("journal/after.jsonl").exists());
}

#[tokio::test]
async fn reported_tokens_are_not_counted_again() {
    let rig = Rig::new();
    let client = Scripted::new(|_| answer("10", 1));
    let calls = client.calls();
    closed(rig.run(config(), Questions::new(3), client, blind()).await);
    assert_eq!(calls.counted(), [0; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cached_tokens_are_in_every_file() {
    for cached in [Some(3), None] {
        let server = MockServer::start(Script { cached_tokens: cached, ..Script::instant() }).await.unwrap();
        let (rig, mut config) = (Rig::new(), config());
        config.client.id = String::from("openai");
        config.client.base_url = Some(server.base_url());
        let run = closed(rig.run_client(config, Questions::new(2)).await);
        assert_eq!(run.summary.tokens.cached, cached.map(|cached| 2 * cached));
        let records = Table::read(&rig.folder()).integers("ergometer/cached_tokens");
        assert_eq!(records, [cached.map(u64::cast_signed); 2]);
        let journal = rig.exchanges(0).1.into_iter().map(|exchange| exchange.transcript.usage.unwrap().cached);
        assert!(journal.eq([cached; 2]));
        let mut requests = Vec::new();
        Attempt::each(&rig.folder(), |attempt, _| requests.push(attempt.cached_tokens)).unwrap();
        assert_eq!(requests, [cached; 2]);
        server.stop().await;
    }
}

#[tokio::test]
async fn the_users_tokenizer_counts_if_no_other_count_exists() {
    let (rig, folder) = (Rig::new(), tempfile::tempdir().unwrap());
    let client = Scripted::new(|_| answer("10", 1)).counted_by(|index| (index == 0).then(|| usage(9)));
    let ours = RunConfig { tokenizer: Some(tokenizer(folder.path())), ..config() };
    let run = closed(rig.run(ours, Questions::new(3), client, blind()).await);
    assert_eq!(sources(&rig), ["tokenize", "tokenizer", "tokenizer"].map(|name| Some(name.to_owned())));
    let outputs = Table::read(&rig.folder()).integers("model_metrics/*/token_metrics/output");
    assert_eq!(outputs, [Some(9), Some(2), Some(2)]);
    let inputs = Table::read(&rig.folder()).integers("model_metrics/*/token_metrics/input");
    assert!(inputs[1] > Some("what is 10 + 1?".len().try_into().unwrap()), "including the template: {inputs:?}");
    assert!(has_warning(
        &run,
        "two token counts disagree on 1 of 1 answers; the first of these answers has 9 tokens by the server's tokenizer \
         endpoint and 2 by the tokenizer on this machine"
    ));
    assert!(!has_warning(&run, "are unknown"));
    assert_eq!(run.summary.tokens.tokenizer.as_deref().map(str::len), Some(64));
}

/// The scripted client counts its two chunks.
#[tokio::test]
async fn the_users_tokenizer_is_compared_with_the_server() {
    let (rig, folder) = (Rig::new(), tempfile::tempdir().unwrap());
    let client = Scripted::new(|index| answer(if index == 1 { "10000" } else { "10" }, 1));
    let ours = RunConfig { tokenizer: Some(tokenizer(folder.path())), ..config() };
    let run = closed(rig.run(ours, Questions::new(3), client, blind()).await);
    assert_eq!(sources(&rig)[1].as_deref(), Some("model"), "the count of the model is used");
    let told = "two token counts disagree on 1 of 3 answers; the first of these answers has 2 tokens by the model and 5 by the \
         tokenizer on this machine";
    assert!(has_warning(&run, told), "{:?}", run.summary.warnings);
}

#[tokio::test]
async fn an_invalid_tokenizer_is_an_error_before_the_first_request() {
    let (rig, folder) = (Rig::new(), tempfile::tempdir().unwrap());
    fs::write(folder.path().join("broken.json"), "{}").unwrap();
    for name in ["missing.json", "broken.json"] {
        let client = Scripted::new(|_| answer("10", 1));
        let calls = client.calls();
        let wrong = RunConfig { tokenizer: Some(folder.path().join(name)), ..config() };
        let error = rig.run(wrong, Questions::new(3), client, blind()).await.unwrap_err();
        let told = error.one_line(&CommandLine);
        assert!(told.contains(name) && told.contains("--tokenizer"), "{told}");
        assert_eq!(calls.all(), [Call::Close]);
    }
}

#[tokio::test]
async fn a_tokenizer_that_has_changed_is_not_used() {
    let (rig, folder) = (Rig::new(), tempfile::tempdir().unwrap());
    let path = tokenizer(folder.path());
    let scripted = || Scripted::new(|_| answer("10", 1)).counted_by(|_| None);
    let ours = RunConfig { tokenizer: Some(path.clone()), ..config() };
    closed(rig.run(ours, Questions::new(2), scripted(), blind()).await);
    fs::remove_file(folder.path().join("tokenizer_config.json")).unwrap();
    let error = rig.resume(Questions::new(2), scripted(), blind()).await.unwrap_err().to_string();
    assert!(error.contains("the tokenizer has changed"), "{error}");
    let run = close::close(&rig.folder()).unwrap();
    assert!(has_warning(&run, "is not used: its files have changed"), "{:?}", run.summary.warnings);
    fs::remove_file(path).unwrap();
    let run = close::close(&rig.folder()).unwrap();
    assert!(has_warning(&run, "is not used: cannot read"), "{:?}", run.summary.warnings);
    assert!(has_warning(&run, "the tokens of 2 answers are unknown"), "the other files are derived");
}
