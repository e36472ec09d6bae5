//! After the last request, before the run is closed: tokens that the server did not count, and answers that a model
//! grades. The journal of a run goes in; lines of its `after.jsonl` come out.
//!
//! Nothing is timed or measured here: the sensors have stopped, so whatever a tokenizer or a judge uses is not the run's.
//! What was found out is never asked again, so a review that was stopped or killed goes on where it was.

mod in_turn;
mod judge;
mod prompt;
mod tokenizer;
mod verdict;

use std::sync::Arc;

use tokio::sync::watch;

pub use judge::{Judge, JudgeError};
pub use tokenizer::{Tokenizer, TokenizerError};
pub use verdict::{Verdict, verdict};

use self::in_turn::{InTurn, Patience};
use crate::journal::{
    AfterEntry, AfterWriter, Exchanges, JournalError, JournalFolder, Judgement, Located, Ordered, SessionEvents,
    TokenCount, order,
};
use ergometer_clients::{Client, Request, RequestError, RequestOptions};
use ergometer_runs::Exchange;
use ergometer_runs::config::Retries;

/// A server that fails to count three times in a row has no tokenizer to ask.
const COUNTING: Patience = Patience { at_a_time: 8, failures_in_a_row: 3 };

/// A judge that fails five times in a row will not come back soon.
const JUDGING: Patience = Patience { at_a_time: 4, failures_in_a_row: 5 };

/// A judge's request that failed and may well succeed is sent again so often.
const JUDGE_RETRIES: Retries = Retries { most: 2, backoff_s: 0.5 };

/// What is looked at, by whom.
pub struct Review {
    /// Of which run.
    pub journal: JournalFolder,
    /// Whom the run asked: its server may count tokens.
    pub client: Arc<dyn Client>,
    /// What every request of the run asked for.
    pub common: Arc<RequestOptions>,
    /// Who grades, where a model does.
    pub judge: Option<Judge>,
    /// Becomes true when the user wants it to end.
    pub stop: watch::Receiver<bool>,
}

/// What a review does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reviewing<'a> {
    /// Tokens are counted.
    Counting {
        /// Requests that are dealt with.
        done: u64,
        /// Of how many.
        total: u64,
    },
    /// Answers are graded.
    Judging {
        /// Answers that are dealt with.
        done: u64,
        /// Of how many.
        total: u64,
    },
    /// An answer could not be judged; told once.
    JudgeFailed(&'a str),
}

/// What came of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reviewed {
    /// Everything was looked at that could be.
    Done,
    /// The user stopped it, and something is left.
    Stopped,
}

/// One request and what is to be done with it.
#[derive(Debug, Clone, Copy)]
struct Task {
    session: u32,
    located: Located,
}

impl Review {
    /// Looks at the records of the run, and tells how far it is.
    pub async fn run(self, tell: &(dyn Fn(Reviewing<'_>) + Send + Sync)) -> Result<Reviewed, JournalError> {
        let numbers = self.journal.sessions()?;
        let sessions =
            numbers.iter().map(|&number| self.journal.events(number)).collect::<Result<Vec<SessionEvents>, _>>()?;
        let after = self.journal.after()?;
        let borrowed: Vec<&SessionEvents> = sessions.iter().collect();
        let records = order(&borrowed).into_iter().filter(|entry| entry.is_record);
        let located = |entry: &Ordered| sessions[entry.session as usize].requests[entry.place as usize];
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
            return Ok(Reviewed::Done);
        }
        let mut asking =
            Asking { review: &self, exchanges: Exchanges::new(&self.journal, numbers), writer: after.writer(), tell };
        let counted = asking.count(&uncounted).await?;
        let judged = asking.judge(&unjudged).await?;
        asking.writer.finish()?;
        let is_stopped = [counted, judged].contains(&Reviewed::Stopped);
        Ok(if is_stopped { Reviewed::Stopped } else { Reviewed::Done })
    }
}

/// A review that is under way.
struct Asking<'a> {
    review: &'a Review,
    exchanges: Exchanges,
    writer: AfterWriter,
    tell: &'a (dyn Fn(Reviewing<'_>) + Send + Sync),
}

impl Asking<'_> {
    /// Asks the server's own tokenizer.
    async fn count(&mut self, tasks: &[Task]) -> Result<Reviewed, JournalError> {
        let Self { review, exchanges, writer, tell } = self;
        let (total, mut done) = (tasks.len() as u64, 0);
        let ask = |task: &Task| {
            let exchange = exchanges.read(task.session as usize, task.located)?;
            let (client, common) = (Arc::clone(&review.client), Arc::clone(&review.common));
            Ok(async move { count(&*client, &common, &exchange).await })
        };
        let take = |counted: Option<TokenCount>| {
            done += 1;
            tell(Reviewing::Counting { done, total });
            let Some(count) = counted else { return Ok(false) };
            writer.write(&AfterEntry::Counted(count)).map(|()| true)
        };
        InTurn::new(COUNTING, review.stop.clone()).run(tasks.iter(), ask, take).await
    }

    /// Asks the judge.
    async fn judge(&mut self, tasks: &[Task]) -> Result<Reviewed, JournalError> {
        let Self { review, exchanges, writer, tell } = self;
        let Some(judge) = &review.judge else { return Ok(Reviewed::Done) };
        let (total, mut done) = (tasks.len() as u64, 0);
        let mut has_failed = false;
        let ask = |task: &Task| {
            let exchange = exchanges.read(task.session as usize, task.located)?;
            let judge = judge.clone();
            Ok(async move { Some(judge.judge(&exchange, JUDGE_RETRIES).await) })
        };
        let take = |judged: Option<Result<Judgement, RequestError>>| {
            done += 1;
            tell(Reviewing::Judging { done, total });
            let cause = match judged {
                Some(Ok(judgement)) => return writer.write(&AfterEntry::Judged(judgement)).map(|()| true),
                Some(Err(error)) => error.cause,
                None => String::from("its client panicked"),
            };
            if !std::mem::replace(&mut has_failed, true) {
                tell(Reviewing::JudgeFailed(&cause));
            }
            Ok(false)
        };
        InTurn::new(JUDGING, review.stop.clone()).run(tasks.iter(), ask, take).await
    }
}

/// Asks the server to count one request and its answer.
async fn count(client: &dyn Client, common: &RequestOptions, exchange: &Exchange) -> Option<TokenCount> {
    let (query, transcript) = (&exchange.query, &exchange.transcript);
    let request = Request {
        number: None,
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
