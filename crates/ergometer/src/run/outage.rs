//! Detects a server that does not answer any more, so that a run does not fail its whole dataset against it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A server that restarts is back within this time.
const LONGEST_OUTAGE: Duration = Duration::from_secs(10);

/// A few lost connections in a row are not an outage.
const FEWEST_FAILURES: u64 = 10;

/// The requests in a row that did not reach the server.
#[derive(Debug, Default)]
pub(super) struct Outage {
    count: AtomicU64,
    since: Mutex<Option<Instant>>,
}

impl Outage {
    /// The server answered, if only with an error.
    pub(super) fn end(&self) {
        if self.count.swap(0, Ordering::Relaxed) > 0 {
            *self.since.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// A request did not reach the server. Returns for how long none did, once that is too long.
    pub(super) fn unreachable(&self, now: Instant) -> Option<Duration> {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let lasted = now.saturating_duration_since(*since.get_or_insert(now));
        (count >= FEWEST_FAILURES && lasted >= LONGEST_OUTAGE).then_some(lasted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_many_failures_over_a_long_time_are_an_outage() {
        let (outage, start) = (Outage::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        for _ in 0..100 {
            assert_eq!(outage.unreachable(at(9)), None, "too short");
        }
        assert_eq!(outage.unreachable(at(19)), Some(Duration::from_secs(10)));
        outage.end();
        assert_eq!(outage.unreachable(at(30)), None);
        assert_eq!(outage.unreachable(at(90)), None, "too few");
    }
}
