//! Samples sensors into a [`Timeline`], each on its own thread.
//!
//! A sensor that blocks does not delay the others. If a sensor fails, panics or never returns, the run continues and an
//! event reports it. Stopping drains every sensor once more and takes at most two seconds.

mod worker;

use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ergometer_units::Timestamp;

use crate::{Batch, Clock, Event, EventKind, Sensor, SensorInfo, SensorKey, Timeline};
use worker::Worker;

/// A callback for every batch after it was added to the timeline, never called concurrently. Recordings use one.
pub type Tap = Box<dyn FnMut(&SensorInfo, SensorKey, &Batch) + Send>;

/// How long a sensor's last sample may take. The slowest read measured takes 35 ms.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often the wall clock is compared: 10 ppm of drift move it by 10 us in that time.
const REANCHOR_EVERY: Duration = Duration::from_secs(1);

/// Samples sensors, each on its own thread, until it is stopped or dropped.
///
/// ```
/// use std::sync::Arc;
/// use ergometer_telemetry::{Clock, Sampler};
///
/// let sampler = Sampler::start(Vec::new(), Arc::new(Clock::start()), None);
/// assert_eq!(sampler.with_timeline(|timeline| timeline.len()), 0);
/// let timeline = sampler.stop();
/// assert!(timeline.is_empty());
/// ```
pub struct Sampler {
    shared: Arc<SamplerState>,
    patience: Duration,
}

/// The state shared by all threads. No lock is held while a sensor is read.
struct SamplerState {
    clock: Arc<Clock>,
    sensors: Vec<SensorInfo>,
    timeline: Mutex<Timeline>,
    tap: Mutex<Option<Tap>>,
    progress: Mutex<Progress>,
    stopping: Condvar,
    ended: Condvar,
}

struct Progress {
    stopping: bool,
    /// The number of drain requests.
    drains: u64,
    /// The number of drain requests each sensor has completed.
    drained: Vec<u64>,
    /// Whether each sensor's thread is running.
    running: Vec<bool>,
}

/// Why a worker was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WakeReason {
    /// The next sample is due, or the sampler stops.
    ToSample,
    /// A drain was requested; the number of this request.
    ToDrain(u64),
}

impl Sampler {
    /// Starts one thread for each sensor. The tap gets sensor keys in this order.
    #[must_use]
    pub fn start(sensors: Vec<Box<dyn Sensor>>, clock: Arc<Clock>, tap: Option<Tap>) -> Self {
        let mut timeline = Timeline::default();
        let keys: Vec<_> = sensors.iter().map(|sensor| timeline.add_sensor(sensor.info(), sensor.channels())).collect();
        let shared = Arc::new(SamplerState {
            clock,
            sensors: sensors.iter().map(|sensor| sensor.info().clone()).collect(),
            timeline: Mutex::new(timeline),
            tap: Mutex::new(tap),
            progress: Mutex::new(Progress {
                stopping: false,
                drains: 0,
                drained: vec![0; sensors.len()],
                running: vec![true; sensors.len()],
            }),
            stopping: Condvar::new(),
            ended: Condvar::new(),
        });
        for (key, sensor) in keys.into_iter().zip(sensors) {
            let worker = Worker::new(Arc::clone(&shared), key, sensor);
            let name = format!("ergo-{}", shared.sensors[key.index()].id);
            if let Err(cause) = thread::Builder::new().name(name).spawn(move || worker.run()) {
                // Dropping the closure dropped the worker, which marked itself as ended.
                let message = format!("{}: cannot start its sampling thread: {cause}", shared.sensors[key.index()].id);
                shared.report_event(key, EventKind::DeviceLost, message);
            }
        }
        let clock_keeper = Arc::clone(&shared);
        let keep = move || {
            while !clock_keeper.wait_until(Instant::now() + REANCHOR_EVERY) {
                let mut batch = Batch::default();
                clock_keeper.reanchor(&mut batch);
                clock_keeper.deliver(SensorKey::FIRST, &batch);
            }
        };
        if let Err(cause) = thread::Builder::new().name(String::from("ergo-clock")).spawn(keep) {
            let message = format!("cannot watch the wall clock: {cause}; clock steps will not be detected");
            shared.note(EventKind::ReadFailed, message);
        }
        Self { shared, patience: PATIENCE }
    }

    /// Calls `look` with the readings so far. Sensors are blocked meanwhile, so return quickly.
    pub fn with_timeline<T>(&self, look: impl FnOnce(&Timeline) -> T) -> T {
        look(&lock(&self.shared.timeline))
    }

    /// Removes readings before a time, except the last one of each channel. Limits memory when sampling for days.
    pub fn forget_before(&self, time: Timestamp) {
        lock(&self.shared.timeline).forget_before(time);
    }

    /// The number of sensors still being sampled, without those that were lost or ended.
    #[must_use]
    pub fn running(&self) -> usize {
        lock(&self.shared.progress).running()
    }

    /// Waits until every sensor has ended, as replayed ones do, or until the timeout. Returns whether all ended.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        let progress = lock(&self.shared.progress);
        let waited = self.shared.ended.wait_timeout_while(progress, timeout, |progress| progress.running() > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.running() == 0
    }

