//! Serves one connection: answers its requests in order, and notices at once when the client leaves.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ergometer_diagnostics::{CommandLine, Diagnostic, Message, hint};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;

use crate::generate;
use crate::generation_request::{self, Api, TokenizeRequest};
use crate::http::{self, ReadError, Request};
use crate::metrics;
use crate::ollama;
use crate::openai;
use crate::reply::{ConnectionAction, Reply};
use crate::route::Route;
use crate::state::ServerState;
use crate::truth::Stats;

/// The maximum number of bytes read ahead while a request is answered.
const MAX_READ_AHEAD: usize = 64 * 1024;

/// How long `/stats` waits for requests that are sending their last bytes, in milliseconds.
const SETTLE_STEPS: u32 = 200;

/// The size of one chunk of `/stats`.
const STATS_CHUNK: usize = 64 * 1024;

/// Serves a connection until it closes.
pub(crate) async fn serve(mut stream: TcpStream, state: Arc<ServerState>) {
    // Small chunks must not wait for each other. If this fails, chunks are late, and their recorded times show it.
    let _ = stream.set_nodelay(true);
    let mut ahead = Vec::new();
    loop {
        let request = match http::read(&mut stream, &mut ahead, &state.clock).await {
            Ok(request) => request,
            Err(ReadError::Closed) => return,
            Err(ReadError::Rejected(status, message)) => return refuse(stream, status, &message).await,
        };
        let (mut reader, mut writer) = stream.split();
        let next = tokio::select! {
            biased;
            next = respond(&state, &request, &mut writer) => next,
            () = watch(&mut reader, &mut ahead) => return,
        };
        match next {
            Ok(ConnectionAction::KeepAlive) if !request.wants_close() => {}
            Ok(ConnectionAction::Reset) => {
                // Closing with zero linger discards unsent data and sends a reset.
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

/// Returns when the client has left. Bytes that it sends meanwhile are kept for the next request.
async fn watch(reader: &mut ReadHalf<'_>, ahead: &mut Vec<u8>) {
    while ahead.len() < MAX_READ_AHEAD {
        ahead.reserve(4096);
        match reader.read_buf(ahead).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    std::future::pending::<()>().await;
}

/// Rejects an invalid request and closes the connection. The rest of the input is read first, because closing with
/// unread input would reset the connection and lose the answer.
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

async fn respond(
    state: &ServerState,
    request: &Request,
    writer: &mut (impl AsyncWrite + Unpin),
) -> io::Result<ConnectionAction> {
    let route = Route::parse(&request.method, &request.path);
    let is_ollama = request.path.starts_with("/api/");
    if route.is_guarded() && !has_key(state, request) {
        state.ledger.count(|totals| totals.rejected += 1);
        let api = if is_ollama { Api::OllamaChat } else { Api::OpenAiChat };
        let message = Message::new("the API key is missing or wrong")
            .with_hint(hint!("send the header `Authorization: Bearer KEY`"))
            .one_line(&CommandLine);
        return generate::error(api, 401, &message)
            .send(writer, request.method != "HEAD")
            .await
            .map(|()| ConnectionAction::KeepAlive);
    }
    if let Route::Generate(api) = route {
        return generate::answer(state, request, api, writer).await;
    }
    if route == Route::Stats && request.method != "HEAD" {
        let sent = match last_requests(request) {
            Ok(max) => send_stats(state, max, request.query("id"), writer).await,
            Err(message) => generate::error(Api::OpenAiChat, 400, &message).send(writer, true).await,
        };
        return sent.map(|()| ConnectionAction::KeepAlive);
    }
    state.ledger.count(|totals| totals.other_requests += 1);
    reply(state, request, route).send(writer, request.method != "HEAD").await.map(|()| ConnectionAction::KeepAlive)
}

fn has_key(state: &ServerState, request: &Request) -> bool {
    let Some(key) = &state.script.api_key else { return true };
    let sent = request.header("authorization").and_then(|value| value.split_once(' '));
    sent.is_some_and(|(scheme, sent)| scheme.eq_ignore_ascii_case("bearer") && sent.trim() == key)
}

/// The reply of every endpoint that answers at once.
fn reply(state: &ServerState, request: &Request, route: Route) -> Reply {
    let created_s = state.started_ns / 1_000_000_000;
    let not_found = |message: &str| generate::error(Api::OpenAiChat, 404, message);
    match route {
        Route::Models => Reply::json(200, &openai::models(&state.script, created_s)),
        Route::Model(name) => match state.script.model(Some(&name)) {
            Some(name) => Reply::json(200, &openai::model(name, created_s)),
            None => not_found(&format!("model \"{name}\" not found")),
        },
        Route::Health => Reply::json(200, &json!({"status": "ok"})),
        Route::Tokenize => match generation_request::tokenize(&request.body) {
            Ok(TokenizeRequest::Vllm(ids)) => {
                Reply::json(200, &json!({"count": ids.len(), "max_model_len": openai::CONTEXT, "tokens": ids}))
            }
            Ok(TokenizeRequest::LlamaCpp(ids)) => Reply::json(200, &json!({"tokens": ids})),
            Err(message) => generate::error(Api::OpenAiChat, 400, &message),
        },
        Route::Metrics => Reply::text("text/plain; version=0.0.4; charset=utf-8", metrics::page(state)),
        Route::ResetStats => {
            state.ledger.reset();
            Reply::json(200, &json!({"reset": true}))
        }
        Route::Tags => Reply::json(200, &ollama::tags(&state.script, state.started_ns)),
        Route::Show => show(state, &request.body),
        Route::Version => Reply::json(200, &json!({"version": ollama::VERSION})),
        Route::Root => Reply::text("text/plain; charset=utf-8", "Ollama is running"),
        Route::NotAllowed(allowed) => {
            let message = format!("{} accepts {allowed}, not {}", request.path, request.method);
            generate::error(Api::OpenAiChat, 405, &message).with("allow", allowed)
        }
        Route::Stats => Reply::json(200, &json!({})),
        // `respond` handles generation requests.
        Route::Unknown | Route::Generate(_) => not_found(&format!("no endpoint {}", request.path)),
    }
}

fn show(state: &ServerState, body: &[u8]) -> Reply {
    let body: serde_json::Value = match serde_json::from_slice(body) {
        Ok(body) => body,
        Err(error) => return Reply::json(400, &ollama::error(&format!("the body is not JSON: {error}"))),
    };
    let Some(name) = body["model"].as_str().or_else(|| body["name"].as_str()) else {
        return Reply::json(400, &ollama::error("model is required"));
    };
    match state.script.model(Some(name)) {
        Some(_) => Reply::json(200, &ollama::show(state.started_ns)),
        None => Reply::json(404, &ollama::error(&format!("model '{name}' not found"))),
    }
}

/// How many of the last requests `/stats` lists: `?last=N`, or all.
fn last_requests(request: &Request) -> Result<usize, String> {
    match request.query("last") {
        None => Ok(usize::MAX),
        Some(last) => last.parse().map_err(|_| format!("`last` must be a whole number of at least 0, not `{last}`")),
    }
}

/// Sends the statistics in chunks, because they can be large, after requests that are ending have been recorded.
async fn send_stats(
    state: &ServerState,
    max: usize,
    id: Option<&str>,
    writer: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    for _ in 0..SETTLE_STEPS {
        if state.ledger.is_settled() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let Stats { totals, running, waiting, dropped, summary, requests } = state.ledger.snapshot(max, id);
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
