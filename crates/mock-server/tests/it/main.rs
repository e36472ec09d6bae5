//! Tests the server over sockets: bytes on the wire, and `/stats`. They check order and presence, never speed.

mod client;
mod crowd;
mod endpoints;
mod faults;
mod ollama;
mod truth;

use std::time::Duration;

use ergometer_mock_server::{MockServer, RunningServer, Script, Stats};

/// A server whose answers have four tokens without delays.
async fn start() -> RunningServer {
    start_with(|_| ()).await
}

async fn start_with(change: impl FnOnce(&mut Script)) -> RunningServer {
    let mut script = Script { tokens: "4".parse().unwrap(), ..Script::instant() };
    change(&mut script);
    MockServer::start(script).await.unwrap()
}

/// Waits until the statistics match.
async fn until(server: &RunningServer, wanted: impl Fn(&Stats) -> bool) -> Stats {
    for _ in 0..15_000 {
        let stats = server.stats();
        if wanted(&stats) {
            return stats;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("never: {:?}", server.stats());
}
