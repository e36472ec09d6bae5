//! One query at a time: its request is sent, and sent again where that may help, until it is dealt with.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant};

use ergometer_telemetry::Clock;
use ergometer_units::Timestamp;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::RunError;
use super::control::Control;
use super::counts::Counts;
use super::folder::RunFolder;
use crate::journal::{Entry, JournalWriter};
use ergometer_clients::{Client, EarlierTurn, FailureKind, Outcome, Request, RequestError, Transcript};
use ergometer_datasets::{Dataset, Query};
use ergometer_runs::config::RunConfig;
use ergometer_runs::{Exchange, Fate};

/// Once the user wants to stop, requests in flight may end for this long.
const GRACE: Duration = Duration::from_secs(2);

/// Who waits to be sent looks this often whether it is time to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Where an attempt stands in the run.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    request: u64,
    /// From 1.
    number: u32,
    scheduled: Timestamp,
}

/// A query, and what was said before in its conversation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prompt<'a> {
    pub(super) query: &'a Query,
    pub(super) before: &'a [EarlierTurn],
}

/// A query that has been dealt with, or given up.
#[derive(Debug)]
pub(super) struct Settled {
    /// When its last attempt ended.
    pub(super) end: Timestamp,
    pub(super) answer: Answer,
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Answer {
    /// It completed; with what was said, where it is a turn of a conversation.
    Said(String),
    Failed(Failed),
    /// The user wants to stop.
    None,
}

/// How a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failed {
    /// Nobody said a word: there was no connection, or one on which nothing came back.
    Unheard,
    Answered,
}

/// When another attempt may follow one that failed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Again {
    /// At once: the request was lost on a connection that the server was just closing.
    AtOnce,
    /// As the run says, and after what the server asks for.
    After(Option<Duration>),
}

/// Sends queries, one request after the other, and records every attempt in the journal.
pub(super) struct Sender {
    pub(super) config: RunConfig,
    pub(super) dataset: Arc<dyn Dataset>,
    pub(super) client: Arc<dyn Client>,
    pub(super) folder: Arc<RunFolder>,
    /// The number of the session.
    pub(super) session: u32,
    pub(super) clock: Arc<Clock>,
    pub(super) journal: JournalWriter,
    /// How often a query was tried in earlier sessions.
    pub(super) attempts: BTreeMap<u64, u32>,
    /// Limits how many requests are in flight, if there is a limit.
    pub(super) permits: Option<Semaphore>,
    pub(super) control: Control,
    pub(super) counts: Counts,
}

impl Sender {
    /// The query at this place. What has to be unpacked for it holds nobody up who reads an answer.
    pub(super) async fn query(&self, index: u64) -> Result<Query, RunError> {
        let dataset = Arc::clone(&self.dataset);
        if !dataset.is_packed() {
            return Ok(dataset.get(index)?);
        }
        let unpacked = tokio::task::spawn_blocking(move || dataset.get(index)).await;
        Ok(unpacked.map_err(|error| RunError::internal(format!("query {index} could not be read: {error}")))??)
    }

    /// Sends a query until it is dealt with. Every attempt is recorded.
    pub(super) async fn send(&self, prompt: Prompt<'_>, scheduled: Timestamp) -> Result<Settled, RunError> {
        let mut place = Attempt { request: self.control.dispenser.number(), number: 1, scheduled };
        let mut is_stale_again = false;
        loop {
            let Some(permit) = self.permit().await else {
                self.counts.cancelled.fetch_add(1, Ordering::Relaxed);
                self.counts.broken_off.fetch_add(1, Ordering::Relaxed);
                return Ok(Settled { end: self.clock.now(), answer: Answer::None });
            };
            let (exchange, again) = self.exchange(prompt, place, is_stale_again).await;
            drop(permit);
            is_stale_again |= matches!(again, Again::AtOnce);
            if !exchange.is_retried {
                return self.settle(exchange).await;
            }
            let number = place.number;
            self.journal.queue(Entry::Ended(Box::new(exchange))).await?;
            self.counts.retried.fetch_add(1, Ordering::Relaxed);
            let wait = match again {
                Again::AtOnce => Duration::ZERO,
                Again::After(asked) => self.config.retries.wait(number, asked, fastrand::f64()).unwrap_or_default(),
            };
            if self.control.sleep(wait).await {
                // Not dealt with: a resumed run sends it again.
                self.counts.cancelled.fetch_add(1, Ordering::Relaxed);
                return Ok(Settled { end: self.clock.now(), answer: Answer::None });
            }
            place =
                Attempt { request: self.control.dispenser.number(), number: number + 1, scheduled: self.clock.now() };
        }
    }

