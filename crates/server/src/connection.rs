//! One connection: requests come in one after the other, and each is answered; a client that leaves is noticed at once.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;

use crate::asked::{self, Api, Tokenized};
use crate::generate;
use crate::http::{self, ReadError, Request};
use crate::metrics;
use crate::ollama;
use crate::openai;
use crate::reply::{Next, Reply};
use crate::route::Route;
use crate::shared::Shared;
use crate::truth::Stats;

/// The most bytes taken in ahead of the answer to the request before them.
const MOST_AHEAD: usize = 64 * 1024;

/// How long a look at the truth waits for a request that is sending its last bytes, in steps of a millisecond.
const SETTLE_STEPS: u32 = 200;

/// How many bytes of `/stats` go in one chunk.
const STATS_CHUNK: usize = 64 * 1024;

/// Serves a connection to its end.
pub(crate) async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    // Small chunks must not wait for each other. Where the system cannot, they are late, and the truth says so.
    let _ = stream.set_nodelay(true);
    let mut ahead = Vec::new();
    loop {
        let request = match http::read(&mut stream, &mut ahead, &shared.clock).await {
            Ok(request) => request,
            Err(ReadError::Gone) => return,
            Err(ReadError::Refused(status, message)) => return refuse(stream, status, &message).await,
        };
        let (mut reader, mut writer) = stream.split();
        let next = tokio::select! {
            biased;
            next = respond(&shared, &request, &mut writer) => next,
            () = watch(&mut reader, &mut ahead) => return,
        };
        match next {
            Ok(Next::KeepAlive) if !request.wants_close() => {}
            Ok(Next::Reset) => {
                // Closing without lingering throws away what is unsent and sends a reset.
                let _ = stream.set_zero_linger();
                return;
            }
            Ok(_) => {
                let _ = stream.shutdown().await;
                return;
            }
            Err(_) => return,
        }
    }
}

