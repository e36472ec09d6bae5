//! Runs one session of a run, from the first reading to the last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ergometer_telemetry::recording::{RecordingHandle, RecordingWriter};
use ergometer_telemetry::{Clock, Provenance, Sampler, Sensor};
use ergometer_units::Window;
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

use super::calibration::calibrate;
use super::checks::read_duration;
use super::control::Control;
use super::conversation::Conversations;
use super::dispenser::Dispenser;
use super::folder::RunFolder;
use super::live::LiveView;
use super::loops::{Start, start_loop};
use super::provisional::{Provisional, power};
use super::sender_watch::SenderWatch;
use super::sending::{Prompt, Sender, SenderParts, is_unreachable};
use super::{Notice, Observer, RunError};
use crate::config::CountedDevices;
use crate::journal::{Entry, IdleKind, JournalFolder, RunId, SessionStart};
use ergometer_clients::server_metrics::{Scraper, ServerMetrics};
use ergometer_clients::{Client, ConnectOutcome, EarlierTurn, Outcome, Transcript};
use ergometer_datasets::Dataset;
use ergometer_runs::config::RunConfig;
use ergometer_runs::{Closing, SenderFacts};

/// How long a machine settles after work before its idle power is measured.
const SETTLE: Duration = Duration::from_secs(1);

/// How long sensors run before the first and after the last request: a few updates of an energy counter.
const FRAME: Duration = Duration::from_millis(400);

/// How long requests wait for connections that are opened in advance.
const CONNECTING: Duration = Duration::from_secs(10);

/// A server accepts a connection shortly after it opens; this is the time it gets.
const ACCEPTING: Duration = Duration::from_millis(50);

/// How often the live view is updated.
const TICK: Duration = Duration::from_millis(100);

/// The queries that are left.
#[derive(Debug)]
pub(super) struct SessionPlan {
    pub(super) session: u32,
    pub(super) end: Option<u64>,
    pub(super) done: BTreeSet<u64>,
    pub(super) first_request: u64,
    /// Attempts in earlier sessions at the queries that are left.
    pub(super) attempts: BTreeMap<u64, u32>,
    /// The turns answered in earlier sessions, of conversations that are not complete.
    pub(super) earlier_turns: BTreeMap<u64, EarlierTurn>,
    /// How long requests were sent in earlier sessions.
    pub(super) seconds_before: f64,
    /// How long calibration requests are sent; `None` for none.
    pub(super) calibration: Option<Duration>,
}

impl SessionPlan {
    /// Why the session has nothing to do; `None` if queries are left.
    pub(super) fn is_done(&self, duration_s: Option<f64>) -> Option<Closing> {
        let is_finished = self.end.is_some_and(|end| (0..end).all(|index| self.done.contains(&index)));
        let is_over = duration_s.is_some_and(|seconds| self.seconds_before >= seconds);
        is_finished.then_some(Closing::Finished).or(is_over.then_some(Closing::Duration))
    }
}

/// The parts of a session.
pub(super) struct Session {
    pub(super) run_id: RunId,
    pub(super) config: RunConfig,
    pub(super) dataset: Arc<dyn Dataset>,
    pub(super) client: Arc<dyn Client>,
    pub(super) counted: CountedDevices,
    pub(super) server: Option<ServerMetrics>,
    pub(super) folder: Arc<RunFolder>,
    pub(super) observer: Arc<dyn Observer>,
}

/// How a session ended.
pub(super) struct SessionEnd {
    pub(super) closing: Closing,
    pub(super) failure: Option<RunError>,
}