    /// Drains every sensor's buffer (a power ring is otherwise read once a second), and waits for it until the timeout.
    /// Returns whether all sensors were drained.
    #[must_use]
    pub fn drain(&self, timeout: Duration) -> bool {
        let mut progress = lock(&self.shared.progress);
        progress.drains += 1;
        let request = progress.drains;
        self.shared.stopping.notify_all();
        let is_waiting = |progress: &mut Progress| {
            !progress.stopping
                && progress.running.iter().zip(&progress.drained).any(|(&runs, &completed)| runs && completed < request)
        };
        let waited = self.shared.ended.wait_timeout_while(progress, timeout, is_waiting);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Samples every sensor once more and stops. A sensor that does not return within two seconds is abandoned, with an
    /// event. The tap is dropped.
    #[must_use]
    pub fn stop(self) -> Timeline {
        self.shared.request_stop();
        let all_ended = self.wait(self.patience);
        let mut batch = Batch::default();
        if !all_ended {
            let progress = lock(&self.shared.progress);
            for (info, _) in self.shared.sensors.iter().zip(&progress.running).filter(|&(_, &running)| running) {
                let (id, patience) = (&info.id, self.patience.as_secs_f64());
                let message =
                    format!("when the measurement ended, {id} did not respond within {patience} s and was abandoned");
                batch.event(self.shared.clock.now(), EventKind::DeviceLost, message);
            }
        }
        self.shared.reanchor(&mut batch);
        lock(&self.shared.timeline).append(SensorKey::FIRST, &batch);
        // Do not wait for a tap that is stuck and holds its lock.
        if let Ok(mut tap) = self.shared.tap.try_lock() {
            self.shared.call(&mut tap, SensorKey::FIRST, &batch);
            *tap = None;
        }
        mem::take(&mut *lock(&self.shared.timeline))
    }
}

/// Stops the threads without waiting for them.
impl Drop for Sampler {
    fn drop(&mut self) {
        self.shared.request_stop();
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler").field("sensors", &self.shared.sensors).finish_non_exhaustive()
    }
}

impl SamplerState {
    /// Passes a batch to the timeline and the tap. A tap that panics is not called again.
    fn deliver(&self, key: SensorKey, batch: &Batch) {
        lock(&self.timeline).append(key, batch);
        self.call(&mut lock(&self.tap), key, batch);
    }

    fn call(&self, tap: &mut Option<Tap>, key: SensorKey, batch: &Batch) {
        if batch.readings.is_empty() && batch.events.is_empty() {
            return;
        }
        if let (Some(call), Some(info)) = (tap.as_mut(), self.sensors.get(key.index()))
            && catch_unwind(AssertUnwindSafe(|| call(info, key, batch))).is_err()
        {
            *tap = None;
            let message = String::from("the callback for readings panicked and is not called again");
            self.note(EventKind::ReadFailed, message);
        }
    }

    /// Reports an event to the timeline and the tap.
    fn report_event(&self, key: SensorKey, kind: EventKind, message: String) {
        let mut batch = Batch::default();
        batch.event(self.clock.now(), kind, message);
        self.deliver(key, &batch);
    }

    fn note(&self, kind: EventKind, message: String) {
        lock(&self.timeline).note(Event::new(self.clock.now(), kind, message));
    }

    /// Checks the wall clock for steps. They belong to no sensor and are reported for the first one.
    fn reanchor(&self, batch: &mut Batch) {
        if let Some(step) = self.clock.reanchor() {
            let message = format!("the wall clock was stepped by {:+.6} s; the timeline is not affected", step.get());
            batch.event(self.clock.now(), EventKind::ClockStepped, message);
        }
    }

    fn request_stop(&self) {
        lock(&self.progress).stopping = true;
        self.stopping.notify_all();
    }

    fn is_stopping(&self) -> bool {
        lock(&self.progress).stopping
    }

    /// Sleeps until the deadline or a stop request. Returns whether a stop was requested.
    fn wait_until(&self, deadline: Instant) -> bool {
        let timeout = deadline.saturating_duration_since(Instant::now());
        let waited = self.stopping.wait_timeout_while(lock(&self.progress), timeout, |progress| !progress.stopping);
        waited.unwrap_or_else(PoisonError::into_inner).0.stopping
    }

    /// Sleeps until the deadline, a stop request or a drain request. Returns the reason.
    fn wait_as(&self, key: SensorKey, deadline: Instant) -> WakeReason {
        let timeout = deadline.saturating_duration_since(Instant::now());
        let is_behind =
            |progress: &Progress| progress.drained.get(key.index()).is_some_and(|&drained| drained < progress.drains);
        let waited = self
            .stopping
            .wait_timeout_while(lock(&self.progress), timeout, |progress| !progress.stopping && !is_behind(progress));
        let progress = waited.unwrap_or_else(PoisonError::into_inner).0;
        if is_behind(&progress) && !progress.stopping {
            WakeReason::ToDrain(progress.drains)
        } else {
            WakeReason::ToSample
        }
    }

    /// Marks a drain request of a sensor as completed.
    fn drained(&self, key: SensorKey, request: u64) {
        if let Some(drained) = lock(&self.progress).drained.get_mut(key.index()) {
            *drained = request;
        }
        self.ended.notify_all();
    }

    fn end(&self, key: SensorKey) {
        if let Some(running) = lock(&self.progress).running.get_mut(key.index()) {
            *running = false;
        }
        self.ended.notify_all();
    }
}

impl Progress {
    fn running(&self) -> usize {
        self.running.iter().filter(|&&running| running).count()
    }
}

/// Ignores poisoning: every change under these locks is a single step, so a panic leaves the data consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
