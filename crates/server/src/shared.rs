//! What all connections of one server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::script::Script;
use crate::stats::Ledger;

/// The script, the clock, the truth, and the slots.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) script: Script,
    pub(crate) clock: Clock,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) slots: Semaphore,
    pub(crate) started_ns: i64,
    ids: AtomicU64,
}

impl Shared {
    pub(crate) fn new(script: Script) -> Self {
        let clock = Clock::start();
        Self {
            clock,
            ledger: Arc::new(Ledger::new(clock, script.kept_requests)),
            // More slots than a semaphore can have are as good as no limit.
            slots: Semaphore::new(script.slots.min(Semaphore::MAX_PERMITS)),
            started_ns: clock.now_ns(),
            ids: AtomicU64::new(0),
            script,
        }
    }

    /// A name for a request that has none.
    pub(crate) fn next_id(&self) -> String {
        format!("mock-{}", self.ids.fetch_add(1, Ordering::Relaxed))
    }
}
