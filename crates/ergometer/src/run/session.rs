//! One session of a run: from the first reading to the last.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use ergometer_telemetry::recording::{RecordingHandle, RecordingWriter};
use ergometer_telemetry::{Clock, Provenance, Sampler, Sensor};
use ergometer_units::{Joules, Timestamp, Window};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::dispenser::Dispenser;
use super::folder::RunFolder;
use super::provisional::{Provisional, power};
use super::{Notice, Observer, Progress, RunError};
use crate::client::{Client, FailureKind, Outcome, Request, RequestError, Transcript};
use crate::config::{Counted, RunConfig};
use crate::dataset::{Dataset, Query};
use crate::journal::{Closing, Entry, Exchange, IdleKind, JournalFolder, JournalWriter, SessionStart};
use crate::server_metrics::{Scraper, ServerMetrics};

/// After work a machine settles for this long before it counts as at rest.
const SETTLE: Duration = Duration::from_secs(1);

/// What the sensors need before the first request and after the last to frame them: a few steps of a counter.
const FRAME: Duration = Duration::from_millis(400);

/// How often the live view is told.
const TICK: Duration = Duration::from_millis(100);

/// Once the user wants to stop, requests in flight may end for this long.
const GRACE: Duration = Duration::from_secs(2);

/// What is left to do.
#[derive(Debug)]
pub(super) struct SessionPlan {
    pub(super) session: u32,
    pub(super) end: Option<u64>,
    pub(super) done: BTreeSet<u64>,
    pub(super) first_request: u64,
    /// For how long requests were sent in earlier sessions.
    pub(super) seconds_before: f64,
}

impl SessionPlan {
    /// Whether nothing is left to do, and why.
    pub(super) fn is_done(&self, duration_s: Option<f64>) -> Option<Closing> {
        let is_finished = self.end.is_some_and(|end| (0..end).all(|index| self.done.contains(&index)));
        let is_over = duration_s.is_some_and(|seconds| self.seconds_before >= seconds);
        is_finished.then_some(Closing::Finished).or(is_over.then_some(Closing::Duration))
    }
}

/// What a session works with.
pub(super) struct Session {
    pub(super) config: RunConfig,
    pub(super) dataset: Arc<dyn Dataset>,
    pub(super) client: Arc<dyn Client>,
    pub(super) counted: Counted,
    pub(super) server: Option<ServerMetrics>,
    pub(super) folder: Arc<RunFolder>,
    pub(super) observer: Arc<dyn Observer>,
}

/// How a session ended.
pub(super) struct Ended {
    pub(super) closing: Closing,
    pub(super) failure: Option<RunError>,
}

/// What the tasks that send requests share.
struct Shared {
    session: Session,
    number: u32,
    clock: Arc<Clock>,
    journal: JournalWriter,
    dispenser: Dispenser,
    counts: Counts,
    /// Without a sensor of energy there is nothing to frame.
    frame: Duration,
    stop: watch::Receiver<bool>,
    failure: Mutex<Option<RunError>>,
}

/// Where an attempt stands in the run.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    request: u64,
    /// From 1.
    number: u32,
    scheduled: Timestamp,
}

#[derive(Debug, Default)]
struct Counts {
    done: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    /// Attempts that were followed by another.
    retried: AtomicU64,
    in_flight: AtomicU64,
    output_tokens: AtomicU64,
}

