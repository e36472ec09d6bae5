//! Sends one query, with retries, until it is settled.

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
use tokio::task::coop::unconstrained;

use super::RunError;
use super::control::Control;
use super::counts::Counts;
use super::folder::RunFolder;
use super::outage::Outage;
use crate::journal::{Entry, JournalWriter, RunId};
use ergometer_clients::{Client, EarlierTurn, FailureKind, Outcome, Request, RequestError, Transcript};
use ergometer_datasets::{Dataset, Query};
use ergometer_runs::config::RunConfig;
use ergometer_runs::{Exchange, Fate};

/// How long requests in flight may continue after the user stops the run.
const GRACE: Duration = Duration::from_secs(2);

/// How often a request that waits for a permit checks whether to stop.
const STOP_CHECK: Duration = Duration::from_millis(100);

/// The number and the due time of an attempt.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    request: u64,
    /// The number of the attempt at the query, from 1.
    number: u32,
    scheduled: Timestamp,
}

/// A query and the earlier turns of its conversation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prompt<'a> {
    pub(super) query: &'a Query,
    pub(super) before: &'a [EarlierTurn],
}

/// The end of a query.
#[derive(Debug)]
pub(super) struct QueryEnd {
    /// When its last attempt ended.
    pub(super) end: Timestamp,
    pub(super) outcome: QueryResult,
}

/// How a query ended.
#[derive(Debug)]
pub(super) enum QueryResult {
    /// It completed. Holds the answer if the query is a turn of a conversation.
    Completed(String),
    Failed(RequestFailure),
    /// The user stopped the run.
    Stopped,
}

/// Whether a failed request reached the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestFailure {
    /// There was no connection, or no byte of a response.
    Unreachable,
    Other,
}

/// When a failed attempt may be retried.
#[derive(Debug, Clone, Copy)]
pub(super) enum NextAttempt {
    /// At once: the server closed an idle connection just as the request was sent.
    AtOnce,
    /// After the wait of the configuration, or the wait that the server asks for.
    After(Option<Duration>),
}

/// Sends queries and records every attempt in the journal.
pub(super) struct Sender {
    pub(super) control: Control,
    pub(super) counts: Counts,
    pub(super) clock: Arc<Clock>,
    parts: SenderParts,
    /// Limits the requests in flight, if there is a limit.
    permits: Option<Semaphore>,
    outage: Outage,
}

/// What a sender sends, where to, and where it records the requests.
pub(super) struct SenderParts {
    pub(super) config: RunConfig,
    pub(super) dataset: Arc<dyn Dataset>,
    pub(super) client: Arc<dyn Client>,
    pub(super) folder: Arc<RunFolder>,
    pub(super) run_id: RunId,
    /// The number of the session.
    pub(super) session: u32,
    pub(super) journal: JournalWriter,
    /// Attempts at each query in earlier sessions.
    pub(super) attempts: BTreeMap<u64, u32>,
}

/// Whether a request failed without an answer of the server. A server that is slow, or a client that refuses a request, is
/// something else.
pub(super) fn is_unreachable(kind: FailureKind, transcript: &Transcript) -> bool {
    let is_other = matches!(
        kind,
        FailureKind::Rejected
            | FailureKind::TimeoutFirstToken
            | FailureKind::TimeoutTotal
            | FailureKind::Descriptors
            | FailureKind::Ports
    );
    transcript.first_byte.is_none() && !is_other
}

impl Sender {
    pub(super) fn new(parts: SenderParts, clock: Arc<Clock>, control: Control) -> Self {
        let permits = parts.config.max_in_flight.map(|most| Semaphore::new(most as usize));
        Self { control, counts: Counts::default(), clock, parts, permits, outage: Outage::default() }
    }

    pub(super) const fn config(&self) -> &RunConfig {
        &self.parts.config
    }

    pub(super) fn dataset(&self) -> &dyn Dataset {
        &*self.parts.dataset
    }

    pub(super) fn client(&self) -> &dyn Client {
        &*self.parts.client
    }

    pub(super) const fn run_id(&self) -> &RunId {
        &self.parts.run_id
    }

    /// The number of the session.
    pub(super) const fn session(&self) -> u32 {
        self.parts.session
    }

    /// Adds an entry to the journal.
    pub(super) fn record(&self, entry: Entry) {
        self.parts.journal.append(entry);
    }

    /// Writes the rest of the journal.
    pub(super) fn finish(self) -> Result<(), RunError> {
        Ok(self.parts.journal.finish()?)
    }

    /// Reads a query of the dataset. Decompression runs on a blocking thread, so that it does not delay the reading of
    /// responses.
    pub(super) async fn query(&self, index: u64) -> Result<Query, RunError> {
        let dataset = Arc::clone(&self.parts.dataset);
        if !dataset.is_packed() {
            return Ok(dataset.get(index)?);
        }
        let unpacked = tokio::task::spawn_blocking(move || dataset.get(index)).await;
        Ok(unpacked.map_err(|error| RunError::internal(format!("query {index} could not be read: {error}")))??)
    }