impl Session {
    pub(super) async fn run(
        self,
        plan: SessionPlan,
        mut sensors: Vec<Box<dyn Sensor>>,
        journal: &JournalFolder,
        stop: watch::Receiver<bool>,
    ) -> Result<SessionEnd, RunError> {
        let idle_length = read_duration("idle", self.config.idle_s)?;
        let clock = Arc::new(Clock::start());
        let writer = journal.start_events(plan.session, self.client.secrets())?;
        let start = SessionStart { session: plan.session, started_ns: clock.now().nanos_since_epoch() };
        writer.write(Entry::Session(start)).await?;
        let scraper = self.scraper(&clock, &mut sensors).await;
        let frame = if has_energy(&sensors) { FRAME } else { Duration::ZERO };
        let described = sensors.iter().map(|sensor| (sensor.info(), sensor.channels()));
        let (tap, recording) = RecordingWriter::create_new(journal.readings_path(plan.session), described)?.into_tap();
        let sampler = Sampler::start(sensors, Arc::clone(&clock), Some(tap));

        let left = self.config.duration_s.map(|seconds| (seconds - plan.seconds_before).max(0.0));
        let warmup = self.config.warmup;
        let dispenser = Dispenser::new(plan.end, plan.done, plan.first_request)
            .with_conversations(Arc::clone(&self.dataset))
            .with_max_failures(self.config.max_failures);
        let Self { run_id, config, dataset, client, counted, folder, observer, .. } = self;
        let parts = SenderParts {
            config,
            dataset,
            client,
            folder,
            run_id,
            session: plan.session,
            journal: writer,
            attempts: plan.attempts,
        };
        let mut sender = Sender::new(parts, clock, Control::new(dispenser, stop));
        if let Err(error) = warm_up(&sender, &*observer, warmup).await {
            sender.control.fail(error);
        } else {
            if let Some(length) = plan.calibration {
                // Boxed: four requests at a time make this future large.
                Box::pin(calibrate(&sender, &*observer, length)).await;
            }
            let idle = IdleMeter { sender: &sender, observer: &*observer, counted: &counted, sampler: &sampler, frame };
            idle.measure(IdleKind::Before, idle_length).await;
            scrape(scraper.as_ref()).await;
            connect(&sender).await;
        }
        if let Some(left) = left {
            let deadline = Instant::now().checked_add(Duration::from_secs_f64(left));
            sender.control.dispenser = sender.control.dispenser.with_deadline(deadline);
        }
        if sender.control.is_stopped() {
            sender.control.dispenser.stop();
        }
        observer.notice(Notice::Sending);
        let conversations = Arc::new(Conversations { sender, earlier: plan.earlier_turns });
        let sender = &conversations.sender;
        let start = Start { at: sender.clock.now(), instant: Instant::now() };
        let live = LiveView {
            sender,
            observer: &*observer,
            counted: &counted,
            sampler: &sampler,
            start,
            provisional: Provisional::default(),
        };
        send_all(&conversations, live, &recording).await;
        scrape(scraper.as_ref()).await;
        observer.notice(Notice::Sent);
        let is_stopped = sender.control.is_stopped();
        if !is_stopped && !sender.control.has_failed() {
            let idle = IdleMeter { sender, observer: &*observer, counted: &counted, sampler: &sampler, frame };
            idle.measure(IdleKind::After, idle_length).await;
        }
        // The driver delivers its last samples late.
        tokio::time::sleep(frame).await;
        if let Err(error) = finish_recording(sampler, recording).await {
            sender.control.fail(error);
        }
        let closing = sender.control.closing(&sender.counts, is_stopped);
        sender.record(Entry::Closed(closing));
        let failure = sender.control.take_failure();
        let Some(conversations) = Arc::into_inner(conversations) else { return Ok(SessionEnd { closing, failure }) };
        let unwritten = conversations.sender.finish().err();
        let closing = if unwritten.is_some() { Closing::Unwritable } else { closing };
        Ok(SessionEnd { closing, failure: failure.or(unwritten) })
    }

    /// Starts the scraper of the server's metrics and adds its sensor.
    async fn scraper(&self, clock: &Arc<Clock>, sensors: &mut Vec<Box<dyn Sensor>>) -> Option<Scraper> {
        let (scraper, sensor) = self.server.as_ref()?.start(clock).await;
        sensors.push(Box::new(sensor));
        Some(scraper)
    }
}

/// Stops the sensors and completes the file of their readings.
async fn finish_recording(sampler: Sampler, recording: RecordingHandle) -> Result<(), RunError> {
    let finished = tokio::task::spawn_blocking(move || {
        let _ = sampler.stop();
        recording.finish()
    });
    let finished = finished.await;
    Ok(finished.map_err(|error| RunError::internal(format!("the sensors could not be stopped: {error}")))??)
}

