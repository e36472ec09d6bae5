//! Computes latencies, rates, the steady state and the load over time of a run.
//!
//! The first pass over the journal stores one [`Attempt`](attempt::Attempt) for each attempt, which determines the steady
//! state. The second pass, which has chunks and tokens, then decides which part of each exchange is inside the steady state.
//! Each session of a run has its own steady state; their requests, tokens, joules and seconds are added up.

mod attempt;
#[cfg(test)]
mod example;
mod figures;
mod in_flight;
mod over_time;
mod steady;
mod verdict;

use std::collections::BTreeMap;

use ergometer_statistics::Gaps;
use ergometer_units::{Seconds, Timestamp, Window};

use super::session::LoadedSession;
use crate::journal::OrderedRequest;
use attempt::{Attempt, AttemptRole, Ending};
use ergometer_clients::{Outcome, TokenSource, lower_limit};
use ergometer_runs::Exchange;
use ergometer_runs::config::{RunConfig, Schedule};
use in_flight::InFlight;
use over_time::Bins;
use steady::NoSteadyState;

/// A start and an end.
type Span = (Timestamp, Timestamp);

/// Collects the attempts of a session while its journal is read.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    list: Vec<Attempt>,
    /// Each conversation from its first turn sent to the end of its last turn.
    conversations: BTreeMap<u64, Span>,
    /// Queries to be retried, and when they were first due.
    repeated: BTreeMap<u64, Timestamp>,
}

impl Attempts {
    /// Adds the next exchange of the journal.
    pub(super) fn add(&mut self, exchange: &Exchange) {
        let index = exchange.query.index;
        let first = if exchange.is_retried {
            let first = self.repeated.get(&index).copied();
            self.repeated.entry(index).or_insert(exchange.scheduled);
            first
        } else {
            self.repeated.remove(&index)
        };
        self.list.push(Attempt::new(exchange, first));
        if let Some(turn) = exchange.query.turn {
            let span = self.conversations.entry(turn.conversation).or_insert((exchange.sent, exchange.end));
            *span = (span.0.min(exchange.sent), span.1.max(exchange.end));
        }
    }
}

/// The load of one session.
#[derive(Debug)]
struct LoadSession {
    /// The attempts in the order in which they ended, as in the journal.
    attempts: Vec<Attempt>,
    /// All attempts, including those lost when the run was killed.
    in_flight: InFlight,
    /// From the first request sent to the end of the last.
    window: Option<Window>,
    steady: Result<Window, NoSteadyState>,
    /// Requests lost when the run was killed.
    lost: Vec<Span>,
    /// The load over time; `None` if nothing was sent.
    bins: Option<Bins>,
    /// Output tokens that arrived inside the steady state.
    steady_tokens: f64,
    /// Answers that arrived at least partly inside it and have unknown tokens.
    steady_uncounted: u64,
}

/// The load of all sessions.
#[derive(Debug)]
pub(super) struct Load<'a> {
    config: &'a RunConfig,
    sessions: Vec<LoadSession>,
    /// Gaps between the chunks of requests sent inside the steady state, and of the others.
    steady_gaps: Gaps,
    other_gaps: Gaps,
    /// Answers that stopped before a required number of tokens.
    pub(super) short_answers: u64,
}

impl<'a> Load<'a> {
    /// Moves the attempts out of the sessions. `order` marks the records.
    pub(super) fn new(config: &'a RunConfig, loaded: &mut [LoadedSession], order: &[OrderedRequest]) -> Self {
        let sessions = loaded.iter_mut().map(|loaded| {
            let attempts = std::mem::take(&mut loaded.attempts);
            (attempts, loaded.lost().map(|(_, span)| (span.sent, span.end)).collect())
        });
        Self::from_sessions(config, sessions.collect(), order)
    }

    /// Builds the load from the attempts of each session and the spans of its lost requests.
    fn from_sessions(
        config: &'a RunConfig,
        mut sessions: Vec<(Attempts, Vec<Span>)>,
        order: &[OrderedRequest],
    ) -> Self {
        for entry in order.iter().filter(|entry| entry.is_record) {
            sessions[entry.session as usize].0.list[entry.place as usize].role = AttemptRole::Record;
        }
        let sessions = sessions.into_iter().map(|(attempts, lost)| LoadSession::new(config, attempts, lost));
        let mut sessions: Vec<LoadSession> = sessions.collect();
        let lengths: Vec<Seconds> = sessions.iter().filter_map(LoadSession::extent).map(Window::length).collect();
        let width = over_time::width(&lengths);
        for session in &mut sessions {
            session.bins = session.extent().map(|extent| Bins::new(extent.start(), extent.end(), width));
        }
        Self { config, sessions, steady_gaps: Gaps::default(), other_gaps: Gaps::default(), short_answers: 0 }
    }

