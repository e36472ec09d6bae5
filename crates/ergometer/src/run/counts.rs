//! Counts of the running session, for the live view and for the reason why it ended.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::figures::Figures;

/// Counts that all sending tasks share.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) done: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) cancelled: AtomicU64,
    /// Conversations that stopped before their last turn.
    pub(super) broken_off: AtomicU64,
    /// Attempts that were retried.
    pub(super) retried: AtomicU64,
    pub(super) in_flight: AtomicU64,
    pub(super) most_in_flight: AtomicU64,
    pub(super) output_tokens: AtomicU64,
    figures: Mutex<Figures>,
}

impl Counts {
    /// The latencies so far.
    pub(super) fn figures(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
