//! Reads a server's metrics every second and on demand, and hands them to the sensor.
//!
//! It runs as a separate task, so that neither sampling nor stopping ever waits for a server that hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use ergometer_diagnostics::Message;
use ergometer_telemetry::Clock;
use ergometer_units::Timestamp;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::ServerMetrics;
use super::sensor::ServerSensor;

/// The interval between reads. Writing the metrics takes the server some milliseconds, in which it may not serve
/// requests; shorter intervals would disturb the measurement.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// Timeout of one read. A server may be in the middle of a long step.
const TIMEOUT: Duration = Duration::from_secs(2);

/// How long a run waits for a read at its start and end.
const EDGE: Duration = Duration::from_secs(1);

/// The result of one read.
#[derive(Debug)]
pub(super) struct Scrape {
    /// When the request was sent.
    pub(super) after: Timestamp,
    /// When the response was complete, or the read failed.
    pub(super) at: Timestamp,
    /// The value of each signal, or why the read failed.
    pub(super) values: Result<Vec<Option<f64>>, Message>,
}

/// A task that reads a server's metrics. It ends when this value is dropped.
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
    /// Reads the metrics now. It does not wait for a server that did not answer last time.
    pub async fn now(&self) {
        let (answered, answer) = oneshot::channel();
        if self.wanted.send(answered).is_ok() && !self.is_silent.load(Ordering::Relaxed) {
            let _ = tokio::time::timeout(EDGE, answer).await;
        }
    }
}

impl ServerMetrics {
    /// Starts reading, and returns after the first read.
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
                // The sensor is gone.
                return;
            }
            if let Some(wanted) = wanted {
                let _ = wanted.send(());
            }
        }
    }
}
