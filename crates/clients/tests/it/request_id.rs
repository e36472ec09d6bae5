//! The request id, sent in the header `x-request-id`.

use ergometer_clients::{Client, ClientSpec, Request, RequestOptions, Transcript, open};
use ergometer_mock_server::{MockServer, Script};
use ergometer_telemetry::Clock;

/// The id that a run gives its request.
const ID: &str = "ergometer-18e8a-7";

fn client(id: &str, base_url: String, headers: &[&str]) -> Box<dyn Client> {
    open(&ClientSpec {
        id: id.to_owned(),
        model: String::from("mock"),
        base_url: Some(base_url),
        headers: headers.iter().map(ToString::to_string).collect(),
        ..ClientSpec::default()
    })
    .unwrap()
}

/// The stored id of a request.
async fn ask(client: &dyn Client, id: Option<&str>) -> Option<String> {
    let (mut transcript, common) = (Transcript::default(), RequestOptions::default());
    let request = Request { id, index: 0, earlier: &[], problem: "2+2?", output_tokens: None, common: &common };
    let _ = client.stream(&request, &Clock::start(), &mut transcript).await;
    transcript.request_id
}

#[tokio::test]
async fn the_id_is_sent_and_stored_unless_the_user_set_the_header() {
    for (name, headers, stored) in [
        ("openai", &[][..], Some(ID)),
        ("openai", &["X-Other: 1"], Some(ID)),
        ("openai", &["X-Request-ID: mine"], None),
        ("openai", &["x-request-id: mine"], None),
        ("ollama", &[], Some(ID)),
        ("ollama", &["X-REQUEST-ID:mine"], None),
    ] {
        let server = MockServer::start(Script::instant()).await.unwrap();
        let client = client(name, server.base_url(), headers);
        assert_eq!(ask(&*client, Some(ID)).await.as_deref(), stored, "{name} {headers:?}");
        let truth = server.stop().await;
        let ids: Vec<&str> = truth.requests.iter().map(|request| request.id.as_str()).collect();
        assert_eq!(ids, [stored.unwrap_or("mine")], "{name} {headers:?}");
    }
}

#[tokio::test]
async fn only_an_id_that_can_be_sent_is_stored() {
    let client = client("openai", String::from("http://127.0.0.1:1"), &[]);
    assert_eq!(ask(&*client, None).await, None);
    assert_eq!(ask(&*client, Some("a\r\nevil: b")).await, None);
    assert_eq!(ask(&*client, Some(ID)).await.as_deref(), Some(ID), "also if the server is not reached");
}
