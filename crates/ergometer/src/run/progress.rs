//! What a run tells while it goes: what it is doing, and figures that are provisional.

use std::path::Path;
use std::time::Duration;

use ergometer_units::{Joules, Seconds, Watts};

use crate::review::Reviewing;

/// Whoever watches a run. It is called from several threads and must not block.
pub trait Observer: Send + Sync {
    /// Something began or came about.
    fn notice(&self, notice: Notice<'_>);

    /// How far it is, ten times a second.
    fn progress(&self, progress: &Progress);
}

/// What a run does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Notice<'a> {
    /// Requests are sent that do not count.
    Warming(u32),
    /// A request that does not count failed.
    WarmupFailed(&'a str),
    /// The machine is left alone, to measure it at rest.
    Resting(Duration),
    /// The power at rest, provisionally.
    Rested(Watts, Duration),
    /// Requests are sent.
    Sending,
    /// The last request ended.
    Sent,
    /// Nothing is measured any more: tokens are counted, or answers graded.
    Reviewing(Reviewing<'a>),
    /// The files of the run are being derived.
    Closing(&'a Path),
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Progress {
    /// Queries dealt with, those of earlier sessions included.
    pub done: u64,
    /// Of how many; `None` where there is no end.
    pub total: Option<u64>,
    /// Queries dealt with in this session.
    pub done_now: u64,
    /// Failures in this session.
    pub failed: u64,
    /// Attempts in this session that failed and were followed by another.
    pub retried: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// How long requests have been sent in this session.
    pub elapsed: Duration,
    /// Output tokens in this session.
    pub output_tokens: u64,
    /// Energy of each query so far, provisionally.
    pub joules_per_query: Option<Joules>,
    /// Energy of each output token so far, provisionally.
    pub joules_per_token: Option<Joules>,
    /// The power of the last two seconds, provisionally.
    pub power: Option<Watts>,
    /// Time to the first token of the answers so far, to within 1 %.
    pub ttft: Option<Percentiles>,
    /// Time between two chunks of the answers so far, to within 1 %.
    pub itl: Option<Percentiles>,
}

/// Two percentiles.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "their names say it")]
pub struct Percentiles {
    pub p50: Seconds,
    pub p99: Seconds,
}