    /// One attempt, and when another may follow.
    async fn exchange(&self, prompt: Prompt<'_>, place: Attempt, was_stale: bool) -> (Exchange, Again) {
        let Attempt { request, number: attempt, scheduled } = place;
        let query = prompt.query;
        self.journal.append(Entry::Sent { request, index: query.index, sent: self.clock.now() });
        let in_flight = self.counts.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.counts.most_in_flight.fetch_max(in_flight, Ordering::Relaxed);
        let mut transcript = Transcript::default();
        let sent = self.clock.now();
        let (outcome, mut again) = self.attempt(prompt, Some(request), &mut transcript).await;
        // A server that closes its connections on a request each time does not like the request.
        if was_stale && matches!(again, Again::AtOnce) {
            again = Again::After(None);
        }
        let now = self.clock.now();
        self.counts.in_flight.fetch_sub(1, Ordering::Relaxed);
        // A client may take a while to put a long request together, and to see that nothing more comes.
        let sent = transcript.sent.take().unwrap_or(sent).clamp(sent, now);
        let end = transcript.ended.take().unwrap_or(now).clamp(sent, now);
        let is_retried = matches!(&outcome, Outcome::Failed { kind, .. } if self.is_retried(*kind, attempt, again));
        // Those of earlier sessions count as attempts, and not against the retries of this one.
        let attempt = attempt + self.attempts.get(&query.index).copied().unwrap_or(0);
        let (session, query) = (self.session, query.clone());
        let exchange =
            Exchange { request, session, attempt, query, scheduled, sent, end, transcript, outcome, is_retried };
        (exchange, again)
    }

    /// Whether another attempt is to follow this one, from 1.
    fn is_retried(&self, kind: FailureKind, attempt: u32, again: Again) -> bool {
        let wait = match again {
            Again::AtOnce => return true,
            Again::After(asked) => self.config.retries.wait(attempt, asked, 0.0),
        };
        // What fails while the user ends everything, the server perhaps with it, is for a resumed run to send again.
        let is_due = wait.is_some_and(|wait| !self.control.dispenser.is_over_after(wait));
        kind.is_transient() && (is_due || self.control.is_stopped())
    }

    /// Records the last attempt at a query.
    async fn settle(&self, exchange: Exchange) -> Result<Settled, RunError> {
        let (end, is_final) = (exchange.end, exchange.fate() == Fate::Settled);
        let output = exchange.transcript.usage.map_or(0, |usage| usage.output);
        let (is_failed, answer) = match &exchange.outcome {
            Outcome::Completed => {
                self.counts.figures().take(&exchange);
                let is_turn = exchange.query.turn.is_some();
                (false, Answer::Said(if is_turn { exchange.transcript.text.clone() } else { String::new() }))
            }
            Outcome::Failed { kind, .. } => {
                let is_unheard = exchange.transcript.first_byte.is_none()
                    && !matches!(
                        kind,
                        FailureKind::Rejected | FailureKind::TimeoutFirstToken | FailureKind::TimeoutTotal
                    );
                (true, Answer::Failed(if is_unheard { Failed::Unheard } else { Failed::Answered }))
            }
            Outcome::Cancelled | Outcome::Lost => (false, Answer::None),
        };
        self.keep(exchange).await?;
        if is_final {
            self.counts.done.fetch_add(1, Ordering::Relaxed);
            self.counts.output_tokens.fetch_add(output, Ordering::Relaxed);
        } else {
            self.counts.cancelled.fetch_add(1, Ordering::Relaxed);
        }
        if is_failed {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            self.control.dispenser.failed();
        }
        Ok(Settled { end, answer })
    }

