//! Records what the server does while it answers requests.
//!
//! The time of a chunk is taken when its write to the socket returned. Memory is bounded: the oldest requests are
//! dropped first, and counted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::Clock;
use crate::schedule::StreamPart;
use crate::summary::SummaryBuilder;
use crate::truth::{RequestOutcome, RequestTruth, Stats, Totals};

/// The maximum number of chunk times kept: 160 MB.
const MAX_TIMES: usize = 20_000_000;

/// The content chunks and tokens of one write.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ChunkCount {
    /// The number of chunks with content.
    pub(crate) chunks: usize,
    pub(crate) tokens: u64,
}

impl ChunkCount {
    pub(crate) const fn add(&mut self, part: StreamPart) {
        if let StreamPart::Tokens { from, to, .. } = part {
            self.chunks += 1;
            self.tokens += to - from;
        }
    }
}

/// The records of all requests of one server.
#[derive(Debug)]
pub(crate) struct Ledger {
    clock: Clock,
    state: Mutex<LedgerState>,
    kept: usize,
    /// The number of requests that are sending their last bytes and are about to be recorded.
    finishing: AtomicUsize,
    pub(crate) running: AtomicUsize,
    pub(crate) waiting: AtomicUsize,
    /// Tokens since the start. Never reset: the counters of `/metrics` must not decrease.
    pub(crate) prompt_tokens_ever: AtomicU64,
    pub(crate) tokens_ever: AtomicU64,
}

#[derive(Debug, Default)]
struct LedgerState {
    totals: Totals,
    requests: VecDeque<Arc<Mutex<RequestTruth>>>,
    times: usize,
    dropped: u64,
    /// The number of the next request, which its draws depend on. A reset starts again at 0.
    next: u64,
    /// The number of resets. Entries from before a reset no longer count.
    epoch: u64,
}

impl Ledger {
    pub(crate) fn new(clock: Clock, kept: usize) -> Self {
        Self {
            clock,
            state: Mutex::default(),
            kept,
            finishing: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            prompt_tokens_ever: AtomicU64::new(0),
            tokens_ever: AtomicU64::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the next request.
    pub(crate) fn take_number(&self) -> u64 {
        let mut state = self.state();
        state.next += 1;
        state.next - 1
    }

    /// Updates the totals.
    pub(crate) fn count(&self, change: impl FnOnce(&mut Totals)) {
        change(&mut self.state().totals);
    }

    /// Opens the entry of a request.
    pub(crate) fn open(self: &Arc<Self>, truth: RequestTruth) -> Entry {
        let mut state = self.state();
        state.totals.requests += 1;
        if let Some(fault) = truth.fault {
            *state.totals.faults.entry(fault).or_default() += 1;
        }
        let truth = Arc::new(Mutex::new(truth));
        state.requests.push_back(Arc::clone(&truth));
        while state.requests.len() > self.kept || (state.times > MAX_TIMES && state.requests.len() > 1) {
            if let Some(oldest) = state.requests.pop_front() {
                let times = lock(&oldest).sent_ns.len();
                state.times = state.times.saturating_sub(times);
                state.dropped += 1;
            }
        }
        Entry { ledger: Arc::clone(self), truth, epoch: state.epoch }
    }

    /// The current statistics, with the last `max` requests or the one with this id.
    pub(crate) fn snapshot(&self, max: usize, id: Option<&str>) -> Stats {
        let state = self.state();
        let truths: Vec<_> = state.requests.iter().cloned().collect();
        let (totals, dropped) = (state.totals.clone(), state.dropped);
        drop(state);
        let skipped = truths.len().saturating_sub(max);
        let mut builder = SummaryBuilder::default();
        let mut requests = Vec::new();
        for (at, truth) in truths.iter().enumerate() {
            let truth = lock(truth);
            builder.add(&truth);
            if at >= skipped && id.is_none_or(|id| truth.id == id) {
                requests.push(truth.clone());
            }
        }
        Stats {
            totals,
            running: self.running.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
            dropped,
            summary: builder.finish(),
            requests,
        }
    }

    /// Whether no request is about to be recorded as ended.
    pub(crate) fn is_settled(&self) -> bool {
        self.finishing.load(Ordering::Acquire) == 0
    }

    /// Clears all requests and totals, and restarts the random draws.
    pub(crate) fn reset(&self) {
        let mut state = self.state();
        *state = LedgerState { epoch: state.epoch + 1, ..LedgerState::default() };
    }
}

fn lock(truth: &Mutex<RequestTruth>) -> MutexGuard<'_, RequestTruth> {
    truth.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The entry of one request. If it is dropped before its end, the client has left.
#[derive(Debug)]
pub(crate) struct Entry {
    ledger: Arc<Ledger>,
    truth: Arc<Mutex<RequestTruth>>,
    epoch: u64,
}

impl Entry {
    /// Records that the request got a slot.
    pub(crate) fn start(&self, at_ns: i64) {
        let mut truth = lock(&self.truth);
        truth.started_ns = Some(at_ns);
        let prompt_tokens = truth.prompt_tokens;
        drop(truth);
        self.ledger.prompt_tokens_ever.fetch_add(prompt_tokens, Ordering::Relaxed);
        let mut state = self.ledger.state();
        if state.epoch == self.epoch {
            state.totals.prompt_tokens += prompt_tokens;
        }
    }

    /// Records the status that was sent.
    pub(crate) fn status(&self, status: u16) {
        lock(&self.truth).status = Some(status);
    }

    /// Records a write that returned.
    pub(crate) fn record_write(&self, at_ns: i64, written: ChunkCount) {
        if written.chunks == 0 {
            return;
        }
        self.ledger.tokens_ever.fetch_add(written.tokens, Ordering::Relaxed);
        let mut truth = lock(&self.truth);
        truth.first_token_ns.get_or_insert(at_ns);
        truth.sent_ns.extend(std::iter::repeat_n(at_ns, written.chunks));
        truth.tokens += written.tokens;
        drop(truth);
        let mut state = self.ledger.state();
        if state.epoch == self.epoch {
            state.totals.tokens += written.tokens;
            state.times += written.chunks;
        }
    }

    /// Announces that the end is about to be sent, so that statistics wait for it.
    pub(crate) fn finishing(&self) -> FinishGuard<'_> {
        self.ledger.finishing.fetch_add(1, Ordering::AcqRel);
        FinishGuard(&self.ledger)
    }

    /// Records the end. Only the first call counts.
    pub(crate) fn end(&self, at_ns: i64, served: RequestOutcome) {
        let mut truth = lock(&self.truth);
        if truth.served != RequestOutcome::InFlight {
            return;
        }
        truth.end_ns = Some(at_ns);
        truth.served = served;
        drop(truth);
        let mut state = self.ledger.state();
        if state.epoch != self.epoch {
            return;
        }
        match served {
            RequestOutcome::InFlight => {}
            RequestOutcome::Answered => state.totals.answered += 1,
            RequestOutcome::Broken => state.totals.broken += 1,
            RequestOutcome::ClientLeft => state.totals.client_left += 1,
        }
    }

    /// When the first token was sent.
    pub(crate) fn first_token_ns(&self) -> Option<i64> {
        lock(&self.truth).first_token_ns
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.end(self.ledger.clock.now_ns(), RequestOutcome::ClientLeft);
    }
}

/// Marks a request as ending while it lives.
#[derive(Debug)]
pub(crate) struct FinishGuard<'a>(&'a Ledger);

