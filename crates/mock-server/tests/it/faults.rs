//! Each fault as a client sees it.

use ergometer_mock_server::{Fault, RequestOutcome};
use serde_json::Value;
use tokio::net::TcpStream;

use super::client::{CHAT, CHAT_BODY, Client, Ended, WHOLE_BODY, ask, ask_fault};
use super::{start, start_with, until};

fn is_json(event: &str) -> bool {
    serde_json::from_str::<Value>(event).is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_changes_a_stream() {
    let server = start().await;
    // The status, the end, the number of content chunks, and whether usage and [DONE] arrived.
    for (fault, ended, chunks, usage, done) in [
        ("slow", Ended::Whole, 4, true, true),
        ("reset-stream", Ended::Reset, 2, false, false),
        ("truncated", Ended::Closed, 2, false, false),
        ("bad-sse", Ended::Whole, 4, true, true),
        ("error-stream", Ended::Whole, 2, false, true),
        ("no-usage", Ended::Whole, 4, false, true),
        ("no-done", Ended::Whole, 4, true, false),
        ("empty", Ended::Whole, 0, true, true),
    ] {
        let answer = ask_fault(server.address(), CHAT, fault, CHAT_BODY).await;
        let events = answer.events();
        let words = answer.content().split_whitespace().count();
        assert_eq!((answer.status, answer.ended, words), (200, ended, chunks), "{fault}: {answer:?}");
        assert_eq!(events.iter().any(|event| event.contains("\"total_tokens\"")), usage, "{fault}");
        assert_eq!(events.last().is_some_and(|event| event == "[DONE]"), done, "{fault}");
        let broken: Vec<_> = events.iter().filter(|event| !is_json(event) && *event != "[DONE]").collect();
        assert_eq!(broken.len(), usize::from(fault == "bad-sse"), "{fault}: {broken:?}");
        assert_eq!(events.iter().any(|event| event.starts_with("{\"error\":{")), fault == "error-stream", "{fault}");
        let stats = server.stats();
        let truth = stats.requests.last().unwrap();
        assert_eq!(truth.fault.unwrap().to_string(), fault);
        assert_eq!(
            (truth.tokens, truth.sent_ns.len()),
            (chunks as u64, chunks),
            "{fault}: the record matches the received chunks"
        );
        let served = if ended == Ended::Whole { RequestOutcome::Answered } else { RequestOutcome::Broken };
        assert_eq!((truth.served, truth.status), (served, Some(200)), "{fault}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_changes_an_unstreamed_answer() {
    let server = start().await;
    for (fault, ended, json) in [
        ("reset-stream", Ended::Reset, false),
        ("truncated", Ended::Closed, false),
        ("bad-sse", Ended::Whole, false),
        ("error-stream", Ended::Whole, true),
        ("no-usage", Ended::Whole, true),
        ("no-done", Ended::Whole, true),
        ("empty", Ended::Whole, true),
    ] {
        let answer = ask_fault(server.address(), CHAT, fault, WHOLE_BODY).await;
        assert_eq!((answer.status, answer.ended), (200, ended), "{fault}: {answer:?}");
        assert!(!answer.body.is_empty(), "{fault}");
        assert_eq!(is_json(&answer.text()), json, "{fault}: {}", answer.text());
        if json {
            let body = answer.json();
            assert_eq!(body["error"].is_object(), fault == "error-stream");
            assert_eq!(body["usage"].is_object(), ["no-done", "empty"].contains(&fault), "{fault}");
            assert_eq!(body["choices"][0]["message"]["content"] == "", fault == "empty", "{fault}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn error_statuses_keep_the_connection() {
    let server = start_with(|script| script.retry_after = std::time::Duration::from_secs(7)).await;
    let mut client = Client::connect(server.address()).await;
    for (fault, status, retries) in [("429", 429, true), ("500", 500, false), ("503", 503, true)] {
        for path in [CHAT, "/api/chat"] {
            client.send("POST", path, &[&format!("x-mock-fault: {fault}")], CHAT_BODY).await;
            let answer = client.answer().await;
            assert_eq!(answer.status, status);
            assert_eq!(answer.head.contains("retry-after: 7\r\n"), retries, "{}", answer.head);
            let error = &answer.json()["error"];
            let message = if path == CHAT { &error["message"] } else { error };
            assert!(message.as_str().unwrap().contains("script"), "{error}");
        }
    }
    assert_eq!(server.stats().totals.connections, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_sends_no_byte() {
    let server = start().await;
    let answer = ask_fault(server.address(), CHAT, "reset", CHAT_BODY).await;
    assert_eq!((answer.status, answer.ended, answer.body.len()), (0, Ended::Reset, 0));
    let truth = &server.stats().requests[0];
    assert_eq!((truth.fault, truth.served, truth.status), (Some(Fault::Reset), RequestOutcome::Broken, None));
    assert!(truth.first_token_ns.is_none() && truth.end_ns.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_answer_is_unrequested_gzip() {
    let server = start().await;
    let headers = ["accept-encoding: identity", "x-mock-fault: compressed"];
    let answer = ask(server.address(), "POST", CHAT, &headers, CHAT_BODY).await;
    assert!(answer.head.contains("content-encoding: gzip\r\n"), "{}", answer.head);
    assert_eq!(answer.body[..2], [0x1f, 0x8b]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hang_ends_when_the_client_leaves() {
    let server = start().await;
    let mut silent = Client::connect(server.address()).await;
    silent.send("POST", CHAT, &["x-mock-fault: hang"], CHAT_BODY).await;
    let mut stalled = Client::connect(server.address()).await;
    stalled.send("POST", CHAT, &["x-mock-fault: hang-stream"], CHAT_BODY).await;
    let stats = until(&server, |stats| stats.requests.iter().map(|truth| truth.tokens).sum::<u64>() == 2).await;
    assert!(stats.requests.iter().all(|truth| truth.served == RequestOutcome::InFlight && truth.end_ns.is_none()));
    drop((silent, stalled));
    let stats = until(&server, |stats| stats.totals.client_left == 2).await;
    assert!(stats.requests.iter().all(|truth| truth.served == RequestOutcome::ClientLeft && truth.end_ns.is_some()));
    assert_eq!((stats.running, stats.waiting), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_fault_is_an_error() {
    let server = start().await;
    for fault in ["explode", "refuse"] {
        let answer = ask_fault(server.address(), CHAT, fault, CHAT_BODY).await;
        assert_eq!(answer.status, 400);
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains("hint:"));
    }
    assert_eq!((server.stats().totals.rejected, server.stats().totals.requests), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_can_refuse_always_or_sometimes() {
    let closed = start_with(|script| script.faults = vec!["refuse=1".parse().unwrap()]).await;
    for _ in 0..20 {
        let error = TcpStream::connect(closed.address()).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    }
    let flaky = start_with(|script| script.faults = vec!["refuse=50%".parse().unwrap()]).await;
    // The port starts open, closes, and opens again.
    let mut wanted = [true, false, true].into_iter().peekable();
    for _ in 0..15_000 {
        let is_open = TcpStream::connect(flaky.address()).await.is_ok();
        let Some(_) = wanted.peek() else { break };
        if wanted.next_if_eq(&is_open).is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
    assert_eq!(wanted.next(), None, "the port never changed");
}