    /// Sends a query until it is settled. Every attempt is recorded.
    pub(super) async fn send(&self, prompt: Prompt<'_>, scheduled: Timestamp) -> Result<QueryEnd, RunError> {
        let mut attempt = Attempt { request: self.control.dispenser.number(), number: 1, scheduled };
        let mut was_stale = false;
        loop {
            let Some(permit) = self.permit().await else {
                self.counts.cancelled.fetch_add(1, Ordering::Relaxed);
                self.counts.broken_off.fetch_add(1, Ordering::Relaxed);
                return Ok(QueryEnd { end: self.clock.now(), outcome: QueryResult::Stopped });
            };
            let (exchange, next) = self.exchange(prompt, attempt, was_stale).await;
            drop(permit);
            was_stale |= matches!(next, NextAttempt::AtOnce);
            if !exchange.is_retried {
                return self.settle(exchange).await;
            }
            let number = attempt.number;
            self.parts.journal.queue(Entry::Ended(Box::new(exchange))).await?;
            self.counts.retried.fetch_add(1, Ordering::Relaxed);
            let wait = match next {
                NextAttempt::AtOnce => Duration::ZERO,
                NextAttempt::After(asked) => {
                    self.parts.config.retries.wait(number, asked, fastrand::f64()).unwrap_or_default()
                }
            };
            if self.control.sleep(wait).await {
                // Not settled: a resumed run sends it again.
                self.counts.cancelled.fetch_add(1, Ordering::Relaxed);
                return Ok(QueryEnd { end: self.clock.now(), outcome: QueryResult::Stopped });
            }
            attempt =
                Attempt { request: self.control.dispenser.number(), number: number + 1, scheduled: self.clock.now() };
        }
    }

    /// Makes one attempt. Also returns when it may be retried.
    async fn exchange(&self, prompt: Prompt<'_>, attempt: Attempt, was_stale: bool) -> (Exchange, NextAttempt) {
        let Attempt { request, number: attempt, scheduled } = attempt;
        let query = prompt.query;
        self.record(Entry::Sent { request, index: query.index, sent: self.clock.now() });
        let in_flight = self.counts.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.counts.most_in_flight.fetch_max(in_flight, Ordering::Relaxed);
        let mut transcript = Transcript::default();
        let sent = self.clock.now();
        let (outcome, mut next) = self.attempt(prompt, &self.parts.run_id.request(request), &mut transcript).await;
        // If a second connection is closed on the same request, the request itself may be the cause.
        if was_stale && matches!(next, NextAttempt::AtOnce) {
            next = NextAttempt::After(None);
        }
        let now = self.clock.now();
        self.counts.in_flight.fetch_sub(1, Ordering::Relaxed);
        // The client's own times are more exact: building a long request and noticing the end of a stream take time.
        let sent = transcript.sent.take().unwrap_or(sent).clamp(sent, now);
        let end = transcript.ended.take().unwrap_or(now).clamp(sent, now);
        let is_retried = matches!(&outcome, Outcome::Failed { kind, .. } if self.is_retried(*kind, attempt, next));
        // Attempts of earlier sessions are counted, but do not use up the retries of this session.
        let attempt = attempt + self.parts.attempts.get(&query.index).copied().unwrap_or(0);
        let (session, query) = (self.parts.session, query.clone());
        let exchange =
            Exchange { request, session, attempt, query, scheduled, sent, end, transcript, outcome, is_retried };
        (exchange, next)
    }

    /// Whether this attempt, numbered from 1, is retried.
    fn is_retried(&self, kind: FailureKind, attempt: u32, next: NextAttempt) -> bool {
        let wait = match next {
            NextAttempt::AtOnce => return true,
            NextAttempt::After(asked) => self.parts.config.retries.wait(attempt, asked, 0.0),
        };
        // A transient failure after the user stopped counts as retried: the server may have been stopped too, so a
        // resumed run sends the query again.
        let is_due = wait.is_some_and(|wait| !self.control.dispenser.is_over_after(wait));
        kind.is_transient() && (is_due || self.control.is_stopped())
    }

