//! Where the truth is written down while requests are answered.
//!
//! A chunk's time is taken when the write to the socket returned. Memory is bounded: the oldest requests are let go
//! first, and it is told how many.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::Clock;
use crate::score::Part;
use crate::summary::Summed;
use crate::truth::{RequestTruth, Served, Stats, Totals};

/// The most times of chunks that are kept: 160 MB of them.
const MOST_TIMES: usize = 20_000_000;

/// What one write had in it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Written {
    /// Chunks with content.
    pub(crate) chunks: usize,
    pub(crate) tokens: u64,
}

impl Written {
    pub(crate) const fn add(&mut self, part: Part) {
        if let Part::Tokens { from, to, .. } = part {
            self.chunks += 1;
            self.tokens += to - from;
        }
    }
}

/// Where everything is written down.
#[derive(Debug)]
pub(crate) struct Ledger {
    clock: Clock,
    pages: Mutex<Pages>,
    kept: usize,
    /// Requests that send their last bytes: what they did is about to be written down.
    finishing: AtomicUsize,
    pub(crate) running: AtomicUsize,
    pub(crate) waiting: AtomicUsize,
    /// Tokens since the start, never reset: counters of `/metrics` must not go back.
    pub(crate) prompt_tokens_ever: AtomicU64,
    pub(crate) tokens_ever: AtomicU64,
}

#[derive(Debug, Default)]
struct Pages {
    totals: Totals,
    requests: VecDeque<Arc<Mutex<RequestTruth>>>,
    times: usize,
    dropped: u64,
    /// Counts requests for their draws; a reset begins again.
    next: u64,
    /// Counts resets: an entry of an earlier age is not summed any more.
    age: u64,
}

impl Ledger {
    pub(crate) fn new(clock: Clock, kept: usize) -> Self {
        Self {
            clock,
            pages: Mutex::default(),
            kept,
            finishing: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            prompt_tokens_ever: AtomicU64::new(0),
            tokens_ever: AtomicU64::new(0),
        }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the next request.
    pub(crate) fn take_number(&self) -> u64 {
        let mut pages = self.pages();
        pages.next += 1;
        pages.next - 1
    }

    /// Changes the totals.
    pub(crate) fn count(&self, change: impl FnOnce(&mut Totals)) {
        change(&mut self.pages().totals);
    }

    /// Begins the entry of a request.
    pub(crate) fn open(self: &Arc<Self>, truth: RequestTruth) -> Entry {
        let mut pages = self.pages();
        pages.totals.requests += 1;
        if let Some(fault) = truth.fault {
            *pages.totals.faults.entry(fault).or_default() += 1;
        }
        let truth = Arc::new(Mutex::new(truth));
        pages.requests.push_back(Arc::clone(&truth));
        while pages.requests.len() > self.kept || (pages.times > MOST_TIMES && pages.requests.len() > 1) {
            if let Some(oldest) = pages.requests.pop_front() {
                let times = lock(&oldest).sent_ns.len();
                pages.times = pages.times.saturating_sub(times);
                pages.dropped += 1;
            }
        }
        Entry { ledger: Arc::clone(self), truth, age: pages.age }
    }

    /// Everything as it is now, with the last `most` requests, or the one with this id.
    pub(crate) fn look(&self, most: usize, id: Option<&str>) -> Stats {
        let pages = self.pages();
        let truths: Vec<_> = pages.requests.iter().cloned().collect();
        let (totals, dropped) = (pages.totals.clone(), pages.dropped);
        drop(pages);
        let skipped = truths.len().saturating_sub(most);
        let mut summed = Summed::default();
        let mut requests = Vec::new();
        for (at, truth) in truths.iter().enumerate() {
            let truth = lock(truth);
            summed.add(&truth);
            if at >= skipped && id.is_none_or(|id| truth.id == id) {
                requests.push(truth.clone());
            }
        }
        Stats {
            totals,
            running: self.running.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
            dropped,
            summary: summed.finish(),
            requests,
        }
    }

    /// Whether no request is about to be written down as over.
    pub(crate) fn is_settled(&self) -> bool {
        self.finishing.load(Ordering::Acquire) == 0
    }

    /// Forgets all requests and totals, and begins the draws of the script again.
    pub(crate) fn reset(&self) {
        let mut pages = self.pages();
        *pages = Pages { age: pages.age + 1, ..Pages::default() };
    }
}

fn lock(truth: &Mutex<RequestTruth>) -> MutexGuard<'_, RequestTruth> {
    truth.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The entry of one request. Where it is dropped before its end, the client has left.
#[derive(Debug)]
pub(crate) struct Entry {
    ledger: Arc<Ledger>,
    truth: Arc<Mutex<RequestTruth>>,
    age: u64,
}

impl Entry {
    /// It has a slot: its prompt is read.
    pub(crate) fn start(&self, at_ns: i64) {
        let mut truth = lock(&self.truth);
        truth.started_ns = Some(at_ns);
        let prompt_tokens = truth.prompt_tokens;
        drop(truth);
        self.ledger.prompt_tokens_ever.fetch_add(prompt_tokens, Ordering::Relaxed);
        let mut pages = self.ledger.pages();
        if pages.age == self.age {
            pages.totals.prompt_tokens += prompt_tokens;
        }
    }

