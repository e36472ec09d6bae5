//! Whether connections are worth keeping: how requests fared on connections that were used before goes in.
//!
//! One request lost is an accident: a server restarts, or gives up a connection that lay idle just as it was taken. A server
//! that closes after every answer loses one after the other, and is left a connection for each request.

use std::sync::{Mutex, PoisonError};

/// After so many losses connections are no longer kept.
const MOST_LOST: u32 = 3;

/// After so many requests in a row that went well the losses before them are forgotten.
const FORGOTTEN_AFTER: u32 = 32;

/// Whether connections are kept for a next request.
#[derive(Debug, Default)]
pub(super) struct Keeping(Mutex<Losses>);

#[derive(Debug, Default, Clone, Copy)]
struct Losses {
    lost: u32,
    /// How many went well since the last loss.
    well: u32,
}

impl Keeping {
    pub(super) fn is_on(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lost < MOST_LOST
    }

    /// A request on a connection that was used before was answered.
    pub(super) fn went_well(&self) {
        self.update(|losses| match losses.well + 1 {
            FORGOTTEN_AFTER => Losses::default(),
            well => Losses { well, ..losses },
        });
    }

    /// A request was lost on a connection that was used before, as the server closed it.
    pub(super) fn was_lost(&self) {
        self.update(|losses| Losses { lost: losses.lost + 1, well: 0 });
    }

    /// Once they are no longer kept it stays so: none is left to learn from but those still in flight.
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
    fn a_loss_now_and_then_is_forgotten_and_three_are_not() {
        let keeping = Keeping::default();
        for _ in 0..10 {
            keeping.was_lost();
            (0..FORGOTTEN_AFTER).for_each(|_| keeping.went_well());
            assert!(keeping.is_on());
        }
        keeping.was_lost();
        (1..FORGOTTEN_AFTER).for_each(|_| keeping.went_well());
        keeping.was_lost();
        assert!(keeping.is_on());
        keeping.went_well();
        keeping.was_lost();
        assert!(!keeping.is_on());
        (0..FORGOTTEN_AFTER).for_each(|_| keeping.went_well());
        assert!(!keeping.is_on(), "it stays so");
    }
}
