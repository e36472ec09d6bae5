//! Counts missing tokens and judges answers after the last request of a run, and writes the results to `after.jsonl`.
//!
//! The sensors have stopped by then, so the energy of a tokenizer or a judge is not part of the run. A review that was
//! stopped or killed can be resumed: it skips requests that are in `after.jsonl`.

mod judge;
mod prompt;
mod task_runner;
mod tokenizer;
mod verdict;

use std::sync::Arc;

use tokio::sync::watch;

pub use judge::{Judge, JudgeError};
pub use tokenizer::{Tokenizer, TokenizerError};
pub use verdict::{Verdict, verdict};

use self::task_runner::{TaskLimits, TaskRunner};
use crate::journal::{
    Exchanges, JournalError, JournalFolder, Judgement, LocatedRequest, OrderedRequest, ReviewEntry,
    ReviewJournalWriter, SessionEvents, TokenCount, order,
};
use ergometer_clients::{Client, Request, RequestError, RequestOptions};
use ergometer_runs::Exchange;
use ergometer_runs::config::Retries;

/// A server that fails to count three times in a row has no tokenizer endpoint.
const COUNTING: TaskLimits = TaskLimits { at_a_time: 8, failures_in_a_row: 3 };

/// A judge that fails five times in a row is unavailable.
const JUDGING: TaskLimits = TaskLimits { at_a_time: 4, failures_in_a_row: 5 };

/// Retries of a request to the judge after a transient failure.
const JUDGE_RETRIES: Retries = Retries { most: 2, backoff_s: 0.5 };

/// A review of a run.
pub struct Review {
    /// The journal of the run.
    pub journal: JournalFolder,
    /// The client of the run, whose server may count tokens.
    pub client: Arc<dyn Client>,
    /// The options of every request of the run.
    pub common: Arc<RequestOptions>,
    /// The judge, if there is one.
    pub judge: Option<Judge>,
    /// Becomes true when the user stops the review.
    pub stop: watch::Receiver<bool>,
}

/// The progress of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewProgress<'a> {
    /// Tokens are counted.
    Counting {
        /// Requests done.
        done: u64,
        /// All requests to count.
        total: u64,
    },
    /// Answers are graded.
    Judging {
        /// Answers done.
        done: u64,
        /// All answers to judge.
        total: u64,
    },
    /// An answer could not be judged. Reported once.
    JudgeFailed(&'a str),
}

/// How a review ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewOutcome {
    /// Everything possible was counted and judged.
    Done,
    /// The user stopped it before its end.
    Stopped,
}

/// A request to count or judge.
#[derive(Debug, Clone, Copy)]
struct Task {
    session: u32,
    located: LocatedRequest,
}

impl Review {
    /// Counts and judges the records of the run, and calls `report` with its progress.
    pub async fn run(self, report: &(dyn Fn(ReviewProgress<'_>) + Send + Sync)) -> Result<ReviewOutcome, JournalError> {
        let numbers = self.journal.sessions()?;
        let sessions =
            numbers.iter().map(|&number| self.journal.events(number)).collect::<Result<Vec<SessionEvents>, _>>()?;
        let after = self.journal.review_journal()?;
        let borrowed: Vec<&SessionEvents> = sessions.iter().collect();
        let records = order(&borrowed).into_iter().filter(|entry| entry.is_record);
        let located = |entry: &OrderedRequest| sessions[entry.session as usize].requests[entry.place as usize];
        let (mut uncounted, mut unjudged) = (Vec::new(), Vec::new());
        for entry in records {
            let task = Task { session: entry.session, located: located(&entry) };
            let (session, request) = (numbers[entry.session as usize], task.located.request);
            if task.located.is_uncounted && !after.is_counted(session, request) {
                uncounted.push(task);
            }
            if self.judge.is_some() && task.located.is_gradable && !after.is_judged(session, request) {
                unjudged.push(task);
            }
        }
        if uncounted.is_empty() && unjudged.is_empty() {
            return Ok(ReviewOutcome::Done);
        }
        let judge = self.judge.as_ref().map(Judge::secrets).unwrap_or_default();
        let secrets = self.client.secrets().and(&judge);
        let mut running = RunningReview {
            review: &self,
            exchanges: Exchanges::new(&self.journal, numbers),
            writer: after.writer(secrets),
            report,
        };
        let counted = running.count(&uncounted).await?;
        let judged = running.judge(&unjudged).await?;
        running.writer.finish()?;
        let is_stopped = [counted, judged].contains(&ReviewOutcome::Stopped);
        Ok(if is_stopped { ReviewOutcome::Stopped } else { ReviewOutcome::Done })
    }
}

/// A review in progress.
struct RunningReview<'a> {
    review: &'a Review,
    exchanges: Exchanges,
    writer: ReviewJournalWriter,
    report: &'a (dyn Fn(ReviewProgress<'_>) + Send + Sync),
}

impl RunningReview<'_> {
    /// Counts tokens with the server's tokenizer.
    async fn count(&mut self, tasks: &[Task]) -> Result<ReviewOutcome, JournalError> {
        let Self { review, exchanges, writer, report } = self;
        let (total, mut done) = (tasks.len() as u64, 0);
        let ask = |task: &Task| {
            let exchange = exchanges.read(task.session as usize, task.located)?;
            let (client, common) = (Arc::clone(&review.client), Arc::clone(&review.common));
            Ok(async move { count(&*client, &common, &exchange).await })
        };
        let take = |counted: Option<TokenCount>| {
            done += 1;
            report(ReviewProgress::Counting { done, total });
            let Some(count) = counted else { return Ok(false) };
            writer.write(&ReviewEntry::Counted(count)).map(|()| true)
        };
        TaskRunner::new(COUNTING, review.stop.clone()).run(tasks.iter(), ask, take).await
    }

    /// Judges answers.
    async fn judge(&mut self, tasks: &[Task]) -> Result<ReviewOutcome, JournalError> {
        let Self { review, exchanges, writer, report } = self;
        let Some(judge) = &review.judge else { return Ok(ReviewOutcome::Done) };
        let (total, mut done) = (tasks.len() as u64, 0);
        let mut has_failed = false;
        let ask = |task: &Task| {
            let exchange = exchanges.read(task.session as usize, task.located)?;
            let judge = judge.clone();
            Ok(async move { Some(judge.judge(&exchange, JUDGE_RETRIES).await) })
        };
        let take = |judged: Option<Result<Judgement, RequestError>>| {
            done += 1;
            report(ReviewProgress::Judging { done, total });
            let cause = match judged {
                Some(Ok(judgement)) => return writer.write(&ReviewEntry::Judged(judgement)).map(|()| true),
                Some(Err(error)) => error.cause,
                None => String::from("its client panicked"),
            };
            if !std::mem::replace(&mut has_failed, true) {
                report(ReviewProgress::JudgeFailed(&cause));
            }
            Ok(false)
        };
        TaskRunner::new(JUDGING, review.stop.clone()).run(tasks.iter(), ask, take).await
    }
}

/// Asks the server to count the tokens of one request and its answer.
async fn count(client: &dyn Client, common: &RequestOptions, exchange: &Exchange) -> Option<TokenCount> {
    let (query, transcript) = (&exchange.query, &exchange.transcript);
    let request = Request {
        id: None,
        index: query.index,
        earlier: &[],
        problem: &query.problem,
        output_tokens: query.output_tokens,
        common,
    };
    let answer = [&*transcript.reasoning, &transcript.text, &transcript.tool_calls];
    let usage = client.count(&request, &answer).await?;
    Some(TokenCount { request: exchange.request, session: exchange.session, usage })
}
