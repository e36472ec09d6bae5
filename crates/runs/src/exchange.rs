//! One request from its schedule to its end: the raw event everything published is derived from.

use ergometer_units::Timestamp;

use ergometer_clients::{Outcome, Transcript};
use ergometer_datasets::Query;

/// One request, as it happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// Its number in the run, from 0, in the order of sending; a resumed run counts on.
    pub request: u64,
    /// The session of the run it was sent in, from 0; every resumption is a session.
    pub session: u32,
    /// Which attempt at its query, from 1.
    pub attempt: u32,
    /// What was asked.
    pub query: Query,
    /// When it should have been sent.
    pub scheduled: Timestamp,
    /// When it was sent.
    pub sent: Timestamp,
    /// When its stream closed or failed.
    pub end: Timestamp,
    /// What came back.
    pub transcript: Transcript,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether another attempt at its query was to follow.
    pub is_retried: bool,
}

impl Exchange {
    /// What became of its query. One that is settled is not sent again by a resumed run.
    #[must_use]
    pub const fn fate(&self) -> Fate {
        if self.is_retried {
            Fate::Retried
        } else if self.outcome.is_final() {
            Fate::Settled
        } else {
            Fate::Open
        }
    }
}

/// What became of a query with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It has been dealt with.
    Settled,
    /// Another attempt was to follow.
    Retried,
    /// It was given up.
    Open,
}
