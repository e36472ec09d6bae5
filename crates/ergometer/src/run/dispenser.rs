//! Hands out queries in the order of the dataset, each once, until sending stops. The turns of a conversation are
//! handed out together.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ergometer_datasets::Dataset;
use ergometer_runs::Closing;

/// Hands out queries.
pub(super) struct Dispenser {
    next: Mutex<u64>,
    /// One past the last index; `None` for an endless dataset.
    end: Option<u64>,
    /// Queries settled in earlier sessions.
    done: BTreeSet<u64>,
    /// The dataset, which has the conversations; without it, every query is a conversation of one turn.
    dataset: Option<Arc<dyn Dataset>>,
    next_request: AtomicU64,
    failures_left: AtomicU64,
    deadline: Option<Instant>,
    is_stopped: AtomicBool,
}

impl Dispenser {
    pub(super) fn new(end: Option<u64>, done: BTreeSet<u64>, first_request: u64) -> Self {
        Self {
            next: Mutex::new(0),
            end,
            done,
            dataset: None,
            next_request: AtomicU64::new(first_request),
            failures_left: AtomicU64::new(u64::MAX),
            deadline: None,
            is_stopped: AtomicBool::new(false),
        }
    }

    pub(super) fn with_conversations(self, dataset: Arc<dyn Dataset>) -> Self {
        Self { dataset: Some(dataset), ..self }
    }

    pub(super) fn with_deadline(self, deadline: Option<Instant>) -> Self {
        Self { deadline, ..self }
    }

    pub(super) fn with_max_failures(self, most: Option<u64>) -> Self {
        Self { failures_left: AtomicU64::new(most.unwrap_or(u64::MAX)), ..self }
    }

    /// The indices of the next query, or of the turns of the next conversation; `None` if sending stops. At least one
    /// of them is not settled yet.
    pub(super) fn next(&self) -> Option<Range<u64>> {
        let mut next = self.lock();
        let turns = self.upcoming(&mut next)?;
        *next = turns.end;
        Some(turns)
    }

    /// The range that [`next`](Self::next) would return, without handing it out.
    pub(super) fn peek(&self) -> Option<Range<u64>> {
        self.upcoming(&mut self.lock())
    }

    fn upcoming(&self, next: &mut u64) -> Option<Range<u64>> {
        loop {
            if self.is_over() || self.end.is_some_and(|end| *next >= end) {
                return None;
            }
            let turns = self.turns(*next);
            if turns.clone().any(|index| !self.done.contains(&index)) {
                return Some(turns);
            }
            *next = turns.end;
        }
    }

    fn turns(&self, first: u64) -> Range<u64> {
        let count = self.dataset.as_ref().map_or(1, |dataset| dataset.turns(first)).max(1);
        let end = first.saturating_add(count);
        first..self.end.map_or(end, |most| end.min(most))
    }

    /// Whether this query was settled in an earlier session.
    pub(super) fn is_done(&self, index: u64) -> bool {
        self.done.contains(&index)
    }

    /// Whether no further query is handed out, even if some are left.
    pub(super) fn is_over(&self) -> bool {
        self.is_over_after(Duration::ZERO) || self.failures_left.load(Ordering::Relaxed) == 0
    }

    /// Takes the number of the next request.
    pub(super) fn number(&self) -> u64 {
        self.next_request.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether no further query is handed out after this wait.
    pub(super) fn is_over_after(&self, wait: Duration) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
            || self
                .deadline
                .is_some_and(|deadline| Instant::now().checked_add(wait).is_none_or(|then| then >= deadline))
    }

    /// Counts a failed request.
    pub(super) fn failed(&self) {
        let _ = self.failures_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            (left != u64::MAX).then(|| left.saturating_sub(1))
        });
    }

    /// Stops handing out queries.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// The number of queries of the run; `None` if it is endless.
    pub(super) fn total(&self) -> Option<u64> {
        self.end
    }

    /// The number of queries settled in earlier sessions.
    pub(super) fn done_before(&self) -> u64 {
        self.done.len() as u64
    }

    /// Why no further query is handed out, if the user did not stop the run.
    pub(super) fn closing(&self) -> Closing {
        let is_out = self.end.is_some_and(|end| *self.lock() >= end);
        if self.failures_left.load(Ordering::Relaxed) == 0 {
            Closing::TooManyFailures
        } else if is_out {
            Closing::Finished
        } else {
            Closing::Duration
        }
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ergometer_datasets::grade::Grader;
    use ergometer_datasets::{DatasetError, Query};

    /// Conversations of three turns.
    struct Threes;

    impl Dataset for Threes {
        fn id(&self) -> &'static str {
            "threes"
        }

        fn name(&self) -> &'static str {
            "threes"
        }

        fn size(&self) -> Option<u64> {
            None
        }

        fn get(&self, index: u64) -> Result<Query, DatasetError> {
            Ok(Query { index, ..Query::default() })
        }

        fn turns(&self, index: u64) -> u64 {
            assert_eq!(index % 3, 0, "only first turns are requested");
            3
        }

        fn fingerprint(&self) -> &'static str {
            "threes"
        }

        fn grader(&self) -> Grader {
            Grader::None
        }
    }

    #[test]
    fn every_open_query_is_handed_out_once() {
        let dispenser = Dispenser::new(Some(6), BTreeSet::from([0, 3]), 10);
        assert_eq!((dispenser.peek(), dispenser.peek()), (Some(1..2), Some(1..2)));
        let given: Vec<_> = std::iter::from_fn(|| dispenser.next()).collect();
        assert_eq!(given, [1..2, 2..3, 4..5, 5..6]);
        assert_eq!((dispenser.closing(), dispenser.done_before()), (Closing::Finished, 2));
        assert_eq!((dispenser.number(), dispenser.number()), (10, 11));
    }

    #[test]
    fn the_turns_of_a_conversation_are_handed_out_together() {
        let done = BTreeSet::from([0, 1, 2, 3]);
        let dispenser = Dispenser::new(Some(10), done, 0).with_conversations(Arc::new(Threes));
        let given: Vec<_> = std::iter::from_fn(|| dispenser.next()).collect();
        assert_eq!(
            given,
            [3..6, 6..9, 9..10],
            "a settled conversation is skipped, a partly settled one is not, and none passes the end"
        );
        assert!(dispenser.is_done(3) && !dispenser.is_done(4));
    }

    #[test]
    fn it_ends_on_stop_at_the_deadline_and_after_too_many_failures() {
        let stopped = Dispenser::new(None, BTreeSet::new(), 0);
        assert_eq!(stopped.next(), Some(0..1));
        stopped.stop();
        assert_eq!((stopped.peek(), stopped.next()), (None, None));
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
