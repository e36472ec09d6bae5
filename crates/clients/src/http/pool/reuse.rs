//! Decides whether connections are reused, from the results of requests on reused connections.
//!
//! A single lost request is an accident: a server restarts, or closes an idle connection at the moment it is reused. A
//! server that closes after every answer loses many requests, so each request to it gets a new connection.

use std::sync::{Mutex, PoisonError};

/// After this many lost requests, connections are no longer reused.
const MOST_LOST: u32 = 3;

/// After this many successful requests in a row, earlier losses are forgotten.
const FORGOTTEN_AFTER: u32 = 32;

/// Whether connections are reused.
#[derive(Debug, Default)]
pub(super) struct ReusePolicy(Mutex<Losses>);

#[derive(Debug, Default, Clone, Copy)]
struct Losses {
    lost: u32,
    /// Successful requests since the last loss.
    successes: u32,
}

impl ReusePolicy {
    pub(super) fn is_enabled(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lost < MOST_LOST
    }

    /// Counts an answered request on a reused connection.
    pub(super) fn record_success(&self) {
        self.update(|losses| match losses.successes + 1 {
            FORGOTTEN_AFTER => Losses::default(),
            successes => Losses { successes, ..losses },
        });
    }

    /// Counts a request that was lost because the server closed the reused connection.
    pub(super) fn record_loss(&self) {
        self.update(|losses| Losses { lost: losses.lost + 1, successes: 0 });
    }

    /// Updates the counts, unless reuse is already disabled. It stays disabled, because then only the requests still in
    /// flight use a reused connection.
    fn update(&self, next: impl FnOnce(Losses) -> Losses) {
        let mut losses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if losses.lost < MOST_LOST {
            *losses = next(*losses);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_losses_are_forgotten_and_three_disable_reuse() {
        let policy = ReusePolicy::default();
        for _ in 0..10 {
            policy.record_loss();
            (0..FORGOTTEN_AFTER).for_each(|_| policy.record_success());
            assert!(policy.is_enabled());
        }
        policy.record_loss();
        (1..FORGOTTEN_AFTER).for_each(|_| policy.record_success());
        policy.record_loss();
        assert!(policy.is_enabled());
        policy.record_success();
        policy.record_loss();
        assert!(!policy.is_enabled());
        (0..FORGOTTEN_AFTER).for_each(|_| policy.record_success());
        assert!(!policy.is_enabled(), "reuse stays disabled");
    }
}
