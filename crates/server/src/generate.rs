//! Answers one request: checks it, draws its plan, waits for a slot, and plays the answer, whole or (`stream`) in parts.

use std::io;
use std::time::Instant;

use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::asked::{Api, Asked, Delivery};
use crate::fault::Fault;
use crate::http::Request;
use crate::ollama::{self, Times};
use crate::openai::{self, Answer};
use crate::plan::Plan;
use crate::reply::{Next, Reply};
use crate::score::{End, Score};
use crate::shared::Shared;
use crate::stats::{Counted, Entry, Written};
use crate::truth::{RequestTruth, Served};

/// The first bytes of a gzip file, and some that follow: enough to be none of what was asked for.
const GZIP: [u8; 18] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xab, 0x56, 0x4a, 0x49, 0x2c, 0x49, 0x54, 0xb2];

/// Answers a request for an answer.
pub(crate) async fn answer(
    shared: &Shared,
    request: &Request,
    api: Api,
    writer: &mut (impl AsyncWrite + Unpin),
) -> io::Result<Next> {
    let ready = Ready::check(shared, request, api);
    let (asked, model, forced) = match ready {
        Ok(Ready { asked, model, forced }) => (asked, model, forced),
        Err(rejected) => {
            shared.ledger.count(|totals| totals.rejected += 1);
            return rejected.send(writer, true).await.map(|()| Next::KeepAlive);
        }
    };
    let number = shared.ledger.take_number();
    let plan = Plan::draw(&shared.script, number, &asked, forced);
    let id = request.header("x-request-id").map_or_else(|| shared.next_id(), str::to_owned);
    let entry = shared.ledger.open(RequestTruth {
        id: id.clone(),
        number,
        path: request.path.clone(),
        received_ns: request.received_ns,
        started_ns: None,
        first_token_ns: None,
        sent_ns: Vec::new(),
        end_ns: None,
        prompt_tokens: asked.prompt_tokens,
        tokens: 0,
        status: None,
        fault: plan.fault,
        served: Served::InFlight,
    });
    let player = Player { shared, request, id: &id, model: &model, asked: &asked, plan: &plan, entry };
    player.play(writer).await
}

/// A request that can be answered.
struct Ready {
    asked: Asked,
    model: String,
    forced: Option<Fault>,
}

impl Ready {
    fn check(shared: &Shared, request: &Request, api: Api) -> Result<Self, Reply> {
        let reject = |status: u16, message: &str| error(api, status, message);
        let asked = Asked::read(api, &request.body).map_err(|message| reject(400, &message))?;
        let Some(model) = shared.script.model(asked.model.as_deref()).map(str::to_owned) else {
            let listed = shared.script.listed_models().join(", ");
            return Err(reject(
                404,
                &format!("model \"{}\" not found, there are: {listed}", asked.model.unwrap_or_default()),
            ));
        };
        let forced = request.header("x-mock-fault").map(str::parse::<Fault>).transpose();
        match forced.map_err(|error| reject(400, &error.to_string()))? {
            Some(Fault::Refuse) => Err(reject(400, "a request that came cannot be refused. hint: --fault refuse=RATE")),
            forced => Ok(Self { asked, model, forced }),
        }
    }
}

/// An error in the format of the endpoint.
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

/// All that belongs to one answer.
pub(crate) struct Player<'a> {
    pub(crate) shared: &'a Shared,
    request: &'a Request,
    pub(crate) id: &'a str,
    model: &'a str,
    asked: &'a Asked,
    plan: &'a Plan,
    pub(crate) entry: Entry,
}