    /// Adds a record: the exchange at this index of a session, with its tokens counted.
    pub(super) fn record(&mut self, session: usize, place: usize, exchange: &Exchange) {
        let session = &mut self.sessions[session];
        let attempt = &mut session.attempts[place];
        attempt.record(exchange, &self.config.slo);
        let steady = session.steady.ok();
        if attempt.ending == Ending::Completed {
            let is_steady = steady.is_some_and(|window| window.contains(exchange.sent));
            let gaps = if is_steady { &mut self.steady_gaps } else { &mut self.other_gaps };
            attempt::gaps(exchange).for_each(|gap| gaps.push(gap));
            self.short_answers += u64::from(is_short(self.config, exchange));
        }
        if let Some(bins) = &mut session.bins {
            bins.add_tokens(exchange);
        }
        if let Some(share) = steady.map(|window| share_inside(exchange, window)).filter(|&share| share > 0.0) {
            match exchange.transcript.usage {
                Some(usage) => session.steady_tokens += share * usage.output as f64,
                None => session.steady_uncounted += u64::from(exchange.outcome == Outcome::Completed),
            }
        }
    }

    /// The mean number of requests in flight, rounded up.
    pub(super) fn mean_in_flight(&self) -> u32 {
        let parts = self.sessions.iter().filter_map(|session| Some((&session.in_flight, session.window?)));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count of requests; casts saturate"
        )]
        InFlight::over(parts).map_or(1, |summary| summary.mean.ceil() as u32)
    }
}

impl LoadSession {
    fn new(config: &RunConfig, attempts: Attempts, lost: Vec<Span>) -> Self {
        let Attempts { list, conversations, .. } = attempts;
        let span = |attempt: &Attempt| (attempt.sent, attempt.end);
        let in_flight = InFlight::new(list.iter().map(span).chain(lost.iter().copied()));
        let open = (!conversations.is_empty()).then(|| {
            let others = list.iter().filter(|attempt| !attempt.in_conversation).map(span);
            InFlight::new(conversations.into_values().chain(others))
        });
        let times = steady::Session { attempts: &list, requests: &in_flight, conversations: open.as_ref() };
        let steady = steady::window(config, &times).and_then(|window| {
            let is_inside = |attempt: &&Attempt| attempt.is_completed() && window.contains(attempt.sent);
            let found = list.iter().filter(is_inside).count() as u64;
            if found < steady::FEWEST { Err(NoSteadyState::TooFew { found }) } else { Ok(window) }
        });
        let window = in_flight.window();
        Self { attempts: list, in_flight, window, steady, lost, bins: None, steady_tokens: 0.0, steady_uncounted: 0 }
    }

    /// From when the first request was due or sent to the end of the last.
    fn extent(&self) -> Option<Window> {
        let window = self.window?;
        let due = self.attempts.iter().map(|attempt| attempt.scheduled).min();
        Some(Window::between(due.map_or(window.start(), |due| due.min(window.start())), window.end()))
    }
}

/// The share of the chunks of an answer inside a window; an answer without chunks counts at its end.
fn share_inside(exchange: &Exchange, window: Window) -> f64 {
    let chunks = &exchange.transcript.chunks;
    if chunks.is_empty() {
        return f64::from(u8::from(window.contains(exchange.end)));
    }
    chunks.iter().filter(|chunk| window.contains(chunk.at)).count() as f64 / chunks.len() as f64
}

/// Whether an answer has fewer tokens than required. A tokenizer may count fewer tokens in the text than were generated, so
/// only counts of the model or the server are used.
fn is_short(config: &RunConfig, exchange: &Exchange) -> bool {
    let asked = lower_limit(exchange.query.output_tokens, config.request.max_tokens);
    let counted = exchange.transcript.usage.filter(|usage| usage.source < TokenSource::Tokenize);
    let is_to_be_exact = config.request.ignore_eos || matches!(config.schedule, Schedule::Replay { .. });
    is_to_be_exact && asked.zip(counted).is_some_and(|(asked, usage)| usage.output < asked)
}

fn millis(seconds: Seconds) -> f64 {
    seconds.get() * 1e3
}
