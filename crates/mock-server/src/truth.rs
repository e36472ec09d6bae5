//! The ground truth about requests: when each arrived, when each of its chunks was sent, and its fault.
//!
//! `stats` fills these types. Times are nanoseconds since the Unix epoch, from one monotonic clock.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::fault::Fault;
use crate::summary::Summary;

/// The outcome of a request on the server's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RequestOutcome {
    /// It has not ended.
    InFlight,
    /// It was answered to the end, possibly with a fault in the answer.
    Answered,
    /// The server closed or reset the connection, as a fault.
    Broken,
    /// The client left before the end.
    ClientLeft,
}

/// The record of one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RequestTruth {
    /// The header `x-request-id`, or an id from the server.
    pub id: String,
    /// Its number in order of arrival since the start or the last reset. Its random draws depend on it.
    pub number: u64,
    /// The path.
    pub path: String,
    /// When its headers were read.
    pub received_ns: i64,
    /// When it got a slot.
    pub started_ns: Option<i64>,
    /// When its first token was sent.
    pub first_token_ns: Option<i64>,
    /// When each chunk with content was sent. An answer that is not streamed is one chunk.
    pub sent_ns: Vec<i64>,
    /// When it ended.
    pub end_ns: Option<i64>,
    /// The number of prompt tokens.
    pub prompt_tokens: u64,
    /// The number of tokens sent.
    pub tokens: u64,
    /// The HTTP status, if one was sent.
    pub status: Option<u16>,
    /// The fault, if any.
    pub fault: Option<Fault>,
    /// The outcome.
    pub served: RequestOutcome,
}

/// Totals since the start or the last reset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Totals {
    /// Generation requests.
    pub requests: u64,
    /// Generation requests answered to the end.
    pub answered: u64,
    /// Generation requests whose connection was broken as a fault.
    pub broken: u64,
    /// Generation requests that the client left.
    pub client_left: u64,
    /// Rejected generation requests: invalid body, wrong API key or unknown model.
    pub rejected: u64,
    /// Requests to other endpoints, such as health, models and metrics.
    pub other_requests: u64,
    /// Accepted connections.
    pub connections: u64,
    /// Prompt tokens of requests that got a slot.
    pub prompt_tokens: u64,
    /// Tokens sent.
    pub tokens: u64,
    /// Faults by kind.
    pub faults: BTreeMap<Fault, u64>,
}

/// The statistics of a server.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// The totals.
    pub totals: Totals,
    /// The number of requests that have a slot.
    pub running: usize,
    /// The number of requests waiting for a slot.
    pub waiting: usize,
    /// The number of requests dropped from `requests`, because there were too many.
    pub dropped: u64,
    /// The times of all kept requests.
    pub summary: Summary,
    /// The selected requests, in order of arrival.
    pub requests: Vec<RequestTruth>,
}