impl Player<'_> {
    async fn play(&self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<Next> {
        if let Some(reply) = self.refusal() {
            return self.finish(reply, 0, writer).await;
        }
        match self.plan.fault {
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Reset) => return Ok(self.broken(Next::Reset)),
            _ => {}
        }
        let waiting = Counted::new(&self.shared.ledger.waiting);
        // The semaphore is never closed; where it were, nobody would wait.
        let _slot = self.shared.slots.acquire().await.ok();
        drop(waiting);
        let _running = Counted::new(&self.shared.ledger.running);
        let started_ns = self.shared.clock.now_ns();
        self.entry.start(started_ns);
        let score = Score::of(self.plan, self.asked, &self.shared.script);
        match self.asked.delivery {
            Delivery::Stream => self.stream(&score, started_ns, writer).await,
            Delivery::Whole => self.whole(&score, started_ns, writer).await,
        }
    }

    /// The answer of a fault that needs no slot.
    fn refusal(&self) -> Option<Reply> {
        let retry_after = self.shared.script.retry_after.as_secs().to_string();
        let reply = match self.plan.fault? {
            Fault::TooManyRequests => {
                error(self.asked.api, 429, "too many requests, the script says").with("retry-after", retry_after)
            }
            Fault::ServerError => error(self.asked.api, 500, "an internal error, the script says"),
            Fault::Unavailable => {
                error(self.asked.api, 503, "overloaded, the script says").with("retry-after", retry_after)
            }
            Fault::Compressed => Reply::text(self.content_type(), GZIP).with("content-encoding", "gzip"),
            _ => return None,
        };
        Some(reply.with("x-request-id", self.id))
    }

    async fn whole(&self, score: &Score, started_ns: i64, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<Next> {
        let start = Instant::now();
        self.shared.timer.until(start + self.plan.due.last().copied().unwrap_or_default()).await;
        let answer = self.body(started_ns);
        let body = match self.plan.fault {
            Some(Fault::ErrorStream) => {
                error(self.asked.api, 500, "the mock server broke the answer, as its script says").body
            }
            Some(Fault::BadSse) => b"{\"id\": this is not JSON".to_vec(),
            _ if self.asked.api.is_ollama() => to_bytes(&answer.whole_line(&self.times(started_ns))),
            _ => to_bytes(&answer.whole()),
        };
        let reply = Reply::text("application/json", body).with("x-request-id", self.id);
        if score.end == End::Whole {
            let has_text = !matches!(self.plan.fault, Some(Fault::ErrorStream | Fault::BadSse));
            let tokens = if has_text { self.plan.tokens * self.asked.choices } else { 0 };
            return self.finish(reply, tokens, writer).await;
        }
        let mut half = reply.head();
        half.extend_from_slice(&reply.body[..reply.body.len() / 2]);
        writer.write_all(&half).await?;
        self.entry.status(200);
        match score.end {
            End::Stall => std::future::pending().await,
            End::Reset => Ok(self.broken(Next::Reset)),
            End::Cut | End::Whole => Ok(self.broken(Next::Close)),
        }
    }

    /// Sends an answer in one piece and writes it down.
    async fn finish(&self, reply: Reply, tokens: u64, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<Next> {
        let _finishing = self.entry.finishing();
        let status = reply.status;
        reply.send(writer, true).await?;
        let now_ns = self.shared.clock.now_ns();
        self.entry.status(status);
        if tokens > 0 {
            self.entry.wrote(now_ns, Written { chunks: 1, tokens });
        }
        self.entry.end(now_ns, Served::Answered);
        Ok(Next::KeepAlive)
    }

    /// Writes down that the connection is broken off, which the caller then does.
    pub(crate) fn broken(&self, next: Next) -> Next {
        self.entry.end(self.shared.clock.now_ns(), Served::Broken);
        next
    }

    pub(crate) fn body(&self, started_ns: i64) -> Answer<'_> {
        Answer {
            id: self.id,
            model: self.model,
            created_s: started_ns / 1_000_000_000,
            asked: self.asked,
            plan: self.plan,
            script: &self.shared.script,
        }
    }

    pub(crate) fn times(&self, started_ns: i64) -> Times {
        Times {
            received_ns: self.request.received_ns,
            started_ns,
            first_token_ns: self.entry.first_token_ns(),
            now_ns: self.shared.clock.now_ns(),
        }
    }

    pub(crate) const fn content_type(&self) -> &'static str {
        match (self.asked.delivery, self.asked.api.is_ollama()) {
            (Delivery::Stream, false) => "text/event-stream; charset=utf-8",
            (Delivery::Stream, true) => "application/x-ndjson",
            (Delivery::Whole, _) => "application/json",
        }
    }
}

fn to_bytes(body: &Value) -> Vec<u8> {
    body.to_string().into_bytes()
}
