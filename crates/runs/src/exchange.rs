//! One request from its schedule to its end: the raw event from which all files are derived.

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
    /// The query.
    pub query: Query,
    /// When it should have been sent.
    pub scheduled: Timestamp,
    /// When it was sent.
    pub sent: Timestamp,
    /// When its stream closed or failed.
    pub end: Timestamp,
    /// The answer and its times.
    pub transcript: Transcript,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether its query is retried.
    pub is_retried: bool,
}

impl Exchange {
    /// What happens to its query. A resumed run does not send a settled query again.
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

/// What happens to a query after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is done.
    Settled,
    /// It is retried.
    Retried,
    /// It was cancelled; a resumed run sends it again.
    Open,
}