    /// Records the last attempt at a query.
    async fn settle(&self, exchange: Exchange) -> Result<QueryEnd, RunError> {
        let (end, is_final) = (exchange.end, exchange.fate() == Fate::Settled);
        let output = exchange.transcript.usage.map_or(0, |usage| usage.output);
        let (is_failed, outcome) = match &exchange.outcome {
            Outcome::Completed => {
                self.outage.end();
                self.counts.figures().take(&exchange);
                let is_turn = exchange.query.turn.is_some();
                (false, QueryResult::Completed(if is_turn { exchange.transcript.text.clone() } else { String::new() }))
            }
            Outcome::Failed { kind, .. } => {
                let is_unreachable = is_unreachable(*kind, &exchange.transcript);
                if is_unreachable {
                    self.check_outage(&exchange.outcome);
                } else {
                    self.outage.end();
                }
                let failure = if is_unreachable { RequestFailure::Unreachable } else { RequestFailure::Other };
                (true, QueryResult::Failed(failure))
            }
            Outcome::Cancelled | Outcome::Lost => (false, QueryResult::Stopped),
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
        Ok(QueryEnd { end, outcome })
    }

    /// Ends the run if the server has been unreachable for too long.
    fn check_outage(&self, outcome: &Outcome) {
        let Outcome::Failed { kind, cause } = outcome else { return };
        if let Some(lasted) = self.outage.unreachable(Instant::now()).filter(|_| !self.control.is_stopped()) {
            let seconds = lasted.as_secs_f64();
            let cause = format!("for {seconds:.0} s ({kind}: {cause})");
            self.control.fail(RunError::no_answer(*kind, self.config().client.network.protocol, cause));
        }
    }

    /// Writes the last attempt at a query to the journal. The first record gives the folder its final name.
    async fn keep(&self, exchange: Exchange) -> Result<(), RunError> {
        let is_first_record = exchange.fate() == Fate::Settled && !self.parts.folder.has_record();
        let entry = Entry::Ended(Box::new(exchange));
        if is_first_record {
            self.parts.journal.write(entry).await?;
            return self.parts.folder.commit();
        }
        Ok(self.parts.journal.queue(entry).await?)
    }

    /// Records a turn that cannot be sent because an earlier turn of its conversation failed.
    pub(super) async fn give_up(&self, query: Query) -> Result<(), RunError> {
        let (now, request) = (self.clock.now(), self.control.dispenser.number());
        let attempt = 1 + self.parts.attempts.get(&query.index).copied().unwrap_or(0);
        let cause = String::from("an earlier turn of the conversation failed");
        self.keep(Exchange {
            request,
            session: self.parts.session,
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

    /// Waits for a permit to send; `None` if sending stops.
    async fn permit(&self) -> Option<Option<SemaphorePermit<'_>>> {
        let Some(permits) = &self.permits else { return Some(None) };
        if let Ok(permit) = permits.try_acquire() {
            return Some(Some(permit));
        }
        loop {
            tokio::select! {
                permit = permits.acquire() => {
                    // A request that got its permit after the deadline is not sent.
                    return permit.ok().filter(|_| !self.control.dispenser.is_over()).map(Some);
                }
                () = tokio::time::sleep(STOP_CHECK) => if self.control.dispenser.is_over() {
                    return None;
                },
            }
        }
    }

    /// Sends one request. It ends by itself, at the timeout, or [`GRACE`] after the user stops the run.
    pub(super) async fn attempt(
        &self,
        prompt: Prompt<'_>,
        id: &str,
        transcript: &mut Transcript,
    ) -> (Outcome, NextAttempt) {
        let (config, Prompt { query, before }) = (&self.parts.config, prompt);
        let request = Request {
            id: Some(id),
            index: query.index,
            earlier: before,
            problem: &query.problem,
            output_tokens: query.output_tokens,
            common: &config.request,
        };
        let limit = config.timeout_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        // A client that always has something to read uses up the budget of this task, and timers without budget never fire.
        let timed_out = unconstrained(async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        });
        let given_up = unconstrained(async {
            self.control.stopped().await;
            tokio::time::sleep(GRACE).await;
        });
        let started = Instant::now();
        let outcome = tokio::select! {
            biased;
            result = caught(self.parts.client.stream(&request, &self.clock, transcript)) => match result {
                // The timer is coarse, so the elapsed time is compared with the exact limit.
                Ok(()) if limit.is_some_and(|limit| transcript.ended.is_none() && started.elapsed() > limit) => self.timed_out(),
                Ok(()) => Outcome::Completed,
                Err(error) => {
                    let next = if error.is_stale { NextAttempt::AtOnce } else { NextAttempt::After(error.retry_after) };
                    return (Outcome::Failed { kind: error.kind, cause: error.cause }, next);
                }
            },
            () = timed_out => self.timed_out(),
            () = given_up => Outcome::Cancelled,
        };
        (outcome, NextAttempt::After(None))
    }

    fn timed_out(&self) -> Outcome {
        let limit = self.parts.config.timeout_s.unwrap_or_default();
        Outcome::Failed { kind: FailureKind::TimeoutTotal, cause: format!("not finished within {limit} s") }
    }
}

/// Turns a panic of the client into a failure of this request.
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
