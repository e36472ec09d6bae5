//! Tests many concurrent clients: slots, slow readers and clients that disconnect.

use ergometer_mock_server::RequestOutcome;

use super::client::{CHAT, CHAT_BODY, Client, Ended, ask};
use super::{start_with, until};

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_a_slot_wait() {
    let server = start_with(|script| script.slots = 1).await;
    let mut holder = Client::connect(server.address()).await;
    holder.send("POST", CHAT, &["x-mock-fault: hang-stream"], CHAT_BODY).await;
    until(&server, |stats| stats.running == 1).await;
    let mut waiting = Client::connect(server.address()).await;
    waiting.send("POST", CHAT, &[], CHAT_BODY).await;
    until(&server, |stats| stats.waiting == 1).await;
    let metrics = ask(server.address(), "GET", "/metrics", &[], "").await.text();
    for figure in ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"] {
        assert!(metrics.contains(&format!("vllm:{figure}{{engine=\"0\",model_name=\"mock\"}} 1.0\n")), "{metrics}");
    }
    // A client that leaves while waiting does not take a slot.
    let mut leaver = Client::connect(server.address()).await;
    leaver.send("POST", CHAT, &[], CHAT_BODY).await;
    until(&server, |stats| stats.waiting == 2).await;
    drop(leaver);
    until(&server, |stats| stats.waiting == 1).await;
    drop(holder);
    assert_eq!(waiting.answer().await.events().last().unwrap(), "[DONE]");
    let stats = server.stats();
    assert!(stats.requests[1].started_ns >= stats.requests[0].end_ns, "{stats:?}");
    assert_eq!((stats.running, stats.waiting, stats.totals.client_left), (0, 0, 2));
    assert!(stats.requests[2].started_ns.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_blocks_no_other() {
    // 60 MB: more than the buffers of two sockets hold.
    let server = start_with(|script| script.tokens = "200000".parse().unwrap()).await;
    let mut stuck = Client::connect(server.address()).await;
    stuck.send("POST", CHAT, &[], CHAT_BODY).await;
    stuck.read_until("content\":\" ").await;
    for _ in 0..10 {
        let body = CHAT_BODY.replace("\"stream\":true", "\"stream\":true,\"max_tokens\":3");
        let answer = ask(server.address(), "POST", CHAT, &[], &body).await;
        assert_eq!((answer.ended, answer.content().split(' ').count()), (Ended::Whole, 3));
    }
    let stats = server.stats();
    assert_eq!((stats.requests[0].served, stats.totals.answered), (RequestOutcome::InFlight, 10));
    assert!(stats.requests[0].tokens < 200_000, "data that is not read is not sent");
    drop(stuck);
    until(&server, |stats| stats.requests[0].served == RequestOutcome::ClientLeft).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_are_answered_and_counted() {
    let server = start_with(|script| script.slots = 8).await;
    let address = server.address();
    let clients: Vec<_> = (0..100)
        .map(|number| {
            tokio::spawn(async move {
                let id = format!("x-request-id: c{number}");
                let mut client = Client::connect(address).await;
                for _ in 0..5 {
                    client.send("POST", CHAT, &[&id], CHAT_BODY).await;
                    assert_eq!(client.answer().await.content().split(' ').count(), 4);
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    let stats = server.stats();
    assert_eq!((stats.totals.answered, stats.totals.tokens, stats.totals.prompt_tokens), (500, 2000, 1500));
    let mut numbers: Vec<_> = stats.requests.iter().map(|truth| truth.number).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..500), "every request has its own number");
    assert!(stats.requests.iter().all(|truth| truth.sent_ns.is_sorted() && truth.sent_ns.len() == 4));
}
