//! Sends the turns of a conversation one after the other, each with the earlier turns. A query without a conversation
//! is a conversation of one turn.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

use ergometer_units::{Seconds, Timestamp};

use super::RunError;
use super::sending::{Prompt, QueryResult, RequestFailure, Sender};
use ergometer_clients::EarlierTurn;
use ergometer_datasets::Query;
use ergometer_datasets::random::Random;
use ergometer_runs::config::Think;

/// A conversation that is due.
pub(super) struct Conversation {
    /// The indices of its turns in the dataset.
    pub(super) turns: Range<u64>,
    /// The query of the first turn, if it is already loaded.
    pub(super) first: Option<Query>,
    /// When it is due.
    pub(super) scheduled: Timestamp,
}

/// How a conversation ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConversationEnd {
    /// When its last request ended.
    pub(super) end: Timestamp,
    /// Whether the server could not be reached, or did not respond at all.
    pub(super) is_unreachable: bool,
}

/// Changes the seed, so that think times do not repeat the random numbers of a dataset with the same seed.
const SEED_MASK: u64 = 0x7468_696e_6b69_6e67;

/// Sends conversations.
pub(super) struct Conversations {
    pub(super) sender: Sender,
    /// Turns that were answered in earlier sessions, of conversations that are not complete.
    pub(super) earlier: BTreeMap<u64, EarlierTurn>,
}

impl Conversations {
    /// Sends the turns that are not settled, until one fails or sending stops.
    pub(super) async fn converse(&self, conversation: Conversation) -> Result<ConversationEnd, RunError> {
        let sender = &self.sender;
        let dispenser = &sender.control.dispenser;
        let Conversation { turns, mut first, scheduled } = conversation;
        let mut ended = ConversationEnd { end: scheduled, is_unreachable: false };
        let (mut before, mut is_broken, mut is_begun) = (Vec::new(), false, false);
        for index in turns {
            if dispenser.is_done(index) {
                // Settled in an earlier session. If it failed there, the conversation cannot continue.
                match self.earlier.get(&index) {
                    Some(turn) => before.push(turn.clone()),
                    None => is_broken = true,
                }
                continue;
            }
            let query = match first.take() {
                Some(query) if query.index == index => query,
                _ => sender.query(index).await?,
            };
            if is_broken {
                sender.give_up(query).await?;
                continue;
            }
            let mut due = scheduled;
            if is_begun {
                let think = self.think(&query);
                // A turn whose think time ends after the deadline is not sent.
                if dispenser.is_over_after(think.into())
                    || sender.control.sleep(think.into()).await
                    || dispenser.is_over()
                {
                    sender.counts.broken_off.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                due = ended.end + think;
            }
            is_begun = true;
            let settled = sender.send(Prompt { query: &query, before: &before }, due).await?;
            ended.end = settled.end;
            match settled.outcome {
                QueryResult::Completed(answer) => before.push(EarlierTurn { problem: query.problem, answer }),
                QueryResult::Failed(failure) => {
                    ended.is_unreachable = failure == RequestFailure::Unreachable;
                    is_broken = true;
                }
                QueryResult::Stopped => break,
            }
        }
        Ok(ended)
    }

    /// The think time before this turn: from the dataset, else from the configuration.
    fn think(&self, query: &Query) -> Seconds {
        let recorded = query.turn.and_then(|turn| turn.think_s).filter(|seconds| *seconds >= 0.0);
        Seconds::new(recorded.unwrap_or_else(|| match self.sender.config().think {
            Think::Never => 0.0,
            Think::Fixed { seconds } => seconds,
            Think::Exponential { mean_s } => {
                let seed = self.sender.config().request.seed ^ SEED_MASK;
                -mean_s * Random::for_query(seed, query.index).unit().ln()
            }
        }))
    }
}
