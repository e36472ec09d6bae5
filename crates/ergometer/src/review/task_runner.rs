//! Runs review tasks, several at a time, until all are done, the user stops, or too many fail in a row.

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::ReviewOutcome;
use crate::journal::JournalError;
use crate::stop::stopped;

/// How many tasks run at a time, and when to give up.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskLimits {
    pub(super) at_a_time: usize,
    /// The number of failures in a row after which the rest is skipped.
    pub(super) failures_in_a_row: u32,
}

/// Runs tasks.
pub(super) struct TaskRunner {
    limits: TaskLimits,
    stop: watch::Receiver<bool>,
}

impl TaskRunner {
    pub(super) fn new(limits: TaskLimits, stop: watch::Receiver<bool>) -> Self {
        Self { limits, stop }
    }

    /// Runs each task and passes its answer to `take`, which returns whether it is a success. A task that panicked has no
    /// answer.
    pub(super) async fn run<Task, Answer, Asking>(
        &mut self,
        mut tasks: impl ExactSizeIterator<Item = Task>,
        mut ask: impl FnMut(Task) -> Result<Asking, JournalError>,
        mut take: impl FnMut(Option<Answer>) -> Result<bool, JournalError>,
    ) -> Result<ReviewOutcome, JournalError>
    where
        Answer: Send + 'static,
        Asking: Future<Output = Option<Answer>> + Send + 'static,
    {
        let mut asked = JoinSet::new();
        let mut failures = 0;
        loop {
            while asked.len() < self.limits.at_a_time && !*self.stop.borrow() {
                match tasks.next() {
                    Some(task) => drop(asked.spawn(ask(task)?)),
                    None => break,
                }
            }
            let answer = tokio::select! {
                biased;
                answer = asked.join_next() => answer,
                // Tasks in flight are dropped; they run again when the run is resumed.
                () = stopped(&mut self.stop) => return Ok(ReviewOutcome::Stopped),
            };
            match answer {
                None if tasks.len() > 0 => return Ok(ReviewOutcome::Stopped),
                None => return Ok(ReviewOutcome::Done),
                Some(answer) => failures = if take(answer.ok().flatten())? { 0 } else { failures + 1 },
            }
            if failures >= self.limits.failures_in_a_row {
                return Ok(ReviewOutcome::Done);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const LIMITS: TaskLimits = TaskLimits { at_a_time: 4, failures_in_a_row: 3 };

    /// Runs tasks up to this number, some of which fail. Returns the outcome, the answers, the number of tasks started, and
    /// the most at a time.
    async fn ask(end: u32, fails: fn(u32) -> bool) -> (ReviewOutcome, Vec<u32>, u32, usize) {
        let (_sender, stop) = watch::channel(false);
        let (mut taken, mut asked) = (Vec::new(), 0);
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let ask = |number: u32| {
            asked += 1;
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            Ok(async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
                assert!(number != 13, "unlucky");
                (!fails(number)).then_some(number)
            })
        };
        let take = |answer: Option<u32>| {
            taken.extend(answer);
            Ok(answer.is_some())
        };
        let reviewed = TaskRunner::new(LIMITS, stop).run(0..end, ask, take).await.unwrap();
        taken.sort_unstable();
        (reviewed, taken, asked, most.load(Ordering::SeqCst))
    }

    #[tokio::test]
    async fn all_tasks_run_a_few_at_a_time() {
        let (reviewed, taken, asked, most) = ask(30, |number| number % 3 == 0).await;
        assert_eq!((reviewed, asked, most), (ReviewOutcome::Done, 30, 4));
        assert_eq!(taken, (0..30).filter(|number| number % 3 != 0 && *number != 13).collect::<Vec<_>>());
        assert_eq!(ask(0, |_| true).await.0, ReviewOutcome::Done);
    }

    #[tokio::test]
    async fn failures_in_a_row_end_the_run() {
        let (reviewed, taken, asked, _) = ask(10_000, |number| number >= 20).await;
        assert_eq!(reviewed, ReviewOutcome::Done);
        assert!(asked < 40 && taken.len() > 12, "{asked} asked, {taken:?}");
    }

    #[tokio::test]
    async fn the_user_can_stop() {
        let (sender, stop) = watch::channel(false);
        let run = async |end| {
            let ask = |_: u32| Ok(std::future::pending::<Option<()>>());
            TaskRunner::new(LIMITS, stop.clone()).run(0..end, ask, |_| Ok(true)).await.unwrap()
        };
        sender.send(true).unwrap();
        assert_eq!(run(9).await, ReviewOutcome::Stopped);
        assert_eq!(run(0).await, ReviewOutcome::Done, "there was nothing to stop");
    }
}
