//! Endpoints in Ollama's format.

use serde_json::json;

use super::client::{Ended, ask, ask_fault};
use super::{start, start_with};

const CHAT: &str = r#"{"model":"m","messages":[{"role":"user","content":"how are you"}]}"#;
const GENERATE: &str = r#"{"model":"m","prompt":"how are you"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn both_endpoints_stream_lines_and_end_with_statistics() {
    let server = start_with(|script| script.reasoning = 1).await;
    for (path, body) in [("/api/chat", CHAT), ("/api/generate", GENERATE)] {
        let answer = ask(server.address(), "POST", path, &[], body).await;
        assert!(answer.head.contains("content-type: application/x-ndjson"), "{}", answer.head);
        let lines = answer.lines();
        assert_eq!(lines.len(), 5);
        assert!(lines[..4].iter().all(|line| line["done"] == false && line["created_at"].is_string()));
        let pieces = if path == "/api/chat" {
            lines.iter().map(|line| &line["message"]).collect()
        } else {
            lines.iter().collect::<Vec<_>>()
        };
        let name = if path == "/api/chat" { "content" } else { "response" };
        assert!(pieces[0]["thinking"].is_string() && pieces[0][name] == "" && pieces[1]["thinking"].is_null());
        let text: String = pieces.iter().map(|piece| piece[name].as_str().unwrap()).collect();
        assert_eq!(text.split(' ').count(), 3);
        let last = &lines[4];
        assert_eq!((&last["done"], &last["done_reason"]), (&json!(true), &json!("stop")));
        assert_eq!((&last["prompt_eval_count"], &last["eval_count"]), (&json!(3), &json!(4)));
        let nanos = |name: &str| last[name].as_u64().unwrap_or_else(|| panic!("{name}: {last}"));
        let parts = nanos("load_duration") + nanos("prompt_eval_duration") + nanos("eval_duration");
        assert_eq!(parts, nanos("total_duration"));
    }
    assert_eq!(server.stats().totals.tokens, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_can_be_unstreamed_and_limited() {
    let server = start().await;
    let body = r#"{"model":"m","prompt":"how are you","stream":false,"options":{"num_predict":2}}"#;
    let whole = ask(server.address(), "POST", "/api/generate", &[], body).await.json();
    assert_eq!(
        (&whole["done"], &whole["done_reason"], &whole["eval_count"]),
        (&json!(true), &json!("length"), &json!(2))
    );
    assert_eq!(whole["response"].as_str().unwrap().split(' ').count(), 2);
    let load = ask(server.address(), "POST", "/api/generate", &[], r#"{"model":"m"}"#).await.lines();
    assert_eq!((load.len(), &load[0]["done_reason"]), (1, &json!("load")));
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_have_ollamas_format() {
    let server = start().await;
    let post = async |fault: &str| ask_fault(server.address(), "/api/chat", fault, CHAT).await;
    let error = post("error-stream").await.lines();
    assert_eq!(error.len(), 3);
    assert!(error[2]["error"].is_string(), "{error:?}");
    assert!(post("no-done").await.lines().iter().all(|line| line["done"] == false));
    let bare = post("no-usage").await.lines();
    assert!(bare.last().unwrap()["done"] == true && bare.last().unwrap()["eval_count"].is_null());
    let odd = post("bad-sse").await;
    assert_eq!(odd.text().lines().filter(|line| serde_json::from_str::<serde_json::Value>(line).is_err()).count(), 1);
    assert_eq!(post("truncated").await.ended, Ended::Closed);
    assert_eq!(post("empty").await.lines().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn models_and_version_are_answered() {
    let server = start_with(|script| script.models = vec![String::from("a:latest")]).await;
    let get = async |path: &str| ask(server.address(), "GET", path, &[], "").await;
    let tags = get("/api/tags").await.json();
    assert_eq!(
        (&tags["models"][0]["name"], &tags["models"][0]["details"]["format"]),
        (&json!("a:latest"), &json!("gguf"))
    );
    assert!(get("/api/version").await.json()["version"].is_string());
    assert_eq!(get("/").await.text(), "Ollama is running");
    let show = async |body: &str| ask(server.address(), "POST", "/api/show", &[], body).await;
    assert!(show(r#"{"model":"a"}"#).await.json()["details"].is_object());
    assert_eq!(show(r#"{"model":"b"}"#).await.status, 404);
    assert_eq!(show("{}").await.status, 400);
    for body in ["", "model=a", r#"{"model":"a""#] {
        let answer = show(body).await;
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.json()["error"].as_str().unwrap().starts_with("the body is not JSON: "), "{body}");
    }
    let unknown = ask(server.address(), "POST", "/api/chat", &[], CHAT).await;
    assert_eq!(unknown.status, 404);
    assert!(unknown.json()["error"].as_str().unwrap().contains("model \"m\" not found"));
}
