//! Asks a server for its metrics, every second and whenever a run wants to know; what it says goes to the sensor.
//!
//! It is a task of its own, so that no sampling and no stopping ever waits for a server that hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use ergometer_telemetry::Clock;
use ergometer_units::Timestamp;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::ServerMetrics;
use super::sensor::ServerSensor;

/// How often a server is asked. Telling takes it some milliseconds, in which it may not serve: oftener would disturb what
/// is measured.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// How long one answer may take. A server may be in the middle of a long step.
const TIMEOUT: Duration = Duration::from_secs(2);

/// How long a run waits for an answer at its edges.
const EDGE: Duration = Duration::from_secs(1);

/// What came of asking once.
#[derive(Debug)]
pub(super) struct Scrape {
    /// When it was asked.
    pub(super) after: Timestamp,
    /// When the answer was whole, or it was given up.
    pub(super) at: Timestamp,
    /// The value of each signal, or why there is none.
    pub(super) values: Result<Vec<Option<f64>>, String>,
}

/// A task that asks a server; it ends when this is dropped.
pub struct Scraper {
    wanted: mpsc::UnboundedSender<oneshot::Sender<()>>,
    is_silent: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Scraper {
    /// Asks once more, so that there is a reading from now. One that did not answer last time is not waited for.
    pub async fn now(&self) {
        let (answered, answer) = oneshot::channel();
        if self.wanted.send(answered).is_ok() && !self.is_silent.load(Ordering::Relaxed) {
            let _ = tokio::time::timeout(EDGE, answer).await;
        }
    }
}

impl ServerMetrics {
    /// Starts to ask, and returns once the first answer is there.
    pub async fn start(&self, clock: &Arc<Clock>) -> (Scraper, ServerSensor) {
        let (scrapes, receiver) = std::sync::mpsc::channel();
        let (wanted, wants) = mpsc::unbounded_channel();
        let is_silent = Arc::default();
        let asking =
            Asking { server: self.clone(), clock: Arc::clone(clock), is_silent: Arc::clone(&is_silent), scrapes };
        let scraper = Scraper { wanted, is_silent, task: tokio::spawn(asking.run(wants)) };
        scraper.now().await;
        (scraper, ServerSensor::new(self, receiver))
    }
}

struct Asking {
    server: ServerMetrics,
    clock: Arc<Clock>,
    is_silent: Arc<AtomicBool>,
    scrapes: Sender<Scrape>,
}

impl Asking {
    async fn run(self, mut wants: mpsc::UnboundedReceiver<oneshot::Sender<()>>) {
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + INTERVAL, INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let wanted = tokio::select! {
                wanted = wants.recv() => match wanted {
                    Some(wanted) => Some(wanted),
                    None => return,
                },
                _ = ticks.tick() => None,
            };
            let after = self.clock.now();
            let values = self.server.ask(TIMEOUT).await;
            self.is_silent.store(values.is_err(), Ordering::Relaxed);
            if self.scrapes.send(Scrape { after, at: self.clock.now(), values }).is_err() {
                // Nobody listens any more.
                return;
            }
            if let Some(wanted) = wanted {
                let _ = wanted.send(());
            }
        }
    }
}
