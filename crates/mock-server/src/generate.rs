//! Answers one generation request: validates it, draws its plan, waits for a slot, and sends the answer.

use std::io;
use std::time::Instant;

use ergometer_diagnostics::{CommandLine, Diagnostic};
use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::error::ScriptError;
use crate::fault::Fault;
use crate::generation_request::{Api, Delivery, GenerationRequest};
use crate::http::Request;
use crate::ollama::{self, AnswerTimes};
use crate::openai::{self, Answer};
use crate::plan::Plan;
use crate::reply::{ConnectionAction, Reply};
use crate::schedule::{BodyEnd, Schedule};
use crate::state::ServerState;
use crate::stats::{ChunkCount, Entry, GaugeGuard};
use crate::truth::{RequestOutcome, RequestTruth};

/// The start of a gzip file.
const GZIP: [u8; 18] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xab, 0x56, 0x4a, 0x49, 0x2c, 0x49, 0x54, 0xb2];

/// Answers a generation request.
pub(crate) async fn answer(
    state: &ServerState,
    request: &Request,
    api: Api,
    writer: &mut (impl AsyncWrite + Unpin),
) -> io::Result<ConnectionAction> {
    let ready = ValidRequest::check(state, request, api);
    let (generation, model, forced) = match ready {
        Ok(ValidRequest { generation, model, forced }) => (generation, model, forced),
        Err(rejected) => {
            state.ledger.count(|totals| totals.rejected += 1);
            return rejected.send(writer, true).await.map(|()| ConnectionAction::KeepAlive);
        }
    };
    let number = state.ledger.take_number();
    let plan = Plan::draw(&state.script, number, &generation, forced);
    let id = request.header("x-request-id").map_or_else(|| state.next_id(), str::to_owned);
    let entry = state.ledger.open(RequestTruth {
        id: id.clone(),
        number,
        path: request.path.clone(),
        received_ns: request.received_ns,
        started_ns: None,
        first_token_ns: None,
        sent_ns: Vec::new(),
        end_ns: None,
        prompt_tokens: generation.prompt_tokens,
        tokens: 0,
        status: None,
        fault: plan.fault,
        served: RequestOutcome::InFlight,
    });
    let responder = Responder { state, request, id: &id, model: &model, generation: &generation, plan: &plan, entry };
    responder.respond(writer).await
}

/// A generation request that can be answered.
struct ValidRequest {
    generation: GenerationRequest,
    model: String,
    forced: Option<Fault>,
}

impl ValidRequest {
    fn check(state: &ServerState, request: &Request, api: Api) -> Result<Self, Reply> {
        let reject = |status: u16, message: &str| error(api, status, message);
        let generation = GenerationRequest::read(api, &request.body).map_err(|message| reject(400, &message))?;
        let Some(model) = state.script.model(generation.model.as_deref()).map(str::to_owned) else {
            let listed = state.script.listed_models().join(", ");
            return Err(reject(
                404,
                &format!("model \"{}\" not found; available: {listed}", generation.model.unwrap_or_default()),
            ));
        };
        let forced = request.header("x-mock-fault").map(str::parse::<Fault>).transpose();
        let invalid = |error: ScriptError| reject(400, &error.one_line(&CommandLine));
        match forced.map_err(invalid)? {
            Some(Fault::Refuse) => Err(invalid(ScriptError::RefuseByHeader)),
            forced => Ok(Self { generation, model, forced }),
        }
    }
}

/// An error in the format of the API.
pub(crate) fn error(api: Api, status: u16, message: &str) -> Reply {
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        _ => "server_error",
    };
    let body = if api.is_ollama() { ollama::error(message) } else { openai::error(status, kind, message) };
    Reply::json(status, &body)
}

/// Sends the answer of one request and records when.
pub(crate) struct Responder<'a> {
    pub(crate) state: &'a ServerState,
    request: &'a Request,
    pub(crate) id: &'a str,
    model: &'a str,
    generation: &'a GenerationRequest,
    plan: &'a Plan,
    pub(crate) entry: Entry,
}