impl Session {
    pub(super) async fn run(
        self,
        plan: SessionPlan,
        mut sensors: Vec<Box<dyn Sensor>>,
        journal: &JournalFolder,
        stop: watch::Receiver<bool>,
    ) -> Result<Ended, RunError> {
        let clock = Arc::new(Clock::start());
        let writer = journal.start_events(plan.session)?;
        let start = SessionStart { session: plan.session, started_ns: clock.now().nanos_since_epoch() };
        writer.write(&Entry::Session(start)).await?;
        let scraper = self.scraper(&clock, &mut sensors).await;
        let frame = if has_energy(&sensors) { FRAME } else { Duration::ZERO };
        let described = sensors.iter().map(|sensor| (sensor.info(), sensor.channels()));
        let (tap, recording) = RecordingWriter::create(journal.readings_path(plan.session), described)?.into_tap();
        let sampler = Sampler::start(sensors, Arc::clone(&clock), Some(tap));

        let left = self.config.duration_s.map(|seconds| (seconds - plan.seconds_before).max(0.0));
        let observer = Arc::clone(&self.observer);
        let (idle, warmup) = (self.config.idle_s, self.config.warmup);
        let max_failures = self.config.max_failures;
        let dispenser = Dispenser::new(plan.end, plan.done, plan.first_request).with_max_failures(max_failures);
        let mut shared = Shared {
            session: self,
            number: plan.session,
            clock,
            journal: writer,
            dispenser,
            counts: Counts::default(),
            frame,
            stop,
            failure: Mutex::new(None),
        };
        shared.warm_up(warmup).await;
        shared.rest(IdleKind::Before, idle, &sampler).await;
        if let Some(left) = left {
            let deadline = Instant::now().checked_add(Duration::from_secs_f64(left));
            shared.dispenser = shared.dispenser.with_deadline(deadline);
        }
        if shared.is_stopped() {
            shared.dispenser.stop();
        }
        ask(scraper.as_ref()).await;
        observer.notice(Notice::Sending);
        let shared = Arc::new(shared);
        shared.send_all(&sampler, &recording).await;
        ask(scraper.as_ref()).await;
        observer.notice(Notice::Sent);
        let is_stopped = shared.is_stopped();
        if !is_stopped && !shared.has_failed() {
            shared.rest(IdleKind::After, idle, &sampler).await;
        }
        // The driver hands its last samples out late.
        tokio::time::sleep(shared.frame).await;
        let closing = if recording.has_failed() { Closing::Unwritable } else { shared.closing(is_stopped) };
        let stopped = tokio::task::spawn_blocking(move || {
            let _ = sampler.stop();
            recording.finish()
        });
        if let Ok(Err(error)) = stopped.await {
            shared.fail(error.into());
        }
        shared.journal.append(&Entry::Closed(closing));
        let failure = shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(shared) = Arc::into_inner(shared) else { return Ok(Ended { closing, failure }) };
        let finished = shared.journal.finish().err().map(RunError::from);
        Ok(Ended { closing, failure: failure.or(finished) })
    }

    /// Puts the server's sensor to the others, where it tells something.
    async fn scraper(&self, clock: &Arc<Clock>, sensors: &mut Vec<Box<dyn Sensor>>) -> Option<Scraper> {
        let (scraper, sensor) = self.server.as_ref()?.start(clock).await;
        sensors.push(Box::new(sensor));
        Some(scraper)
    }
}

impl Shared {
    /// Sends requests that do not count.
    async fn warm_up(&self, count: u32) {
        if count == 0 || self.is_stopped() {
            return;
        }
        self.session.observer.notice(Notice::Warming(count));
        let start = self.clock.now();
        let size = self.session.dataset.size().unwrap_or(u64::MAX).max(1);
        for number in 0..u64::from(count) {
            let Ok(query) = self.session.dataset.get(number % size) else { break };
            let mut transcript = Transcript::default();
            let (outcome, _) = self.attempt(&query, number, &mut transcript).await;
            match outcome {
                Outcome::Failed { cause, .. } => self.session.observer.notice(Notice::WarmupFailed(&cause)),
                Outcome::Cancelled | Outcome::Lost => break,
                Outcome::Completed => {}
            }
        }
        if let Ok(window) = Window::new(start, self.clock.now()) {
            self.journal.append(&Entry::Warmup(window));
        }
    }

    /// Leaves the machine alone.
    async fn rest(&self, kind: IdleKind, seconds: f64, sampler: &Sampler) {
        let length = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        if length.is_zero() {
            self.sleep(self.frame).await;
            return;
        }
        if kind == IdleKind::Before {
            self.session.observer.notice(Notice::Resting(length));
        }
        if self.sleep(SETTLE).await {
            return;
        }
        let start = self.clock.now();
        if self.sleep(length).await {
            return;
        }
        let Ok(window) = Window::new(start, self.clock.now()) else { return };
        self.journal.append(&Entry::Idle(kind, window));
        let rested = sampler.with_timeline(|timeline| power(timeline, &self.session.counted, window));
        if let Some(watts) = rested.filter(|_| kind == IdleKind::Before) {
            self.session.observer.notice(Notice::Rested(watts, length));
        }
    }

