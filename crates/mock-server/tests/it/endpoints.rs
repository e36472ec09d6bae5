//! Endpoints in `OpenAI`'s format, and HTTP itself.

use std::collections::HashSet;

use ergometer_mock_server::{Newline, StreamEnd, UsagePosition};
use serde_json::{Value, json};

use super::client::{CHAT, CHAT_BODY, Client, Ended, WHOLE_BODY, ask};
use super::{start, start_with};

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_streams_role_words_reason_usage_and_done() {
    let server = start().await;
    let answer = ask(server.address(), "POST", CHAT, &["X-Request-ID: mine"], CHAT_BODY).await;
    assert!(answer.head.contains("content-type: text/event-stream"), "{}", answer.head);
    assert!(answer.head.contains("x-request-id: mine"), "{}", answer.head);
    let events = answer.events();
    assert_eq!(events.last().unwrap(), "[DONE]");
    let chunks: Vec<Value> =
        events[..events.len() - 1].iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    assert_eq!(chunks.len(), 1 + 4 + 1 + 1);
    assert_eq!(chunks[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert!(chunks[..5].iter().all(|chunk| chunk["choices"][0]["finish_reason"].is_null() && chunk["usage"].is_null()));
    assert_eq!(chunks[5]["choices"][0]["finish_reason"], "stop");
    assert_eq!(chunks[6]["choices"], json!([]));
    assert_eq!(chunks[6]["usage"], json!({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}));
    assert_eq!(chunks.iter().map(|chunk| chunk["id"].as_str().unwrap()).collect::<HashSet<_>>().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_end_newline_and_reasoning_follow_the_script() {
    let server = start_with(|script| {
        script.usage = UsagePosition::Last;
        script.end = StreamEnd::Bare;
        script.newline = Newline::Crlf;
        script.tokens_per_chunk = 3;
        script.reasoning = 4;
        script.answer = Some(String::from("it is  42.\n"));
    })
    .await;
    let body = r#"{"stream":true,"messages":[{"content":"a"}]}"#;
    let answer = ask(server.address(), "POST", CHAT, &[], body).await;
    assert!(answer.text().ends_with("\r\n\r\n") && !answer.text().replace("\r\n", "").contains('\n'));
    assert_eq!(answer.content(), "it is  42.\n");
    let chunks: Vec<Value> = answer.events().iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let reasoning = chunks.iter().filter(|chunk| chunk["choices"][0]["delta"]["reasoning_content"].is_string());
    assert_eq!((reasoning.count(), chunks.len()), (2, 1 + 2 + 1 + 1));
    let usage = &chunks.last().unwrap()["usage"];
    assert_eq!(
        (&usage["completion_tokens"], &usage["completion_tokens_details"]["reasoning_tokens"]),
        (&json!(7), &json!(4))
    );
    let truth = &server.stats().requests[0];
    assert_eq!((truth.tokens, truth.sent_ns.len()), (7, 3), "chunks are not tokens");
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_have_choices_and_limits() {
    let server = start().await;
    let body = r#"{"prompt":"once upon a time","n":2,"max_tokens":3}"#;
    let whole = ask(server.address(), "POST", "/v1/completions", &[], body).await.json();
    assert_eq!(whole["object"], "text_completion");
    let texts = [0, 1].map(|choice| whole["choices"][choice]["text"].as_str().unwrap().to_owned());
    assert!(texts.iter().all(|text| text.split(' ').count() == 3) && texts[0] != texts[1], "{texts:?}");
    assert_eq!(whole["choices"][1]["finish_reason"], "length");
    assert_eq!(whole["usage"], json!({"prompt_tokens": 4, "completion_tokens": 6, "total_tokens": 10}));

    let body = r#"{"prompt":"once upon a time","stream":true,"max_tokens":4}"#;
    let stream = ask(server.address(), "POST", "/v1/completions", &[], body).await;
    let texts = stream.events().into_iter().filter_map(|event| serde_json::from_str::<Value>(&event).ok());
    let text: String = texts.map(|chunk| chunk["choices"][0]["text"].as_str().unwrap().to_owned()).collect();
    assert_eq!(text.split(' ').count(), 4);
    assert!(!stream.text().contains("usage") && stream.text().contains("\"stop\""), "{}", stream.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn models_health_and_tokenize_are_answered() {
    let server = start_with(|script| script.models = vec![String::from("a"), String::from("org/b")]).await;
    let get = async |path: &str| ask(server.address(), "GET", path, &[], "").await;
    let models = get("/v1/models").await.json();
    assert_eq!((&models["data"][0]["id"], &models["data"][1]["id"]), (&json!("a"), &json!("org/b")));
    assert_eq!(get("/v1/models/org/b").await.json()["id"], "org/b");
    assert_eq!(get("/v1/models/c").await.status, 404);
    assert_eq!(get("/health").await.status, 200);
    let post = async |path: &str, body: &str| ask(server.address(), "POST", path, &[], body).await;
    let vllm = post("/tokenize", r#"{"model":"a","prompt":"one two three"}"#).await.json();
    assert_eq!((&vllm["count"], vllm["tokens"].as_array().unwrap().len()), (&json!(3), 3));
    assert!(vllm["max_model_len"].is_u64());
    assert_eq!(post("/tokenize", r#"{"content":"one two"}"#).await.json()["tokens"].as_array().unwrap().len(), 2);
    let unknown = post(CHAT, WHOLE_BODY).await;
    assert_eq!(unknown.status, 404);
    assert!(unknown.json()["error"]["message"].as_str().unwrap().contains("available: a, org/b"));
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_paths_methods_keys_and_bodies_are_errors() {
    let server = start_with(|script| script.api_key = Some(String::from("secret"))).await;
    let key = "authorization: Bearer secret";
    for (method, path, headers, body, status) in [
        ("GET", "/nowhere", &[][..], "", 404),
        ("HEAD", "/nowhere", &[], "", 404),
        ("HEAD", "/health", &[], "", 200),
        ("GET", CHAT, &[key], "", 405),
        ("DELETE", "/v1/models", &[key], "", 405),
        ("POST", CHAT, &[], WHOLE_BODY, 401),
        ("POST", CHAT, &["authorization: Bearer wrong"], WHOLE_BODY, 401),
        ("GET", "/v1/models", &[], "", 401),
        ("GET", "/metrics", &[], "", 200),
        ("POST", CHAT, &[key], WHOLE_BODY, 200),
        ("POST", CHAT, &[key], "{", 400),
        ("POST", CHAT, &[key], r#"{"messages":"none"}"#, 400),
        ("POST", "/tokenize", &[key], "{}", 400),
    ] {
        let answer = ask(server.address(), method, path, headers, body).await;
        assert_eq!((answer.status, answer.ended), (status, Ended::Whole), "{method} {path} {body}");
        if status >= 400 && method != "HEAD" {
            assert!(answer.json()["error"]["message"].is_string(), "{}", answer.text());
        }
        assert_eq!(status == 405, answer.head.contains("\nallow: "), "{}", answer.head);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_takes_many_pipelined_requests() {
    let server = start().await;
    let mut client = Client::connect(server.address()).await;
    for _ in 0..3 {
        client.send("POST", CHAT, &[], CHAT_BODY).await;
    }
    client.send("GET", "/health", &["connection: close"], "").await;
    for _ in 0..3 {
        assert_eq!(client.answer().await.events().last().unwrap(), "[DONE]");
    }
    assert_eq!(client.answer().await.status, 200);
    assert_eq!(client.answer().await.ended, Ended::Closed, "the client asked for it");
    assert_eq!((server.stats().totals.connections, server.stats().totals.requests), (1, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_may_be_chunked_and_expect_a_continue() {
    let server = start().await;
    let mut client = Client::connect(server.address()).await;
    let (first, second) = WHOLE_BODY.split_at(20);
    let head = format!("POST {CHAT} HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n");
    client.write(head.as_bytes()).await;
    assert_eq!(client.answer().await.status, 100);
    let body =
        format!("{:x}\r\n{first}\r\n{:X};name=value\r\n{second}\r\n0\r\nTrailer: x\r\n\r\n", first.len(), second.len());
    client.write(body.as_bytes()).await;
    assert_eq!(client.answer().await.json()["usage"]["prompt_tokens"], 3);
    client.send("GET", "/health", &[], "").await;
    assert_eq!(client.answer().await.status, 200, "the next request starts after the body");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_and_too_large_requests_are_rejected() {
    let server = start().await;
    let header = format!("x: {}\r\n", "y".repeat(1000)).repeat(70);
    for (request, status) in [
        (String::from("GET / HTTP/1.0\r\n\r\n"), 505),
        (String::from("\x16\x03\x01 this is not HTTP\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{header}\r\n"), 431),
        (format!("POST {CHAT} HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n"), 413),
        (format!("POST {CHAT} HTTP/1.1\r\ncontent-length: -1\r\n\r\n"), 400),
        (format!("POST {CHAT} HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"), 400),
        (format!("POST {CHAT} HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nfffffffff\r\n"), 413),
        (format!("POST {CHAT} HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n"), 400),
    ] {
        let mut client = Client::connect(server.address()).await;
        client.write(request.as_bytes()).await;
        assert_eq!(client.answer().await.status, status, "{request:.80}");
        assert_eq!(client.answer().await.ended, Ended::Closed);
    }
    assert_eq!(ask(server.address(), "GET", "/health", &[], "").await.status, 200);
}
