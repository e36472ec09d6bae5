//! The server as clients meet it: bytes on the wire, and what `/stats` says of them. Order and presence, never speed.

mod client;
mod crowd;
mod endpoints;
mod faults;
mod ollama;
mod truth;

use std::time::Duration;

use ergometer_server::{MockServer, Running, Script, Stats};

/// A server whose answers have four tokens and come at once.
async fn start() -> Running {
    start_with(|_| ()).await
}

async fn start_with(change: impl FnOnce(&mut Script)) -> Running {
    let mut script = Script { tokens: "4".parse().unwrap(), ..Script::instant() };
    change(&mut script);
    MockServer::start(script).await.unwrap()
}

/// Looks until it is as wanted.
async fn until(server: &Running, wanted: impl Fn(&Stats) -> bool) -> Stats {
    for _ in 0..15_000 {
        let stats = server.stats();
        if wanted(&stats) {
            return stats;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("never: {:?}", server.stats());
}
