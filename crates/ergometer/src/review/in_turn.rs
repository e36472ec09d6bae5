//! Many things to ask, some at a time: until all are asked, the user wants to stop, or nobody answers any more.

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Reviewed;
use crate::journal::JournalError;
use crate::stop::stopped;

/// How much is asked at a time, and when to give up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub(super) at_a_time: usize,
    /// After so many failures with no success between them.
    pub(super) failures_in_a_row: u32,
}

/// Asks in turn.
pub(super) struct InTurn {
    patience: Patience,
    stop: watch::Receiver<bool>,
}

impl InTurn {
    pub(super) fn new(patience: Patience, stop: watch::Receiver<bool>) -> Self {
        Self { patience, stop }
    }

    /// Asks about each task and hands what comes of it to `take`, which says whether it is a success. What panicked comes
    /// to nothing.
    pub(super) async fn run<Task, Answer, Asking>(
        &mut self,
        mut tasks: impl ExactSizeIterator<Item = Task>,
        mut ask: impl FnMut(Task) -> Result<Asking, JournalError>,
        mut take: impl FnMut(Option<Answer>) -> Result<bool, JournalError>,
    ) -> Result<Reviewed, JournalError>
    where
        Answer: Send + 'static,
        Asking: Future<Output = Option<Answer>> + Send + 'static,
    {
        let mut asked = JoinSet::new();
        let mut failures = 0;
        loop {
            while asked.len() < self.patience.at_a_time && !*self.stop.borrow() {
                match tasks.next() {
                    Some(task) => drop(asked.spawn(ask(task)?)),
                    None => break,
                }
            }
            let answer = tokio::select! {
                biased;
                answer = asked.join_next() => answer,
                // What is in flight is given up: it is asked again when the run is gone on with.
                () = stopped(&mut self.stop) => return Ok(Reviewed::Stopped),
            };
            match answer {
                None if tasks.len() > 0 => return Ok(Reviewed::Stopped),
                None => return Ok(Reviewed::Done),
                Some(answer) => failures = if take(answer.ok().flatten())? { 0 } else { failures + 1 },
            }
            if failures >= self.patience.failures_in_a_row {
                return Ok(Reviewed::Done);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const PATIENCE: Patience = Patience { at_a_time: 4, failures_in_a_row: 3 };

    /// What came of asking up to this number: answers, how many were asked, and how many at a time. Those that are told to
    /// fail do.
    async fn ask(end: u32, fails: fn(u32) -> bool) -> (Reviewed, Vec<u32>, u32, usize) {
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
        let reviewed = InTurn::new(PATIENCE, stop).run(0..end, ask, take).await.unwrap();
        taken.sort_unstable();
        (reviewed, taken, asked, most.load(Ordering::SeqCst))
    }

    #[tokio::test]
    async fn everything_is_asked_a_few_at_a_time() {
        let (reviewed, taken, asked, most) = ask(30, |number| number % 3 == 0).await;
        assert_eq!((reviewed, asked, most), (Reviewed::Done, 30, 4));
        assert_eq!(taken, (0..30).filter(|number| number % 3 != 0 && *number != 13).collect::<Vec<_>>());
        assert_eq!(ask(0, |_| true).await.0, Reviewed::Done);
    }

    #[tokio::test]
    async fn nobody_is_asked_for_ever_in_vain() {
        let (reviewed, taken, asked, _) = ask(10_000, |number| number >= 20).await;
        assert_eq!(reviewed, Reviewed::Done);
        assert!(asked < 40 && taken.len() > 12, "{asked} asked, {taken:?}");
    }

    #[tokio::test]
    async fn the_user_has_the_say() {
        let (sender, stop) = watch::channel(false);
        let run = async |end| {
            let ask = |_: u32| Ok(std::future::pending::<Option<()>>());
            InTurn::new(PATIENCE, stop.clone()).run(0..end, ask, |_| Ok(true)).await.unwrap()
        };
        sender.send(true).unwrap();
        assert_eq!(run(9).await, Reviewed::Stopped);
        assert_eq!(run(0).await, Reviewed::Done, "there was nothing to stop");
    }
}
