//! What a run under load came to: the exchanges of its sessions go in, twice; latencies, rates, the steady state and the
//! course over time come out.
//!
//! The first reading of the journal leaves one [`Passage`](passage::Passage) of each attempt. From these the stretch of
//! the steady state follows, and the second reading, which has the chunks and the tokens, can say at once what falls
//! inside it. A run of several sessions has a steady state in each; their requests, tokens, joules and seconds are put
//! together.

#[cfg(test)]
mod example;
mod figures;
mod in_flight;
mod over_time;
mod passage;
mod steady;
mod verdict;

use std::collections::BTreeMap;

use ergometer_statistics::Gaps;
use ergometer_units::{Seconds, Timestamp, Window};

use super::session::Loaded;
use crate::journal::Ordered;
use ergometer_clients::{Outcome, TokenSource, lower_limit};
use ergometer_runs::Exchange;
use ergometer_runs::config::{RunConfig, Schedule};
use in_flight::InFlight;
use over_time::Bins;
use passage::{Ending, Passage, Standing};
use steady::NoSteadyState;

/// When something began and when it ended.
type Span = (Timestamp, Timestamp);

/// The attempts of a session, as its journal is read.
#[derive(Debug, Default)]
pub(super) struct Passages {
    list: Vec<Passage>,
    /// From the first turn sent to the last one's end.
    conversations: BTreeMap<u64, Span>,
    /// Queries that are to be sent again, and when they were first due.
    repeated: BTreeMap<u64, Timestamp>,
}

impl Passages {
    /// Takes in the next exchange of the journal.
    pub(super) fn take(&mut self, exchange: &Exchange) {
        let index = exchange.query.index;
        let first = if exchange.is_retried {
            let first = self.repeated.get(&index).copied();
            self.repeated.entry(index).or_insert(exchange.scheduled);
            first
        } else {
            self.repeated.remove(&index)
        };
        self.list.push(Passage::new(exchange, first));
        if let Some(turn) = exchange.query.turn {
            let span = self.conversations.entry(turn.conversation).or_insert((exchange.sent, exchange.end));
            *span = (span.0.min(exchange.sent), span.1.max(exchange.end));
        }
    }
}

/// One session.
#[derive(Debug)]
struct LoadSession {
    /// In the order in which they ended, as in the journal.
    passages: Vec<Passage>,
    /// All attempts, those too that were lost with a kill.
    in_flight: InFlight,
    /// From the first request sent to the last one's end.
    window: Option<Window>,
    steady: Result<Window, NoSteadyState>,
    /// Those that were lost with a kill.
    lost: Vec<Span>,
    /// Its course over time; `None` where nothing was sent.
    bins: Option<Bins>,
    /// Output tokens that arrived inside the steady state.
    steady_tokens: f64,
    /// Answers that arrived inside it, in part at least, and were not counted.
    steady_uncounted: u64,
}

/// All sessions.
#[derive(Debug)]
pub(super) struct Load<'a> {
    config: &'a RunConfig,
    sessions: Vec<LoadSession>,
    /// Gaps between chunks: of requests sent inside the steady state, and of the others.
    steady_gaps: Gaps,
    other_gaps: Gaps,
    /// Answers that were to have all the tokens they may have, and had fewer.
    pub(super) short_answers: u64,
}

impl<'a> Load<'a> {
    /// Takes the attempts out of the sessions. `order` says which are records.
    pub(super) fn new(config: &'a RunConfig, loaded: &mut [Loaded], order: &[Ordered]) -> Self {
        let sessions = loaded.iter_mut().map(|loaded| {
            let passages = std::mem::take(&mut loaded.passages);
            (passages, loaded.lost().map(|(_, span)| (span.sent, span.end)).collect())
        });
        Self::of_sessions(config, sessions.collect(), order)
    }

