//! Decides when sending stops: no query is left, the user interrupts, or a failure makes further requests useless.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ergometer_runs::Closing;
use tokio::sync::watch;

use super::RunError;
use super::counts::Counts;
use super::dispenser::Dispenser;
use crate::stop::stopped;

/// The dispenser of queries, the stop signal of the user, and the first failure.
pub(super) struct Control {
    pub(super) dispenser: Dispenser,
    stop: watch::Receiver<bool>,
    failure: Mutex<Option<RunError>>,
}

impl Control {
    pub(super) fn new(dispenser: Dispenser, stop: watch::Receiver<bool>) -> Self {
        Self { dispenser, stop, failure: Mutex::new(None) }
    }

    /// Whether the user stopped the run.
    pub(super) fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits until the user stops the run.
    pub(super) async fn stopped(&self) {
        stopped(&mut self.stop.clone()).await;
    }

    /// Sleeps for this long or until the user stops the run. Returns whether the run is stopped.
    pub(super) async fn sleep(&self, length: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(length) => self.is_stopped(),
            () = self.stopped() => true,
        }
    }

    /// Ends sending because of an error. The first error is kept.
    pub(super) fn fail(&self, error: RunError) {
        self.dispenser.stop();
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The error that ended sending. Later calls return `None`.
    pub(super) fn take_failure(&self) -> Option<RunError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Why sending ended. `is_stopped`: whether the user stopped the run before the last request ended. A query that
    /// was handed out and then cancelled is not settled.
    pub(super) fn closing(&self, counts: &Counts, is_stopped: bool) -> Closing {
        let closing = self.dispenser.closing();
        let is_broken_off = counts.broken_off.load(Ordering::Relaxed) > 0;
        let closing = if is_broken_off && closing == Closing::Finished { Closing::Duration } else { closing };
        let is_whole = closing == Closing::Finished && counts.cancelled.load(Ordering::Relaxed) == 0;
        match &*self.failure.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => error.closing(),
            None if is_stopped && !is_whole => Closing::Interrupted,
            None => closing,
        }
    }
}