/// Returns when the client has left. What it sends meanwhile is kept for later.
async fn watch(reader: &mut ReadHalf<'_>, ahead: &mut Vec<u8>) {
    while ahead.len() < MOST_AHEAD {
        ahead.reserve(4096);
        match reader.read_buf(ahead).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    std::future::pending::<()>().await;
}

/// Answers what is no request, and closes. The rest of what was sent is read, so that the answer is not lost in a reset.
async fn refuse(mut stream: TcpStream, status: u16, message: &str) {
    let reply =
        Reply::json(status, &openai::error(status, "invalid_request_error", message)).with("connection", "close");
    if reply.send(&mut stream, true).await.is_err() || stream.shutdown().await.is_err() {
        return;
    }
    let mut sink = vec![0; 64 * 1024];
    let drain = async { while matches!(stream.read(&mut sink).await, Ok(read) if read > 0) {} };
    let _ = tokio::time::timeout(Duration::from_secs(1), drain).await;
}

async fn respond(shared: &Shared, request: &Request, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<Next> {
    let route = Route::of(&request.method, &request.path);
    let is_ollama = request.path.starts_with("/api/");
    if route.is_guarded() && !has_key(shared, request) {
        shared.ledger.count(|totals| totals.rejected += 1);
        let api = if is_ollama { Api::OllamaChat } else { Api::OpenAiChat };
        let message = "the key is missing or wrong. hint: send the header `Authorization: Bearer KEY`";
        return generate::error(api, 401, message)
            .send(writer, request.method != "HEAD")
            .await
            .map(|()| Next::KeepAlive);
    }
    if let Route::Generate(api) = route {
        return generate::answer(shared, request, api, writer).await;
    }
    if route == Route::Stats && request.method != "HEAD" {
        return send_stats(shared, request, writer).await.map(|()| Next::KeepAlive);
    }
    shared.ledger.count(|totals| totals.other_requests += 1);
    reply(shared, request, route).send(writer, request.method != "HEAD").await.map(|()| Next::KeepAlive)
}

fn has_key(shared: &Shared, request: &Request) -> bool {
    let Some(key) = &shared.script.api_key else { return true };
    let sent = request.header("authorization").and_then(|value| value.split_once(' '));
    sent.is_some_and(|(scheme, sent)| scheme.eq_ignore_ascii_case("bearer") && sent.trim() == key)
}

/// Everything that takes no time.
fn reply(shared: &Shared, request: &Request, route: Route) -> Reply {
    let created_s = shared.started_ns / 1_000_000_000;
    let not_found = |message: &str| generate::error(Api::OpenAiChat, 404, message);
    match route {
        Route::Models => Reply::json(200, &openai::models(&shared.script, created_s)),
        Route::Model(name) => match shared.script.model(Some(&name)) {
            Some(name) => Reply::json(200, &openai::model(name, created_s)),
            None => not_found(&format!("model \"{name}\" not found")),
        },
        Route::Health => Reply::json(200, &json!({"status": "ok"})),
        Route::Tokenize => match asked::tokenize(&request.body) {
            Ok(Tokenized::Counted(ids)) => {
                Reply::json(200, &json!({"count": ids.len(), "max_model_len": openai::CONTEXT, "tokens": ids}))
            }
            Ok(Tokenized::Listed(ids)) => Reply::json(200, &json!({"tokens": ids})),
            Err(message) => generate::error(Api::OpenAiChat, 400, &message),
        },
        Route::Metrics => Reply::text("text/plain; version=0.0.4; charset=utf-8", metrics::page(shared)),
        Route::ResetStats => {
            shared.ledger.reset();
            Reply::json(200, &json!({"reset": true}))
        }
        Route::Tags => Reply::json(200, &ollama::tags(&shared.script, shared.started_ns)),
        Route::Show => show(shared, &request.body),
        Route::Version => Reply::json(200, &json!({"version": ollama::VERSION})),
        Route::Root => Reply::text("text/plain; charset=utf-8", "Ollama is running"),
        Route::NotAllowed(allowed) => {
            let message = format!("{} takes {allowed}, not {}", request.path, request.method);
            generate::error(Api::OpenAiChat, 405, &message).with("allow", allowed)
        }
        Route::Stats => Reply::json(200, &json!({})),
        // Answers are streamed, above.
        Route::Unknown | Route::Generate(_) => not_found(&format!("there is no {}", request.path)),
    }
}

fn show(shared: &Shared, body: &[u8]) -> Reply {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let Some(name) = body["model"].as_str().or_else(|| body["name"].as_str()) else {
        return Reply::json(400, &ollama::error("model is required"));
    };
    match shared.script.model(Some(name)) {
        Some(_) => Reply::json(200, &ollama::show(shared.started_ns)),
        None => Reply::json(404, &ollama::error(&format!("model '{name}' not found"))),
    }
}

/// The truth, once what is being finished is written down. Sent in pieces: it may be large.
async fn send_stats(shared: &Shared, request: &Request, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    for _ in 0..SETTLE_STEPS {
        if shared.ledger.is_settled() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let most = request.query("last").and_then(|last| last.parse().ok()).unwrap_or(usize::MAX);
    let Stats { totals, running, waiting, dropped, summary, requests } = shared.ledger.look(most, request.query("id"));
    let head =
        json!({"totals": totals, "running": running, "waiting": waiting, "dropped": dropped, "summary": summary});
    let head = head.to_string();
    let headers = [("content-type", "application/json"), ("transfer-encoding", "chunked")];
    writer.write_all(&http::head(200, &headers)).await?;
    let mut piece = head.strip_suffix('}').unwrap_or(&head).as_bytes().to_vec();
    piece.extend_from_slice(b",\"requests\":[");
    for (at, truth) in requests.iter().enumerate() {
        if at > 0 {
            piece.push(b',');
        }
        serde_json::to_writer(&mut piece, truth).map_err(io::Error::other)?;
        if piece.len() >= STATS_CHUNK {
            writer.write_all(&http::chunk(&piece)).await?;
            piece.clear();
        }
    }
    piece.extend_from_slice(b"]}\n");
    writer.write_all(&http::chunk(&piece)).await?;
    writer.write_all(http::LAST_CHUNK).await
}