    /// Sends the queries, as many at a time as asked for, and tells how far it is.
    async fn send_all(self: &Arc<Self>, sampler: &Sampler, recording: &RecordingHandle) {
        let mut slots = JoinSet::new();
        let start = self.clock.now();
        let began = Instant::now();
        for _ in 0..self.session.config.concurrency.max(1) {
            slots.spawn(Arc::clone(self).send_in_turn(start));
        }
        let mut ticks = tokio::time::interval(TICK);
        let mut provisional = Provisional::default();
        let mut stop = self.stop.clone();
        let mut is_stopping = false;
        loop {
            tokio::select! {
                ended = slots.join_next() => match ended {
                    None => break,
                    Some(Ok(())) => {}
                    // A slot that is gone would leave its query out, and the run would pass for one that ended by itself.
                    Some(Err(error)) => self.fail(RunError::Config(format!("a request could not be sent: {error}"))),
                },
                _ = ticks.tick() => {
                    self.tell(sampler, &mut provisional, start, began);
                    // Requests whose energy is not kept are not worth sending.
                    if recording.has_failed() {
                        self.dispenser.stop();
                    }
                }
                () = wait_for(&mut stop), if !is_stopping => {
                    self.dispenser.stop();
                    is_stopping = true;
                }
            }
        }
        self.tell(sampler, &mut provisional, start, began);
    }

    fn tell(&self, sampler: &Sampler, provisional: &mut Provisional, start: Timestamp, began: Instant) {
        let counts = &self.counts;
        let done_now = counts.done.load(Ordering::Relaxed);
        sampler.with_timeline(|timeline| provisional.update(timeline, &self.session.counted, start));
        // Energy is known up to a moment ago, queries up to now: the rate brings them together.
        let elapsed = began.elapsed();
        let joules_per_query = provisional.so_far(start).and_then(|(joules, seconds)| {
            let power = joules.get() / seconds.get();
            let queries_per_second = done_now as f64 / elapsed.as_secs_f64();
            let joules = power / queries_per_second;
            joules.is_finite().then(|| Joules::new(joules))
        });
        self.session.observer.progress(&Progress {
            done: self.dispenser.done_before() + done_now,
            total: self.dispenser.total(),
            done_now,
            failed: counts.failed.load(Ordering::Relaxed),
            retried: counts.retried.load(Ordering::Relaxed),
            in_flight: counts.in_flight.load(Ordering::Relaxed),
            elapsed,
            output_tokens: counts.output_tokens.load(Ordering::Relaxed),
            joules_per_query,
        });
    }

    /// One slot of a closed loop: the next request is scheduled when the last one ends.
    async fn send_in_turn(self: Arc<Self>, start: Timestamp) {
        let mut scheduled = start;
        while !self.is_stopped()
            && let Some((index, request)) = self.dispenser.next()
        {
            match self.send(index, request, scheduled).await {
                Ok(end) => scheduled = end,
                Err(error) => {
                    self.fail(error);
                    return;
                }
            }
        }
    }

    /// Sends a query until it is dealt with. Every attempt is recorded.
    async fn send(&self, index: u64, request: u64, scheduled: Timestamp) -> Result<Timestamp, RunError> {
        let query = self.session.dataset.get(index)?;
        let mut place = Attempt { request, number: 1, scheduled };
        loop {
            let (exchange, retry_after) = self.exchange(&query, place).await;
            let end = exchange.end;
            if !exchange.is_retried {
                self.settle(exchange).await?;
                return Ok(end);
            }
            let number = place.number;
            self.journal.write(&Entry::Ended(Box::new(exchange))).await?;
            self.counts.retried.fetch_add(1, Ordering::Relaxed);
            let wait = self.session.config.retries.wait(number, retry_after, fastrand::f64());
            if self.sleep(wait.unwrap_or_default()).await {
                // Not dealt with: a resumed run sends it again.
                self.counts.cancelled.fetch_add(1, Ordering::Relaxed);
                return Ok(self.clock.now());
            }
            place =
                Attempt { request: self.dispenser.another_request(), number: number + 1, scheduled: self.clock.now() };
        }
    }

    /// One attempt, and how long the server wants to be left alone after it.
    async fn exchange(&self, query: &Query, place: Attempt) -> (Exchange, Option<Duration>) {
        let Attempt { request, number: attempt, scheduled } = place;
        self.journal.append(&Entry::Sent { request, index: query.index, sent: self.clock.now() });
        self.counts.in_flight.fetch_add(1, Ordering::Relaxed);
        let mut transcript = Transcript::default();
        let sent = self.clock.now();
        let (outcome, retry_after) = self.attempt(query, request, &mut transcript).await;
        let end = self.clock.now();
        self.counts.in_flight.fetch_sub(1, Ordering::Relaxed);
        // A client may take a while to put a long request together.
        let sent = transcript.sent.take().unwrap_or(sent).clamp(sent, end);
        let is_retried = match &outcome {
            Outcome::Failed { kind, .. } => {
                let wait = self.session.config.retries.wait(attempt, retry_after, 0.0);
                let is_over = wait.is_none_or(|wait| self.dispenser.is_over_after(wait));
                kind.is_transient() && !is_over && !self.is_stopped()
            }
            Outcome::Completed | Outcome::Cancelled | Outcome::Lost => false,
        };
        let (session, query) = (self.number, query.clone());
        let exchange =
            Exchange { request, session, attempt, query, scheduled, sent, end, transcript, outcome, is_retried };
        (exchange, retry_after)
    }