    /// Puts an exchange that was the last at its query into the journal. The first record gives the folder its name.
    async fn keep(&self, exchange: Exchange) -> Result<(), RunError> {
        let is_first_record = exchange.fate() == Fate::Settled && !self.folder.has_record();
        let entry = Entry::Ended(Box::new(exchange));
        if is_first_record {
            self.journal.write(entry).await?;
            return self.folder.commit();
        }
        Ok(self.journal.queue(entry).await?)
    }

    /// Records a turn that cannot be sent, as what should have been said before it is missing.
    pub(super) async fn give_up(&self, query: Query) -> Result<(), RunError> {
        let (now, request) = (self.clock.now(), self.control.dispenser.number());
        let attempt = 1 + self.attempts.get(&query.index).copied().unwrap_or(0);
        let cause = String::from("an earlier turn of the conversation failed");
        self.keep(Exchange {
            request,
            session: self.session,
            attempt,
            query,
            scheduled: now,
            sent: now,
            end: now,
            transcript: Transcript::default(),
            outcome: Outcome::Failed { kind: FailureKind::Conversation, cause },
            is_retried: false,
        })
        .await?;
        self.counts.done.fetch_add(1, Ordering::Relaxed);
        self.counts.failed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Waits until there may be another request in flight; `None` where it is time to stop.
    async fn permit(&self) -> Option<Option<SemaphorePermit<'_>>> {
        let Some(permits) = &self.permits else { return Some(None) };
        if let Ok(permit) = permits.try_acquire() {
            return Some(Some(permit));
        }
        loop {
            tokio::select! {
                permit = permits.acquire() => {
                    // What was due before the time was up and could not be sent is not sent any more.
                    return permit.ok().filter(|_| !self.control.dispenser.is_over()).map(Some);
                }
                () = tokio::time::sleep(LOOK) => if self.control.dispenser.is_over() {
                    return None;
                },
            }
        }
    }

    /// Sends one request; it ends by itself, at the timeout, or a while after the user wants to stop.
    pub(super) async fn attempt(
        &self,
        prompt: Prompt<'_>,
        number: Option<u64>,
        transcript: &mut Transcript,
    ) -> (Outcome, Again) {
        let (config, Prompt { query, before }) = (&self.config, prompt);
        let request = Request {
            number,
            index: query.index,
            earlier: before,
            problem: &query.problem,
            output_tokens: query.output_tokens,
            common: &config.request,
        };
        let limit = config.timeout_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let timed_out = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let given_up = async {
            self.control.stopped().await;
            tokio::time::sleep(GRACE).await;
        };
        let started = Instant::now();
        let outcome = tokio::select! {
            biased;
            result = caught(self.client.stream(&request, &self.clock, transcript)) => match result {
                // A timer is coarse; the limit is not.
                Ok(()) if limit.is_some_and(|limit| transcript.ended.is_none() && started.elapsed() > limit) => self.timed_out(),
                Ok(()) => Outcome::Completed,
                Err(error) => {
                    let again = if error.is_stale { Again::AtOnce } else { Again::After(error.retry_after) };
                    return (Outcome::Failed { kind: error.kind, cause: error.cause }, again);
                }
            },
            () = timed_out => self.timed_out(),
            () = given_up => Outcome::Cancelled,
        };
        (outcome, Again::After(None))
    }

    fn timed_out(&self) -> Outcome {
        let limit = self.config.timeout_s.unwrap_or_default();
        Outcome::Failed { kind: FailureKind::TimeoutTotal, cause: format!("no end within {limit} s") }
    }
}

/// A client may have bugs: a panic fails its request and no other.
async fn caught(mut streaming: impl Future<Output = Result<(), RequestError>> + Unpin) -> Result<(), RequestError> {
    std::future::poll_fn(|context| {
        catch_unwind(AssertUnwindSafe(|| Pin::new(&mut streaming).poll(context))).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            let cause = format!("the client panicked: {text}");
            Poll::Ready(Err(RequestError::new(FailureKind::Rejected, cause)))
        })
    })
    .await
}
