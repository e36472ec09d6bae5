//! Which query is next: in the order of the dataset, none twice, none after it is time to stop.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::journal::Closing;

/// Hands out queries.
#[derive(Debug)]
pub(super) struct Dispenser {
    next: AtomicU64,
    /// One past the last; `None` where there is no end.
    end: Option<u64>,
    /// Those dealt with in earlier sessions.
    done: BTreeSet<u64>,
    next_request: AtomicU64,
    failures_left: AtomicU64,
    deadline: Option<Instant>,
    is_stopped: AtomicBool,
}

impl Dispenser {
    pub(super) fn new(end: Option<u64>, done: BTreeSet<u64>, first_request: u64) -> Self {
        Self {
            next: AtomicU64::new(0),
            end,
            done,
            next_request: AtomicU64::new(first_request),
            failures_left: AtomicU64::new(u64::MAX),
            deadline: None,
            is_stopped: AtomicBool::new(false),
        }
    }

    pub(super) fn with_deadline(self, deadline: Option<Instant>) -> Self {
        Self { deadline, ..self }
    }

    pub(super) fn with_max_failures(self, most: Option<u64>) -> Self {
        Self { failures_left: AtomicU64::new(most.unwrap_or(u64::MAX)), ..self }
    }

    /// The next query's place and the request's number; `None` where it is time to stop.
    pub(super) fn next(&self) -> Option<(u64, u64)> {
        loop {
            if self.is_stopped.load(Ordering::Relaxed)
                || self.failures_left.load(Ordering::Relaxed) == 0
                || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
            {
                return None;
            }
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if self.end.is_some_and(|end| index >= end) {
                return None;
            }
            if !self.done.contains(&index) {
                return Some((index, self.next_request.fetch_add(1, Ordering::Relaxed)));
            }
        }
    }

    /// The number of a further request for a query that was handed out.
    pub(super) fn another_request(&self) -> u64 {
        self.next_request.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether it will hand out nothing any more after this wait.
    pub(super) fn is_over_after(&self, wait: Duration) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
            || self
                .deadline
                .is_some_and(|deadline| Instant::now().checked_add(wait).is_none_or(|then| then >= deadline))
    }

    /// A request failed.
    pub(super) fn failed(&self) {
        let _ = self.failures_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            (left != u64::MAX).then(|| left.saturating_sub(1))
        });
    }

    /// Hands out no more.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// How many there are in all; `None` where there is no end.
    pub(super) fn total(&self) -> Option<u64> {
        self.end
    }

    /// How many were dealt with before.
    pub(super) fn done_before(&self) -> u64 {
        self.done.len() as u64
    }

    /// Why it hands out no more, where the user did not stop it.
    pub(super) fn closing(&self) -> Closing {
        let is_out = self.end.is_some_and(|end| self.next.load(Ordering::Relaxed) >= end);
        if self.failures_left.load(Ordering::Relaxed) == 0 {
            Closing::TooManyFailures
        } else if is_out {
            Closing::Finished
        } else {
            Closing::Duration
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_comes_once_and_those_done_do_not() {
        let dispenser = Dispenser::new(Some(6), BTreeSet::from([0, 3]), 10);
        let given: Vec<_> = std::iter::from_fn(|| dispenser.next()).collect();
        assert_eq!(given, [(1, 10), (2, 11), (4, 12), (5, 13)]);
        assert_eq!((dispenser.closing(), dispenser.done_before()), (Closing::Finished, 2));
    }

    #[test]
    fn it_stops_when_told_at_the_deadline_and_after_too_many_failures() {
        let stopped = Dispenser::new(None, BTreeSet::new(), 0);
        assert_eq!(stopped.next(), Some((0, 0)));
        stopped.stop();
        assert_eq!(stopped.next(), None);
        let late = Dispenser::new(None, BTreeSet::new(), 0).with_deadline(Some(Instant::now()));
        assert_eq!((late.next(), late.closing()), (None, Closing::Duration));
        let failing = Dispenser::new(Some(9), BTreeSet::new(), 0).with_max_failures(Some(2));
        failing.failed();
        assert!(failing.next().is_some());
        failing.failed();
        failing.failed();
        assert_eq!((failing.next(), failing.closing()), (None, Closing::TooManyFailures));
        let none = Dispenser::new(Some(9), BTreeSet::new(), 0).with_max_failures(Some(0));
        assert_eq!(none.next(), None);
    }
}