    /// Its status was sent.
    pub(crate) fn status(&self, status: u16) {
        lock(&self.truth).status = Some(status);
    }

    /// A write returned, with some of its chunks.
    pub(crate) fn wrote(&self, at_ns: i64, written: Written) {
        if written.chunks == 0 {
            return;
        }
        self.ledger.tokens_ever.fetch_add(written.tokens, Ordering::Relaxed);
        let mut truth = lock(&self.truth);
        truth.first_token_ns.get_or_insert(at_ns);
        truth.sent_ns.extend(std::iter::repeat_n(at_ns, written.chunks));
        truth.tokens += written.tokens;
        drop(truth);
        let mut pages = self.ledger.pages();
        if pages.age == self.age {
            pages.totals.tokens += written.tokens;
            pages.times += written.chunks;
        }
    }

    /// Says that its end is about to be sent: whoever looks waits for it.
    pub(crate) fn finishing(&self) -> Finishing<'_> {
        self.ledger.finishing.fetch_add(1, Ordering::AcqRel);
        Finishing(&self.ledger)
    }

    /// It is over.
    pub(crate) fn end(&self, at_ns: i64, served: Served) {
        let mut truth = lock(&self.truth);
        if truth.served != Served::InFlight {
            return;
        }
        truth.end_ns = Some(at_ns);
        truth.served = served;
        drop(truth);
        let mut pages = self.ledger.pages();
        if pages.age != self.age {
            return;
        }
        match served {
            Served::InFlight => {}
            Served::Answered => pages.totals.answered += 1,
            Served::Broken => pages.totals.broken += 1,
            Served::ClientLeft => pages.totals.client_left += 1,
        }
    }

    /// When its first token was sent.
    pub(crate) fn first_token_ns(&self) -> Option<i64> {
        lock(&self.truth).first_token_ns
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.end(self.ledger.clock.now_ns(), Served::ClientLeft);
    }
}

/// As long as it lives, a request is about to be over.
#[derive(Debug)]
pub(crate) struct Finishing<'a>(&'a Ledger);

impl Drop for Finishing<'_> {
    fn drop(&mut self) {
        self.0.finishing.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Counts one up as long as it lives.
#[derive(Debug)]
pub(crate) struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    pub(crate) fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
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
            served: Served::InFlight,
        }
    }

    #[test]
    fn the_oldest_go_first_and_totals_stay() {
        let ledger = Arc::new(Ledger::new(Clock::start(), 2));
        for number in 0..5 {
            let entry = ledger.open(truth(number));
            entry.start(9);
            entry.wrote(10, Written { chunks: 1, tokens: 4 });
            entry.end(11, Served::Answered);
            entry.end(12, Served::ClientLeft);
        }
        let stats = ledger.look(10, None);
        assert_eq!(stats.requests.iter().map(|truth| truth.number).collect::<Vec<_>>(), [3, 4]);
        assert_eq!((stats.dropped, stats.totals.requests, stats.totals.answered), (3, 5, 5));
        assert_eq!((stats.totals.tokens, stats.totals.prompt_tokens, stats.totals.client_left), (20, 15, 0));
        assert_eq!(stats.totals.faults, BTreeMap::from([(Fault::Slow, 1)]));
        assert_eq!(ledger.look(1, None).requests.len(), 1);
        assert_eq!(ledger.look(10, Some("3")).requests.len(), 1);
    }

    #[test]
    fn a_reset_begins_the_draws_again_and_forgets_what_is_in_flight() {
        let ledger = Arc::new(Ledger::new(Clock::start(), 2));
        assert_eq!((ledger.take_number(), ledger.take_number()), (0, 1));
        let entry = ledger.open(truth(0));
        ledger.reset();
        entry.wrote(10, Written { chunks: 1, tokens: 4 });
        entry.end(11, Served::Answered);
        assert_eq!(ledger.look(10, None).totals, Totals::default());
        assert_eq!(ledger.take_number(), 0);
        assert_eq!(ledger.tokens_ever.load(Ordering::Relaxed), 4, "a counter does not go back");
    }

    #[test]
    fn a_request_that_finishes_is_waited_for() {
        let ledger = Arc::new(Ledger::new(Clock::start(), 2));
        let entry = ledger.open(truth(0));
        let finishing = entry.finishing();
        assert!(!ledger.is_settled());
        drop(finishing);
        assert!(ledger.is_settled());
    }
}
