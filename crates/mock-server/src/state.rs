//! The state that all connections of one server share.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::script::Script;
use crate::stats::Ledger;
use crate::timer::Timer;

/// The script, clock, ledger, slots and timer of one server.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) script: Script,
    pub(crate) clock: Clock,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) slots: Semaphore,
    pub(crate) timer: Timer,
    pub(crate) started_ns: i64,
    ids: AtomicU64,
}

impl ServerState {
    /// Fails if the timer thread cannot be started.
    pub(crate) fn new(script: Script) -> io::Result<Self> {
        let clock = Clock::start();
        Ok(Self {
            clock,
            ledger: Arc::new(Ledger::new(clock, script.kept_requests)),
            // The maximum of a semaphore is so large that it is no limit in practice.
            slots: Semaphore::new(script.slots.min(Semaphore::MAX_PERMITS)),
            timer: Timer::start()?,
            started_ns: clock.now_ns(),
            ids: AtomicU64::new(0),
            script,
        })
    }

    /// An id for a request without one.
    pub(crate) fn next_id(&self) -> String {
        format!("mock-{}", self.ids.fetch_add(1, Ordering::Relaxed))
    }
}
