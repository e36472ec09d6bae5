//! The loops that send requests: a closed loop, whose slots each send a request when their last one ends, and an open
//! loop, which sends requests when they are due, however many are in flight.
//!
//! The open loop sleeps in a dedicated thread: timers of the runtime have a resolution of 1 ms, and are delayed while
//! the runtime reads many responses.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ergometer_diagnostics::{Message, hint};
use ergometer_units::{Seconds, Timestamp};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::RunError;
use super::conversation::{Conversation, ConversationEnd, Conversations};
use super::dispenser::Dispenser;
use super::sending::Sender;
use ergometer_datasets::Query;
use ergometer_runs::config::{ArrivalTimes, RunConfig, Schedule};

/// The pause of a slot after the server could not be reached. Without it, all queries of the dataset would fail within
/// a second; with it, there is time to stop the run or restart the server.
const UNREACHABLE_PAUSE: Duration = Duration::from_millis(500);

/// The least time between the starts of two slots of a closed loop. If hundreds started at once, most would wait for
/// each other in the client and at the server; as answers have similar lengths, they would do so again in each round.
const LEAST_SPACING_S: f64 = 100e-6;

/// Multiplier for the seeds of different draws.
const DRAW_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// How often the thread of an open loop checks whether to stop while it sleeps.
const STOP_CHECK: Duration = Duration::from_millis(50);

/// When sending began, by both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    pub(super) at: Timestamp,
    pub(super) instant: Instant,
}

/// Every sending task holds a clone. When all are dropped, every request has ended.
pub(super) type Alive = mpsc::Sender<()>;

/// Starts the loop of the schedule.
pub(super) fn start_loop(conversations: &Arc<Conversations>, start: Start, alive: &Alive) {
    match Timetable::from_config(conversations.sender.config()) {
        None => start_slots(conversations, start, alive),
        Some(mut timetable) => {
            timetable.skip(conversations.sender.control.dispenser.done_before());
            start_timetable(conversations, timetable, start, alive);
        }
    }
}

fn start_slots(conversations: &Arc<Conversations>, start: Start, alive: &Alive) {
    let config = conversations.sender.config();
    let slots = config.schedule.concurrency().unwrap_or(1).max(1);
    let apart_s = (config.ramp_s / f64::from(slots)).max(LEAST_SPACING_S);
    for slot in 0..slots {
        let wait = Seconds::new(apart_s * f64::from(slot));
        let task = SendingTask { conversations: Arc::clone(conversations), _alive: alive.clone() };
        tokio::spawn(async move { send_in_turn(&task.conversations, start.at, wait).await });
    }
}

fn start_timetable(conversations: &Arc<Conversations>, timetable: Timetable, start: Start, alive: &Alive) {
    let task = SendingTask { conversations: Arc::clone(conversations), _alive: alive.clone() };
    let (runtime, alive) = (Handle::current(), alive.clone());
    let builder = std::thread::Builder::new().name(String::from("ergo-schedule"));
    let spawned = builder.spawn(move || {
        if let Err(error) = send_when_due(&task.conversations, timetable, start, &runtime, &alive) {
            task.conversations.sender.control.fail(error);
        }
    });
    if let Err(error) = spawned {
        let control = &conversations.sender.control;
        let message = Message::new(format!("cannot start the scheduler thread: {error}"));
        control.fail(RunError::Internal(message.with_hint(hint!("check the limit on threads with `ulimit -u`"))));
    }
}

/// Runs one slot of a closed loop: its next request is due when its last one ends.
async fn send_in_turn(conversations: &Conversations, start: Timestamp, wait: Seconds) {
    let Sender { control, clock, .. } = &conversations.sender;
    if wait > Seconds::ZERO && control.sleep(wait.into()).await {
        return;
    }
    let mut scheduled = start + wait;
    while !control.is_stopped()
        && let Some(turns) = control.dispenser.next()
    {
        match conversations.converse(Conversation { turns, first: None, scheduled }).await {
            Ok(ConversationEnd { is_unreachable: true, .. }) => {
                control.sleep(UNREACHABLE_PAUSE).await;
                scheduled = clock.now();
            }
            Ok(ended) => scheduled = ended.end,
            Err(error) => {
                control.fail(error);
                return;
            }
        }
    }
}

/// Runs the open loop: sleeps until the next request is due, then starts it.
fn send_when_due(
    conversations: &Arc<Conversations>,
    mut timetable: Timetable,
    start: Start,
    runtime: &Handle,
    alive: &Alive,
) -> Result<(), RunError> {
    let (control, dataset) = (&conversations.sender.control, conversations.sender.dataset());
    while let Some(turns) = control.dispenser.peek() {
        let first = dataset.get(turns.start)?;
        let due = timetable.next(&first)?;
        if !is_due(&control.dispenser, start.instant.checked_add(due)) {
            return Ok(());
        }
        let Some(turns) = control.dispenser.next() else { return Ok(()) };
        let scheduled = start.at + Seconds::from(due);
        let task = SendingTask { conversations: Arc::clone(conversations), _alive: alive.clone() };
        runtime.spawn(async move {
            let conversation = Conversation { turns, first: Some(first), scheduled };
            if let Err(error) = task.conversations.converse(conversation).await {
                task.conversations.sender.control.fail(error);
            }
        });
    }
    Ok(())
}

/// Sleeps until this time. Returns false if sending stops before.
fn is_due(dispenser: &Dispenser, then: Option<Instant>) -> bool {
    loop {
        if dispenser.is_over() {
            return false;
        }
        let left = then.map_or(STOP_CHECK, |then| then.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(STOP_CHECK));
    }
}

/// The times at which the requests of an open loop are due.
enum Timetable {
    Drawn(ArrivalTimes),
    /// At the recorded times, divided by `speed` and counted from the first query sent.
    Recorded {
        speed: f64,
        first_s: Option<f64>,
    },
}

impl Timetable {
    /// The timetable of a run; `None` for a closed loop.
    fn from_config(config: &RunConfig) -> Option<Self> {
        match config.schedule {
            Schedule::Rate { rate, arrivals } => {
                let seed = config.request.seed.wrapping_add(u64::from(config.draw).wrapping_mul(DRAW_MULTIPLIER));
                Some(Self::Drawn(ArrivalTimes::new(rate, arrivals, config.ramp_s, seed)))
            }
            Schedule::Replay { speed } => Some(Self::Recorded { speed, first_s: None }),
            Schedule::Concurrency { .. } => None,
        }
    }

    /// Skips requests of earlier sessions; a recording has times for each query and skips none.
    fn skip(&mut self, count: u64) {
        if let Self::Drawn(due) = self {
            due.skip(count);
        }
    }

    fn next(&mut self, query: &Query) -> Result<Duration, RunError> {
        match self {
            Self::Drawn(due) => Ok(due.next_due()),
            Self::Recorded { speed, first_s } => {
                let arrival = query.arrival_s.ok_or_else(|| {
                    RunError::config(format!("query {} has no arrival time, so it cannot be replayed", query.index))
                })?;
                let seconds = (arrival - *first_s.get_or_insert(arrival)) / *speed;
                Ok(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX))
            }
        }
    }
}

/// A sending task. Its drop reports a panic, as the run would otherwise look complete without the query.
struct SendingTask {
    conversations: Arc<Conversations>,
    _alive: Alive,
}

impl Drop for SendingTask {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.conversations.sender.control.fail(RunError::internal("a task that sends requests panicked"));
        }
    }
}
