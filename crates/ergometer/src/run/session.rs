//! One session of a run: from the first reading to the last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ergometer_telemetry::recording::{RecordingHandle, RecordingWriter};
use ergometer_telemetry::{Clock, Provenance, Sampler, Sensor};
use ergometer_units::{Joules, Window};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::MissedTickBehavior;

use super::dispenser::Dispenser;
use super::figures::Figures;
use super::folder::RunFolder;
use super::loops::Start;
use super::provisional::{Provisional, power};
use super::sender_watch::SenderWatch;
use super::sending::Asked;
use super::{Notice, Observer, Progress, RunError};
use crate::config::Counted;
use crate::journal::{Entry, IdleKind, JournalFolder, JournalWriter, SessionStart};
use crate::stop::stopped;
use ergometer_clients::server_metrics::{Scraper, ServerMetrics};
use ergometer_clients::{Client, ConnectOutcome, EarlierTurn, Outcome, Transcript};
use ergometer_datasets::Dataset;
use ergometer_runs::config::RunConfig;
use ergometer_runs::{Closing, SenderFacts};

/// After work a machine settles for this long before it counts as at rest.
const SETTLE: Duration = Duration::from_secs(1);

/// What the sensors need before the first request and after the last to frame them: a few steps of a counter.
const FRAME: Duration = Duration::from_millis(400);

/// Requests do not wait longer for connections that are opened ahead.
const CONNECTING: Duration = Duration::from_secs(10);

/// A connection is there before the server has taken it from its queue: it gets a moment to do so.
const ACCEPTING: Duration = Duration::from_millis(50);

/// How often the live view is told.
const TICK: Duration = Duration::from_millis(100);

