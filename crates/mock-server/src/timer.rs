//! A timer that is accurate to a fraction of a millisecond and never early.
//!
//! Tokio's timers have a resolution of a millisecond and round up, so tokens would be one to two milliseconds late.
//! Here one thread sleeps until the earliest wait is due, and ends all waits within a time slice together: 256 streams
//! with a token every 5 ms are 51,200 waits a second.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// Waits that are due within this time of each other end together, when the last is due.
const SLICE: Duration = Duration::from_micros(200);

/// Longer waits start with tokio's timer, so that clients that leave do not leave waits in the queue.
const LONG: Duration = Duration::from_millis(50);

/// The part of a long wait that this timer does: more than tokio is late on a busy machine.
const REST: Duration = Duration::from_millis(10);

/// The waits of one server.
#[derive(Debug)]
pub(crate) struct Timer(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waits: Mutex<Waits>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waits {
    heap: BinaryHeap<Reverse<Wait>>,
    /// When the thread wakes up. A later wait need not wake it.
    sleeps_until: Option<Instant>,
    is_over: bool,
}

#[derive(Debug)]
struct Wait {
    due: Instant,
    waker: Waker,
}

impl PartialEq for Wait {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Wait {}

impl PartialOrd for Wait {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Wait {
    fn cmp(&self, other: &Self) -> Ordering {
        self.due.cmp(&other.due)
    }
}

impl Timer {
    /// Starts the thread. It ends when the timer is dropped.
    pub(crate) fn start() -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let shared = Arc::clone(&queue);
        thread::Builder::new().name(String::from("mock-timer")).spawn(move || shared.run())?;
        Ok(Self(queue))
    }

    /// Waits until this time or a little later.
    pub(crate) async fn until(&self, due: Instant) {
        if due.saturating_duration_since(Instant::now()) > LONG {
            tokio::time::sleep_until(due.checked_sub(REST).unwrap_or(due).into()).await;
        }
        poll_fn(|context| {
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            self.0.add(Wait { due, waker: context.waker().clone() });
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.waits().is_over = true;
        self.0.changed.notify_one();
    }
}

impl Queue {
    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, wait: Wait) {
        let mut waits = self.waits();
        let is_first = waits.sleeps_until.is_none_or(|until| wait.due + SLICE < until);
        waits.heap.push(Reverse(wait));
        if is_first {
            drop(waits);
            self.changed.notify_one();
        }
    }

    fn run(&self) {
        let mut ended = Vec::new();
        let mut waits = self.waits();
        while !waits.is_over {
            let now = Instant::now();
            while waits.heap.peek().is_some_and(|Reverse(first)| first.due <= now) {
                ended.extend(waits.heap.pop().map(|Reverse(wait)| wait.waker));
            }
            if !ended.is_empty() {
                // A woken task may wait again at once, so the queue must not be locked.
                drop(waits);
                ended.drain(..).for_each(Waker::wake);
                waits = self.waits();
                continue;
            }
            let next = waits.heap.peek().map(|Reverse(first)| first.due + SLICE);
            waits.sleeps_until = next;
            waits = match next {
                None => self.changed.wait(waits).unwrap_or_else(PoisonError::into_inner),
                Some(next) => {
                    let left = next.saturating_duration_since(now);
                    self.changed.wait_timeout(waits, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_are_never_early() {
        let timer = Arc::new(Timer::start().unwrap());
        let start = Instant::now();
        let wait = |ms| {
            let timer = Arc::clone(&timer);
            tokio::spawn(async move {
                timer.until(start + Duration::from_millis(ms)).await;
                Instant::now()
            })
        };
        // The first is long; the last is added later and due earlier.
        let (long, short, past, middle) = (wait(70), wait(8), wait(0), wait(30));
        for (ms, ended) in [(70, long), (8, short), (0, past), (30, middle)] {
            assert!(ended.await.unwrap() >= start + Duration::from_millis(ms), "{ms}");
        }
    }

    #[tokio::test]
    async fn a_cancelled_wait_does_not_stop_others() {
        let timer = Timer::start().unwrap();
        let start = Instant::now();
        let given_up = timer.until(start + Duration::from_millis(20));
        assert!(tokio::time::timeout(Duration::from_millis(1), given_up).await.is_err());
        timer.until(start + Duration::from_millis(30)).await;
        assert!(start.elapsed() >= Duration::from_millis(30));
    }

    #[test]
    fn the_thread_ends_with_the_timer() {
        let timer = Timer::start().unwrap();
        let queue = Arc::downgrade(&timer.0);
        drop(timer);
        while queue.strong_count() > 0 {
            thread::yield_now();
        }
    }
}