    /// Records the last attempt at a query.
    async fn settle(&self, exchange: Exchange) -> Result<(), RunError> {
        let (is_final, is_failed) = (exchange.is_final(), matches!(exchange.outcome, Outcome::Failed { .. }));
        let output = exchange.transcript.usage.map_or(0, |usage| usage.output);
        self.journal.write(&Entry::Ended(Box::new(exchange))).await?;
        if is_final {
            self.session.folder.commit()?;
            self.counts.done.fetch_add(1, Ordering::Relaxed);
            self.counts.output_tokens.fetch_add(output, Ordering::Relaxed);
        } else {
            self.counts.cancelled.fetch_add(1, Ordering::Relaxed);
        }
        if is_failed {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            self.dispenser.failed();
        }
        Ok(())
    }

    /// Sends one request; it ends by itself, at the timeout, or a while after the user wants to stop.
    async fn attempt(&self, query: &Query, number: u64, transcript: &mut Transcript) -> (Outcome, Option<Duration>) {
        let config = &self.session.config;
        let request = Request {
            number,
            index: query.index,
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
        let mut stop = self.stop.clone();
        let given_up = async {
            wait_for(&mut stop).await;
            tokio::time::sleep(GRACE).await;
        };
        let started = Instant::now();
        let is_late = || limit.is_some_and(|limit| started.elapsed() > limit);
        let outcome = tokio::select! {
            biased;
            result = caught(self.session.client.stream(&request, &self.clock, transcript)) => match result {
                // A timer is coarse; the limit is not.
                Ok(()) if is_late() => self.timed_out(),
                Ok(()) => Outcome::Completed,
                Err(error) => {
                    return (Outcome::Failed { kind: error.kind, cause: error.cause }, error.retry_after);
                }
            },
            () = timed_out => self.timed_out(),
            () = given_up => Outcome::Cancelled,
        };
        (outcome, None)
    }

    fn timed_out(&self) -> Outcome {
        let limit = self.session.config.timeout_s.unwrap_or_default();
        Outcome::Failed { kind: FailureKind::TimeoutTotal, cause: format!("no end within {limit} s") }
    }

    /// Sleeps, unless the user wants to stop; says whether they do.
    async fn sleep(&self, length: Duration) -> bool {
        let mut stop = self.stop.clone();
        tokio::select! {
            () = tokio::time::sleep(length) => self.is_stopped(),
            () = wait_for(&mut stop) => true,
        }
    }

    /// Why no more was sent. `is_stopped` says whether the user wanted it before the last request ended; what was handed
    /// out and then given up was not dealt with.
    fn closing(&self, is_stopped: bool) -> Closing {
        let closing = self.dispenser.closing();
        let is_whole = closing == Closing::Finished && self.counts.cancelled.load(Ordering::Relaxed) == 0;
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = &*failure {
            if matches!(error, RunError::Dataset(_)) { Closing::Unreadable } else { Closing::Unwritable }
        } else if is_stopped && !is_whole {
            Closing::Interrupted
        } else {
            closing
        }
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    fn has_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// What was measured cannot be kept any more: no further requests.
    fn fail(&self, error: RunError) {
        self.dispenser.stop();
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// A reading of the server's counters on either side of the requests: what they differ by is the requests'.
async fn ask(scraper: Option<&Scraper>) {
    if let Some(scraper) = scraper {
        scraper.now().await;
    }
}

fn has_energy(sensors: &[Box<dyn Sensor>]) -> bool {
    let mut channels = sensors.iter().flat_map(|sensor| sensor.channels());
    channels.any(|channel| channel.provenance != Provenance::Gauge)
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

/// Waits until the user wants to stop; for ever where nobody can say so any more.
async fn wait_for(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|&stopped| stopped).await.is_err() {
        std::future::pending::<()>().await;
    }
}