/// What is left to do.
#[derive(Debug)]
pub(super) struct SessionPlan {
    pub(super) session: u32,
    pub(super) end: Option<u64>,
    pub(super) done: BTreeSet<u64>,
    pub(super) first_request: u64,
    /// How often those that are open were tried in earlier sessions.
    pub(super) attempts: BTreeMap<u64, u32>,
    /// What was said in earlier sessions in conversations that are not over.
    pub(super) said: BTreeMap<u64, EarlierTurn>,
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
pub(super) struct Shared {
    pub(super) session: Session,
    pub(super) number: u32,
    pub(super) clock: Arc<Clock>,
    pub(super) journal: JournalWriter,
    pub(super) dispenser: Dispenser,
    /// How often a query was tried in earlier sessions.
    pub(super) attempts: BTreeMap<u64, u32>,
    /// What was said in earlier sessions in conversations that are not over.
    pub(super) said: BTreeMap<u64, EarlierTurn>,
    /// So many requests may be in flight, where there is a limit.
    pub(super) permits: Option<Semaphore>,
    pub(super) counts: Counts,
    figures: Mutex<Figures>,
    /// Without a sensor of energy there is nothing to frame.
    pub(super) frame: Duration,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) failure: Mutex<Option<RunError>>,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) done: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) cancelled: AtomicU64,
    /// Conversations of which something is left to say.
    pub(super) broken_off: AtomicU64,
    /// Attempts that were followed by another.
    pub(super) retried: AtomicU64,
    pub(super) in_flight: AtomicU64,
    pub(super) most_in_flight: AtomicU64,
    pub(super) output_tokens: AtomicU64,
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
        writer.write(Entry::Session(start)).await?;
        let scraper = self.scraper(&clock, &mut sensors).await;
        let frame = if has_energy(&sensors) { FRAME } else { Duration::ZERO };
        let described = sensors.iter().map(|sensor| (sensor.info(), sensor.channels()));
        let (tap, recording) = RecordingWriter::create(journal.readings_path(plan.session), described)?.into_tap();
        let sampler = Sampler::start(sensors, Arc::clone(&clock), Some(tap));

        let left = self.config.duration_s.map(|seconds| (seconds - plan.seconds_before).max(0.0));
        let observer = Arc::clone(&self.observer);
        let (idle, warmup) = (self.config.idle_s, self.config.warmup);
        let max_failures = self.config.max_failures;
        let dispenser = Dispenser::new(plan.end, plan.done, plan.first_request)
            .with_conversations(Arc::clone(&self.dataset))
            .with_max_failures(max_failures);
        let permits = self.config.max_in_flight.map(|most| Semaphore::new(most as usize));
        let mut shared = Shared {
            session: self,
            number: plan.session,
            clock,
            journal: writer,
            dispenser,
            attempts: plan.attempts,
            said: plan.said,
            permits,
            counts: Counts::default(),
            figures: Mutex::default(),
            frame,
            stop,
            failure: Mutex::new(None),
        };
        shared.warm_up(warmup).await;
        shared.rest(IdleKind::Before, idle, &sampler).await;
        ask(scraper.as_ref()).await;
        shared.connect().await;
        if let Some(left) = left {
            let deadline = Instant::now().checked_add(Duration::from_secs_f64(left));
            shared.dispenser = shared.dispenser.with_deadline(deadline);
        }
        if shared.is_stopped() {
            shared.dispenser.stop();
        }
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
        shared.journal.append(Entry::Closed(closing));
        let failure = shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(shared) = Arc::into_inner(shared) else { return Ok(Ended { closing, failure }) };
        let unwritten = shared.journal.finish().err().map(RunError::from);
        let closing = if unwritten.is_some() { Closing::Unwritable } else { closing };
        Ok(Ended { closing, failure: failure.or(unwritten) })
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
            let Ok(query) = self.query(number % size).await else { break };
            let mut transcript = Transcript::default();
            let (outcome, _) = self.attempt(Asked { query: &query, before: &[] }, None, &mut transcript).await;
            match outcome {
                Outcome::Failed { cause, .. } => self.session.observer.notice(Notice::WarmupFailed(&cause)),
                Outcome::Cancelled | Outcome::Lost => break,
                Outcome::Completed => {}
            }
        }
        if let Ok(window) = Window::new(start, self.clock.now()) {
            self.journal.append(Entry::Warmup(window));
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
        self.journal.append(Entry::Idle(kind, window));
        let rested = sampler.with_timeline(|timeline| power(timeline, &self.session.counted, window));
        if let Some(watts) = rested.filter(|_| kind == IdleKind::Before) {
            self.session.observer.notice(Notice::Rested(watts, length));
        }
    }

    /// Opens the connections of a closed loop. Requests of a ramp come one after the other, and those of an open loop when they
    /// come.
    async fn connect(&self) {
        let config = &self.session.config;
        let together = config.schedule.concurrency().filter(|_| config.ramp_s == 0.0 && !self.is_stopped());
        let Some(together) = together else { return };
        let mut stop = self.stop.clone();
        let connected = tokio::select! {
            connected = tokio::time::timeout(CONNECTING, self.session.client.connect(together)) => connected,
            () = stopped(&mut stop) => return,
        };
        if connected == Ok(ConnectOutcome::Opened) {
            self.sleep(ACCEPTING).await;
        }
    }

    /// Sends the queries, when they are due, and tells how far it is.
    async fn send_all(self: &Arc<Self>, sampler: &Sampler, recording: &RecordingHandle) {
        let watch = SenderWatch::start();
        let _stop = StopAtEnd(Arc::clone(self));
        let start = Start { at: self.clock.now(), instant: Instant::now() };
        let (alive, mut is_alive) = mpsc::channel(1);
        self.start_loop(start, &alive);
        drop(alive);
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut provisional = Provisional::default();
        let mut stop = self.stop.clone();
        let mut is_stopping = false;
        loop {
            tokio::select! {
                // Nobody sends anything; it ends when all that send have ended.
                _ = is_alive.recv() => break,
                _ = ticks.tick() => {
                    self.tell(sampler, &mut provisional, start);
                    // Requests whose energy is not kept are not worth sending.
                    if recording.has_failed() {
                        self.dispenser.stop();
                    }
                }
                () = stopped(&mut stop), if !is_stopping => {
                    self.dispenser.stop();
                    is_stopping = true;
                }
            }
        }
        self.tell(sampler, &mut provisional, start);
        let facts = SenderFacts {
            start_ns: start.at.nanos_since_epoch(),
            end_ns: self.clock.now().nanos_since_epoch(),
            most_in_flight: self.counts.most_in_flight.load(Ordering::Relaxed),
            connections: self.session.client.connections(),
            ..watch.finish().await
        };
        self.journal.append(Entry::Sender(Box::new(facts)));
    }

    fn tell(&self, sampler: &Sampler, provisional: &mut Provisional, start: Start) {
        let counts = &self.counts;
        let done_now = counts.done.load(Ordering::Relaxed);
        let output_tokens = counts.output_tokens.load(Ordering::Relaxed);
        let recent = sampler.with_timeline(|timeline| {
            provisional.update(timeline, &self.session.counted, start.at);
            provisional.recent()
        });
        // Energy is known up to a moment ago, queries up to now: the rate brings them together.
        let elapsed = start.instant.elapsed();
        let joules_per = |count: u64| {
            let (joules, seconds) = provisional.so_far(start.at)?;
            let joules = joules.get() / seconds.get() / (count as f64 / elapsed.as_secs_f64());
            joules.is_finite().then(|| Joules::new(joules))
        };
        // Whoever draws may have to wait for a terminal; those who record an answer must not.
        let (ttft, itl) = {
            let figures = self.figures();
            (figures.ttft(), figures.itl())
        };
        self.session.observer.progress(&Progress {
            done: self.dispenser.done_before() + done_now,
            total: self.dispenser.total(),
            done_now,
            failed: counts.failed.load(Ordering::Relaxed),
            retried: counts.retried.load(Ordering::Relaxed),
            in_flight: counts.in_flight.load(Ordering::Relaxed),
            elapsed,
            output_tokens,
            joules_per_query: joules_per(done_now),
            joules_per_token: joules_per(output_tokens),
            power: recent,
            ttft,
            itl,
        });
    }

    /// What answers came to so far.
    pub(super) fn figures(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps, unless the user wants to stop; says whether they do.
    pub(super) async fn sleep(&self, length: Duration) -> bool {
        let mut stop = self.stop.clone();
        tokio::select! {
            () = tokio::time::sleep(length) => self.is_stopped(),
            () = stopped(&mut stop) => true,
        }
    }

    /// Why no more was sent. `is_stopped` says whether the user wanted it before the last request ended; what was handed
    /// out and then given up was not dealt with.
    fn closing(&self, is_stopped: bool) -> Closing {
        let closing = self.dispenser.closing();
        let is_broken_off = self.counts.broken_off.load(Ordering::Relaxed) > 0;
        let closing = if is_broken_off && closing == Closing::Finished { Closing::Duration } else { closing };
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

    pub(super) fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    fn has_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// What was measured cannot be kept any more: no further requests.
    pub(super) fn fail(&self, error: RunError) {
        self.dispenser.stop();
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// Whoever drops a run that is going on wants nothing more to be sent.
struct StopAtEnd(Arc<Shared>);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.dispenser.stop();
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
