//! The truth: when each request came, when each of its chunks was sent, what went wrong on purpose.
//!
//! Types alone; `stats` fills them. All times are nanoseconds since the Unix epoch, by one monotonic clock.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::fault::Fault;
use crate::summary::Summary;

/// How a request went, from the server's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Served {
    /// It is still going on.
    InFlight,
    /// It was answered as the script says; its fault, if any, is part of that.
    Answered,
    /// The connection was closed or reset on purpose.
    Broken,
    /// The client left before the end.
    ClientLeft,
}

/// What the server knows of one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RequestTruth {
    /// The header `x-request-id`, or a name of the server's own.
    pub id: String,
    /// Its place in the order of arrival since the start or the last reset: what its draws depend on.
    pub number: u64,
    /// The path.
    pub path: String,
    /// When its headers had been read.
    pub received_ns: i64,
    /// When it had a slot.
    pub started_ns: Option<i64>,
    /// When its first token had been sent.
    pub first_token_ns: Option<i64>,
    /// When each chunk with content had been sent. An answer in one piece is one chunk.
    pub sent_ns: Vec<i64>,
    /// When it was over.
    pub end_ns: Option<i64>,
    /// The tokens of the prompt.
    pub prompt_tokens: u64,
    /// The tokens that were sent.
    pub tokens: u64,
    /// The status, where one was sent.
    pub status: Option<u16>,
    /// What went wrong on purpose.
    pub fault: Option<Fault>,
    /// How it went.
    pub served: Served,
}

/// What the server did since its start or its last reset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Totals {
    /// Requests for an answer.
    pub requests: u64,
    /// Of those, answered to the end.
    pub answered: u64,
    /// Of those, broken off on purpose.
    pub broken: u64,
    /// Of those, left by the client.
    pub client_left: u64,
    /// Requests for an answer that were none: wrong body, wrong key, unknown model.
    pub rejected: u64,
    /// Other requests: health, models, metrics and the like.
    pub other_requests: u64,
    /// Connections taken.
    pub connections: u64,
    /// Tokens of prompts, of requests that had a slot.
    pub prompt_tokens: u64,
    /// Tokens sent.
    pub tokens: u64,
    /// Faults by kind.
    pub faults: BTreeMap<Fault, u64>,
}

/// A look at all of it.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// What it came to.
    pub totals: Totals,
    /// Requests that have a slot now.
    pub running: usize,
    /// Requests that wait for one.
    pub waiting: usize,
    /// Requests whose truth was let go, because there were too many.
    pub dropped: u64,
    /// What the times of all that are kept come to.
    pub summary: Summary,
    /// Those that are kept and were asked for, in order of arrival.
    pub requests: Vec<RequestTruth>,
}