    /// From the attempts of each session, and the spans of requests that were lost with a kill.
    fn of_sessions(config: &'a RunConfig, mut sessions: Vec<(Passages, Vec<Span>)>, order: &[Ordered]) -> Self {
        for entry in order.iter().filter(|entry| entry.is_record) {
            sessions[entry.session as usize].0.list[entry.place as usize].standing = Standing::Record;
        }
        let sessions = sessions.into_iter().map(|(passages, lost)| LoadSession::new(config, passages, lost));
        let mut sessions: Vec<LoadSession> = sessions.collect();
        let lengths: Vec<Seconds> = sessions.iter().filter_map(LoadSession::extent).map(Window::length).collect();
        let width = over_time::width(&lengths);
        for session in &mut sessions {
            session.bins = session.extent().map(|extent| Bins::new(extent.start(), extent.end(), width));
        }
        Self { config, sessions, steady_gaps: Gaps::default(), other_gaps: Gaps::default(), short_answers: 0 }
    }

    /// Takes in a record: the exchange at this place of a session, with its tokens counted.
    pub(super) fn record(&mut self, session: usize, place: usize, exchange: &Exchange) {
        let session = &mut self.sessions[session];
        let passage = &mut session.passages[place];
        passage.record(exchange, &self.config.slo);
        let steady = session.steady.ok();
        if passage.ending == Ending::Completed {
            let is_steady = steady.is_some_and(|window| window.contains(exchange.sent));
            let gaps = if is_steady { &mut self.steady_gaps } else { &mut self.other_gaps };
            passage::gaps(exchange).for_each(|gap| gaps.push(gap));
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

    /// How many were in flight on average, rounded up.
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
    fn new(config: &RunConfig, passages: Passages, lost: Vec<Span>) -> Self {
        let Passages { list, conversations, .. } = passages;
        let span = |passage: &Passage| (passage.sent, passage.end);
        let in_flight = InFlight::new(list.iter().map(span).chain(lost.iter().copied()));
        let open = (!conversations.is_empty()).then(|| {
            let others = list.iter().filter(|passage| !passage.in_conversation).map(span);
            InFlight::new(conversations.into_values().chain(others))
        });
        let shown = steady::Session { passages: &list, requests: &in_flight, conversations: open.as_ref() };
        let steady = steady::window(config, &shown).and_then(|window| {
            let is_inside = |passage: &&Passage| passage.is_completed() && window.contains(passage.sent);
            let found = list.iter().filter(is_inside).count() as u64;
            if found < steady::FEWEST { Err(NoSteadyState::TooFew { found }) } else { Ok(window) }
        });
        let window = in_flight.window();
        Self { passages: list, in_flight, window, steady, lost, bins: None, steady_tokens: 0.0, steady_uncounted: 0 }
    }

    /// From when the first request was due, or sent, to the last one's end.
    fn extent(&self) -> Option<Window> {
        let window = self.window?;
        let due = self.passages.iter().map(|passage| passage.scheduled).min();
        Some(Window::between(due.map_or(window.start(), |due| due.min(window.start())), window.end()))
    }
}

/// The share of an answer that arrived inside a window, by its chunks; one without chunks is there at its end.
fn share_inside(exchange: &Exchange, window: Window) -> f64 {
    let chunks = &exchange.transcript.chunks;
    if chunks.is_empty() {
        return f64::from(u8::from(window.contains(exchange.end)));
    }
    chunks.iter().filter(|chunk| window.contains(chunk.at)).count() as f64 / chunks.len() as f64
}

/// Whether an answer was to have more tokens than it has. A tokenizer that reads the text again may find fewer than there
/// were, so only who made or sent them is believed.
fn is_short(config: &RunConfig, exchange: &Exchange) -> bool {
    let asked = lower_limit(exchange.query.output_tokens, config.request.max_tokens);
    let counted = exchange.transcript.usage.filter(|usage| usage.source < TokenSource::Tokenize);
    let is_to_be_exact = config.request.ignore_eos || matches!(config.schedule, Schedule::Replay { .. });
    is_to_be_exact && asked.zip(counted).is_some_and(|(asked, usage)| usage.output < asked)
}

fn millis(seconds: Seconds) -> f64 {
    seconds.get() * 1e3
}
