//! One conversation: its turns are sent one after the other, each with what was said before. A query of its own is a
//! conversation of one turn.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

use ergometer_units::{Seconds, Timestamp};

use super::RunError;
use super::sending::{Answer, Failed, Prompt, Sender};
use ergometer_clients::EarlierTurn;
use ergometer_datasets::Query;
use ergometer_datasets::random::Random;
use ergometer_runs::config::Think;

/// A conversation that is due.
pub(super) struct Conversation {
    /// The places of its turns in the dataset.
    pub(super) turns: Range<u64>,
    /// The first of them, where somebody has looked it up already.
    pub(super) first: Option<Query>,
    /// When it is due.
    pub(super) scheduled: Timestamp,
}

/// How a conversation ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Over {
    /// When.
    pub(super) end: Timestamp,
    /// Whether nobody listens, or nobody could be asked.
    pub(super) is_nobody_there: bool,
}

/// So that the human's time does not repeat the draws of a dataset with the same seed.
const APART: u64 = 0x7468_696e_6b69_6e67;

/// Conversations, and the sender of their turns.
pub(super) struct Conversations {
    pub(super) sender: Sender,
    /// Turns that were settled in earlier sessions, of conversations that are not over.
    pub(super) earlier: BTreeMap<u64, EarlierTurn>,
}

impl Conversations {
    /// Sends the turns that were not dealt with before, until one fails or it is time to stop.
    pub(super) async fn converse(&self, conversation: Conversation) -> Result<Over, RunError> {
        let sender = &self.sender;
        let dispenser = &sender.control.dispenser;
        let Conversation { turns, mut first, scheduled } = conversation;
        let mut over = Over { end: scheduled, is_nobody_there: false };
        let (mut before, mut is_broken, mut is_begun) = (Vec::new(), false, false);
        for index in turns {
            if dispenser.is_done(index) {
                // Said in an earlier session; a turn that failed there breaks the conversation here.
                match self.earlier.get(&index) {
                    Some(said) => before.push(said.clone()),
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
                // What the human says after the time is up is not sent.
                if dispenser.is_over_after(think.into())
                    || sender.control.sleep(think.into()).await
                    || dispenser.is_over()
                {
                    sender.counts.broken_off.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                due = over.end + think;
            }
            is_begun = true;
            let settled = sender.send(Prompt { query: &query, before: &before }, due).await?;
            over.end = settled.end;
            match settled.answer {
                Answer::Said(answer) => before.push(EarlierTurn { problem: query.problem, answer }),
                Answer::Failed(failed) => {
                    over.is_nobody_there = failed == Failed::Unheard;
                    is_broken = true;
                }
                Answer::None => break,
            }
        }
        Ok(over)
    }

    /// How long the human thinks before this turn: as the dataset says, else as the run says.
    fn think(&self, query: &Query) -> Seconds {
        let told = query.turn.and_then(|turn| turn.think_s).filter(|seconds| *seconds >= 0.0);
        Seconds::new(told.unwrap_or_else(|| match self.sender.config.think {
            Think::Never => 0.0,
            Think::Fixed { seconds } => seconds,
            Think::Exponential { mean_s } => {
                let seed = self.sender.config.request.seed ^ APART;
                -mean_s * Random::for_query(seed, query.index).unit().ln()
            }
        }))
    }
}