/// Sends warm-up requests, which are not recorded.
///
/// If none of them reaches the server, the run would fail its whole dataset, so it does not start.
async fn warm_up(sender: &Sender, observer: &dyn Observer, count: u32) -> Result<(), RunError> {
    if count == 0 || sender.control.is_stopped() {
        return Ok(());
    }
    let mut unreachable = None;
    let mut is_reached = false;
    observer.notice(Notice::Warming(count));
    let start = sender.clock.now();
    let size = sender.dataset().size().unwrap_or(u64::MAX).max(1);
    for number in 0..u64::from(count) {
        let Ok(query) = sender.query(number % size).await else { break };
        let mut transcript = Transcript::default();
        let (prompt, id) = (Prompt { query: &query, before: &[] }, sender.run_id().warmup(number));
        let (outcome, _) = sender.attempt(prompt, &id, &mut transcript).await;
        match outcome {
            Outcome::Failed { kind, cause } => {
                observer.notice(Notice::WarmupFailed(&cause));
                if is_unreachable(kind, &transcript) {
                    let cause = format!("during the warm-up ({kind}: {cause})");
                    let protocol = sender.config().client.network.protocol;
                    unreachable.get_or_insert_with(|| RunError::no_answer(kind, protocol, cause));
                } else {
                    is_reached = true;
                }
            }
            Outcome::Cancelled | Outcome::Lost => break,
            Outcome::Completed => is_reached = true,
        }
    }
    if let Ok(window) = Window::new(start, sender.clock.now()) {
        sender.record(Entry::Warmup(window));
    }
    match unreachable.filter(|_| !is_reached && !sender.control.is_stopped()) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Measures idle power, before and after the requests.
struct IdleMeter<'a> {
    sender: &'a Sender,
    observer: &'a dyn Observer,
    counted: &'a CountedDevices,
    sampler: &'a Sampler,
    /// How long to wait if idle power is not measured.
    frame: Duration,
}

impl IdleMeter<'_> {
    /// Waits for this long without requests, and records the window.
    async fn measure(&self, kind: IdleKind, length: Duration) {
        let Sender { control, clock, .. } = self.sender;
        if length.is_zero() {
            control.sleep(self.frame).await;
            return;
        }
        if kind == IdleKind::Before {
            self.observer.notice(Notice::Resting(length));
        }
        if control.sleep(SETTLE).await {
            return;
        }
        let start = clock.now();
        if control.sleep(length).await {
            return;
        }
        let Ok(window) = Window::new(start, clock.now()) else { return };
        self.sender.record(Entry::Idle(kind, window));
        let rested = self.sampler.with_timeline(|timeline| power(timeline, self.counted, window));
        if let Some((watts, source)) = rested.filter(|_| kind == IdleKind::Before) {
            self.observer.notice(Notice::Rested(watts, source, length));
        }
    }
}

/// Opens the connections of a closed loop without a ramp. Other loops open connections as their requests are sent.
async fn connect(sender: &Sender) {
    let (config, control) = (sender.config(), &sender.control);
    let together = config.schedule.concurrency().filter(|_| config.ramp_s == 0.0 && !control.is_stopped());
    let Some(together) = together else { return };
    let connected = tokio::select! {
        connected = tokio::time::timeout(CONNECTING, sender.client().connect(together)) => connected,
        () = control.stopped() => return,
    };
    if connected == Ok(ConnectOutcome::Opened) {
        control.sleep(ACCEPTING).await;
    }
}

/// Sends the queries when they are due, and reports progress until all have ended.
async fn send_all(conversations: &Arc<Conversations>, mut live: LiveView<'_>, recording: &RecordingHandle) {
    let sender = &conversations.sender;
    let (control, start) = (&sender.control, live.start);
    let watch = SenderWatch::start();
    let _stop = StopOnDrop(Arc::clone(conversations));
    let (alive, mut is_alive) = mpsc::channel(1);
    start_loop(conversations, start, &alive);
    drop(alive);
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_stopping = false;
    loop {
        tokio::select! {
            // No message is ever sent: the channel closes when every sending task has ended.
            _ = is_alive.recv() => break,
            _ = ticks.tick() => {
                live.update();
                // Requests without recorded energy are useless, so sending stops.
                if recording.has_failed() {
                    control.dispenser.stop();
                }
            }
            () = control.stopped(), if !is_stopping => {
                control.dispenser.stop();
                is_stopping = true;
            }
        }
    }
    live.update();
    let facts = SenderFacts {
        start_ns: start.at.nanos_since_epoch(),
        end_ns: sender.clock.now().nanos_since_epoch(),
        most_in_flight: sender.counts.most_in_flight.load(Ordering::Relaxed),
        connections: sender.client().connections(),
        ..watch.finish().await
    };
    sender.record(Entry::Sender(Box::new(facts)));
}

/// Stops sending when a run is dropped before its end.
struct StopOnDrop(Arc<Conversations>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.sender.control.dispenser.stop();
    }
}

/// Reads the server's counters before and after the requests; the difference belongs to the requests.
async fn scrape(scraper: Option<&Scraper>) {
    if let Some(scraper) = scraper {
        scraper.now().await;
    }
}

fn has_energy(sensors: &[Box<dyn Sensor>]) -> bool {
    let mut channels = sensors.iter().flat_map(|sensor| sensor.channels());
    channels.any(|channel| channel.provenance != Provenance::Gauge)
}
