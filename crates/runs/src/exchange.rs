//! One request from its schedule to its end: the raw event from which all files of a run are derived.

use ergometer_units::Timestamp;

use ergometer_clients::{Outcome, Transcript};
use ergometer_datasets::Query;

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// The number of the request in the run, from 0, in sending order; a resumed run continues the numbers.
    pub request: u64,
    /// The session in which it was sent, from 0; every resumption starts a session.
    pub session: u32,
    /// The number of the attempt at its query, from 1.
    pub attempt: u32,
    /// The query.
    pub query: Query,
    /// When it was due.
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
    /// What happens to the query after this request. A resumed run does not send a settled query again.
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
    /// The query has its record.
    Settled,
    /// The query is retried.
    Retried,
    /// The request was cancelled; a resumed run sends the query again.
    Open,
}