impl Responder<'_> {
    async fn respond(&self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<ConnectionAction> {
        if let Some(reply) = self.refusal() {
            return self.finish(reply, 0, writer).await;
        }
        match self.plan.fault {
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Reset) => return Ok(self.broken(ConnectionAction::Reset)),
            _ => {}
        }
        let waiting = GaugeGuard::new(&self.state.ledger.waiting);
        // The semaphore is never closed.
        let _slot = self.state.slots.acquire().await.ok();
        drop(waiting);
        let _running = GaugeGuard::new(&self.state.ledger.running);
        let started_ns = self.state.clock.now_ns();
        self.entry.start(started_ns);
        let schedule = Schedule::new(self.plan, self.generation, &self.state.script);
        match self.generation.delivery {
            Delivery::Stream => self.stream(&schedule, started_ns, writer).await,
            Delivery::Whole => self.whole(&schedule, started_ns, writer).await,
        }
    }

    /// The answer of a fault that does not need a slot.
    fn refusal(&self) -> Option<Reply> {
        let retry_after = self.state.script.retry_after.as_secs().to_string();
        let reply = match self.plan.fault? {
            Fault::TooManyRequests => {
                error(self.generation.api, 429, "too many requests (scripted fault)").with("retry-after", retry_after)
            }
            Fault::ServerError => error(self.generation.api, 500, "internal error (scripted fault)"),
            Fault::Unavailable => {
                error(self.generation.api, 503, "overloaded (scripted fault)").with("retry-after", retry_after)
            }
            Fault::Compressed => Reply::text(self.content_type(), GZIP).with("content-encoding", "gzip"),
            _ => return None,
        };
        Some(reply.with("x-request-id", self.id))
    }

    async fn whole(
        &self,
        schedule: &Schedule,
        started_ns: i64,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<ConnectionAction> {
        let start = Instant::now();
        self.state.timer.until(start + self.plan.due.last().copied().unwrap_or_default()).await;
        let answer = self.body(started_ns);
        let body = match self.plan.fault {
            Some(Fault::ErrorStream) => error(self.generation.api, 500, "the answer failed (scripted fault)").body,
            Some(Fault::BadSse) => b"{\"id\": this is not JSON".to_vec(),
            _ if self.generation.api.is_ollama() => to_bytes(&answer.whole_line(&self.times(started_ns))),
            _ => to_bytes(&answer.whole()),
        };
        let reply = Reply::text("application/json", body).with("x-request-id", self.id);
        if schedule.end == BodyEnd::Whole {
            let has_text = !matches!(self.plan.fault, Some(Fault::ErrorStream | Fault::BadSse));
            let tokens = if has_text { self.plan.tokens * self.generation.choices } else { 0 };
            return self.finish(reply, tokens, writer).await;
        }
        let mut half = reply.head();
        half.extend_from_slice(&reply.body[..reply.body.len() / 2]);
        writer.write_all(&half).await?;
        self.entry.status(200);
        match schedule.end {
            BodyEnd::Stall => std::future::pending().await,
            BodyEnd::Reset => Ok(self.broken(ConnectionAction::Reset)),
            BodyEnd::Cut | BodyEnd::Whole => Ok(self.broken(ConnectionAction::Close)),
        }
    }

    /// Sends a reply and records it.
    async fn finish(
        &self,
        reply: Reply,
        tokens: u64,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<ConnectionAction> {
        let _finishing = self.entry.finishing();
        let status = reply.status;
        reply.send(writer, true).await?;
        let now_ns = self.state.clock.now_ns();
        self.entry.status(status);
        if tokens > 0 {
            self.entry.record_write(now_ns, ChunkCount { chunks: 1, tokens });
        }
        self.entry.end(now_ns, RequestOutcome::Answered);
        Ok(ConnectionAction::KeepAlive)
    }

    /// Records that the connection is broken on purpose; the caller then breaks it.
    pub(crate) fn broken(&self, next: ConnectionAction) -> ConnectionAction {
        self.entry.end(self.state.clock.now_ns(), RequestOutcome::Broken);
        next
    }

    pub(crate) fn body(&self, started_ns: i64) -> Answer<'_> {
        Answer {
            id: self.id,
            model: self.model,
            created_s: started_ns / 1_000_000_000,
            generation: self.generation,
            plan: self.plan,
            script: &self.state.script,
        }
    }

    pub(crate) fn times(&self, started_ns: i64) -> AnswerTimes {
        AnswerTimes {
            received_ns: self.request.received_ns,
            started_ns,
            first_token_ns: self.entry.first_token_ns(),
            now_ns: self.state.clock.now_ns(),
        }
    }

    pub(crate) const fn content_type(&self) -> &'static str {
        match (self.generation.delivery, self.generation.api.is_ollama()) {
            (Delivery::Stream, false) => "text/event-stream; charset=utf-8",
            (Delivery::Stream, true) => "application/x-ndjson",
            (Delivery::Whole, _) => "application/json",
        }
    }
}

fn to_bytes(body: &Value) -> Vec<u8> {
    body.to_string().into_bytes()
}
