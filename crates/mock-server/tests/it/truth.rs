//! Tests that `/stats` matches the data that was sent, and that the same seed gives the same answers.

use std::net::SocketAddr;

use ergometer_diagnostics::{CommandLine, Diagnostic};
use ergometer_mock_server::{MockServer, RunningServer, Script, ServerError};
use serde_json::json;
use tokio::net::TcpStream;

use super::client::{CHAT, CHAT_BODY, Client, WHOLE_BODY, ask};
use super::{start, start_with};

#[tokio::test(flavor = "multi_thread")]
async fn times_are_in_order() {
    let server = start_with(|script| {
        script.ttft = "2ms".parse().unwrap();
        script.gap = "uniform:0ms..1ms".parse().unwrap();
        script.tokens = "uniform:1..20".parse().unwrap();
    })
    .await;
    let mut before = 0;
    for number in 0..20 {
        let id = format!("x-request-id: r{number}");
        let answer = ask(server.address(), "POST", CHAT, &[&id], CHAT_BODY).await;
        let stats = ask(server.address(), "GET", &format!("/stats?id=r{number}"), &[], "").await.json();
        let truth = &stats["requests"][0];
        let at = |name: &str| truth[name].as_i64().unwrap_or_else(|| panic!("{name}: {truth}"));
        let sent: Vec<_> = truth["sent_ns"].as_array().unwrap().iter().map(|time| time.as_i64().unwrap()).collect();
        assert_eq!(sent.len(), answer.content().split_whitespace().count());
        assert_eq!((truth["tokens"].as_u64(), at("first_token_ns")), (Some(sent.len() as u64), sent[0]));
        let mut all = vec![before, at("received_ns"), at("started_ns")];
        all.extend(sent);
        all.push(at("end_ns"));
        assert!(all.is_sorted(), "{truth}");
        assert_eq!((&truth["path"], &truth["fault"], &truth["number"]), (&json!(CHAT), &json!(null), &json!(number)));
        before = at("end_ns");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stats_can_be_selected_and_reset() {
    let server = start_with(|script| script.kept_requests = 3).await;
    for _ in 0..5 {
        ask(server.address(), "POST", CHAT, &[], WHOLE_BODY).await;
    }
    let get = async |path: &str| ask(server.address(), "GET", path, &[], "").await.json();
    let stats = get("/stats").await;
    assert_eq!((&stats["dropped"], stats["requests"].as_array().unwrap().len()), (&json!(2), 3));
    assert_eq!((&stats["totals"]["requests"], &stats["totals"]["tokens"]), (&json!(5), &json!(20)));
    assert_eq!(
        stats["requests"][0]["sent_ns"].as_array().unwrap().len(),
        1,
        "an answer that is not streamed is one chunk"
    );
    assert_eq!(get("/stats?last=1").await["requests"].as_array().unwrap().len(), 1);
    for last in ["", "-1", "ten", "1.5"] {
        let answer = ask(server.address(), "GET", &format!("/stats?last={last}"), &[], "").await;
        let message = answer.json()["error"]["message"].to_string();
        assert_eq!(answer.status, 400, "{last}");
        assert!(
            message.contains("`last` must be a whole number") && message.contains(&format!("`{last}`")),
            "{message}"
        );
    }
    for (method, path) in [("DELETE", "/stats"), ("POST", "/stats/reset")] {
        ask(server.address(), "POST", CHAT, &[], WHOLE_BODY).await;
        assert_eq!(ask(server.address(), method, path, &[], "").await.status, 200);
        let stats = get("/stats").await;
        assert_eq!(
            (&stats["totals"]["requests"], &stats["dropped"], &stats["requests"]),
            (&json!(0), &json!(0), &json!([]))
        );
    }
    let metrics = ask(server.address(), "GET", "/metrics", &[], "").await.text();
    assert!(metrics.contains("vllm:generation_tokens_total{engine=\"0\",model_name=\"mock\"} 28.0"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_due_at_once_have_one_time_and_the_same_bytes() {
    let at_once = start_with(|script| script.tokens = "9".parse().unwrap()).await;
    let apart = start_with(|script| {
        script.tokens = "9".parse().unwrap();
        script.gap = "20ms".parse().unwrap();
    })
    .await;
    let headers = ["x-request-id: same"];
    let one = ask(at_once.address(), "POST", CHAT, &headers, CHAT_BODY).await;
    let other = ask(apart.address(), "POST", CHAT, &headers, CHAT_BODY).await;
    let without_time = |answer: &super::client::Answer| {
        let events = answer.events();
        let (done, chunks) = events.split_last().unwrap();
        let chunks = chunks.iter().map(|event| {
            let mut chunk: serde_json::Value = serde_json::from_str(event).unwrap();
            chunk["created"] = json!(0);
            chunk
        });
        (done.clone(), chunks.collect::<Vec<_>>())
    };
    assert_eq!((&one.head, without_time(&one)), (&other.head, without_time(&other)));
    let times = |server: &RunningServer| server.stats().requests[0].sent_ns.clone();
    let (one, mut other) = (times(&at_once), times(&apart));
    assert_eq!((one.len(), one.iter().all(|time| *time == one[0])), (9, true), "{one:?}");
    // On a busy machine some tokens are sent together; the first and the last are 160 ms apart.
    assert_eq!((other.len(), other.is_sorted()), (9, true));
    other.dedup();
    assert!(other.len() > 1, "{other:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn times_are_summarized_until_a_reset() {
    let server = start_with(|script| script.ttft = "3ms".parse().unwrap()).await;
    let get = async |path: &str| ask(server.address(), "GET", path, &[], "").await.json();
    let empty = json!({"count": 0, "p50": null, "p90": null, "p99": null, "max": null});
    assert_eq!(get("/stats").await["summary"], json!({"ttft_ms": empty, "gap_ms": empty}));
    for _ in 0..5 {
        ask(server.address(), "POST", CHAT, &[], CHAT_BODY).await;
    }
    let stats = get("/stats?last=0").await;
    assert_eq!(stats["requests"], json!([]), "the summary does not need the requests");
    let (ttft, gap) = (&stats["summary"]["ttft_ms"], &stats["summary"]["gap_ms"]);
    assert_eq!((&ttft["count"], &gap["count"], &ttft["p99"]), (&json!(5), &json!(15), &json!(null)));
    assert!(ttft["p50"].as_f64() >= Some(3.0) && ttft["max"].as_f64() >= ttft["p90"].as_f64(), "{ttft}");
    assert_eq!(gap["max"], json!(0.0), "all tokens were due at the same time");
    let truths = server.stats().requests;
    let longest = truths.iter().filter_map(|truth| Some(truth.first_token_ns? - truth.received_ns)).max().unwrap();
    assert_eq!(ttft["max"].as_f64(), Some(longest as f64 / 1e6));
    ask(server.address(), "POST", "/stats/reset", &[], "").await;
    assert_eq!(get("/stats").await["summary"], json!({"ttft_ms": empty, "gap_ms": empty}));
}

/// The answers to 40 requests in sequence, as a client sees them.
async fn play(address: SocketAddr) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in 0..40 {
        let answer = ask(address, "POST", CHAT, &[], CHAT_BODY).await;
        seen.push(format!("{} {:?} {}", answer.status, answer.ended, answer.content()));
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seed_repeats_answers_and_faults() {
    let script = |seed| Script {
        seed,
        faults: ["429=25%", "reset-stream=0.25", "truncated=0.25"].map(|text| text.parse().unwrap()).to_vec(),
        tokens: "uniform:1..9".parse().unwrap(),
        ..Script::instant()
    };
    let first = MockServer::start(script(1)).await.unwrap();
    let second = MockServer::start(script(1)).await.unwrap();
    let other = MockServer::start(script(2)).await.unwrap();
    let seen = play(first.address()).await;
    assert_eq!(seen, play(second.address()).await);
    assert_ne!(seen, play(other.address()).await);
    ask(first.address(), "DELETE", "/stats", &[], "").await;
    assert_eq!(seen, play(first.address()).await, "a reset restarts the draws");
    for kind in ["429 Whole", "200 Reset", "200 Closed", "200 Whole"] {
        assert!(seen.iter().any(|line| line.starts_with(kind)), "{kind}: {seen:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_closes_all_connections() {
    let server = start().await;
    let address = server.address();
    assert_eq!(server.base_url(), format!("http://{address}"));
    let mut client = Client::connect(address).await;
    client.send("POST", CHAT, &["x-mock-fault: hang-stream"], CHAT_BODY).await;
    client.read_until("content\":\" ").await;
    let stats = server.stop().await;
    assert_eq!(stats.totals.requests, 1);
    assert_ne!(client.answer().await.ended, super::client::Ended::Whole);
    assert!(TcpStream::connect(address).await.is_err());
    MockServer::start(Script { address, ..Script::default() }).await.expect("the port is free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_used_port_and_an_invalid_script_are_errors() {
    let server = start().await;
    let error = MockServer::start(Script { address: server.address(), ..Script::default() }).await.unwrap_err();
    assert!(matches!(error, ServerError::Bind { .. }));
    assert_eq!(
        error.hint().unwrap().phrase(&CommandLine),
        "another program may use the port; --port 0 picks a free one"
    );
    let error = MockServer::start(Script { slots: 0, ..Script::default() }).await.unwrap_err();
    assert!(matches!(error, ServerError::Script(_)), "{error}");
}