impl Drop for FinishGuard<'_> {
    fn drop(&mut self) {
        self.0.finishing.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Counts one up while it lives.
#[derive(Debug)]
pub(crate) struct GaugeGuard<'a>(&'a AtomicUsize);

impl<'a> GaugeGuard<'a> {
    pub(crate) fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for GaugeGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::fault::Fault;

    fn truth(number: u64) -> RequestTruth {
        RequestTruth {
            id: number.to_string(),
            number,
            path: String::from("/v1/chat/completions"),
            received_ns: 1,
            started_ns: None,
            first_token_ns: None,
            sent_ns: Vec::new(),
            end_ns: None,
            prompt_tokens: 3,
            tokens: 0,
            status: None,
            fault: (number == 1).then_some(Fault::Slow),
            served: RequestOutcome::InFlight,
        }
    }

    #[test]
    fn the_oldest_requests_are_dropped_and_totals_stay() {
        let ledger = Arc::new(Ledger::new(Clock::start(), 2));
        for number in 0..5 {
            let entry = ledger.open(truth(number));
            entry.start(9);
            entry.record_write(10, ChunkCount { chunks: 1, tokens: 4 });
            entry.end(11, RequestOutcome::Answered);
            entry.end(12, RequestOutcome::ClientLeft);
        }
        let stats = ledger.snapshot(10, None);
        assert_eq!(stats.requests.iter().map(|truth| truth.number).collect::<Vec<_>>(), [3, 4]);
        assert_eq!((stats.dropped, stats.totals.requests, stats.totals.answered), (3, 5, 5));
        assert_eq!((stats.totals.tokens, stats.totals.prompt_tokens, stats.totals.client_left), (20, 15, 0));
        assert_eq!(stats.totals.faults, BTreeMap::from([(Fault::Slow, 1)]));
        assert_eq!(ledger.snapshot(1, None).requests.len(), 1);
        assert_eq!(ledger.snapshot(10, Some("3")).requests.len(), 1);
    }

    #[test]
    fn a_reset_restarts_draws_and_ignores_requests_in_flight() {
        let ledger = Arc::new(Ledger::new(Clock::start(), 2));
        assert_eq!((ledger.take_number(), ledger.take_number()), (0, 1));
        let entry = ledger.open(truth(0));
        ledger.reset();
        entry.record_write(10, ChunkCount { chunks: 1, tokens: 4 });
        entry.end(11, RequestOutcome::Answered);
        assert_eq!(ledger.snapshot(10, None).totals, Totals::default());
        assert_eq!(ledger.take_number(), 0);
        assert_eq!(ledger.tokens_ever.load(Ordering::Relaxed), 4, "a counter does not decrease");
    }

    #[test]
    fn a_request_that_is_ending_is_waited_for() {
        let ledger = Arc::new(Ledger::new(Clock::start(), 2));
        let entry = ledger.open(truth(0));
        let finishing = entry.finishing();
        assert!(!ledger.is_settled());
        drop(finishing);
        assert!(ledger.is_settled());
    }
}
