//! Finds the steps of a server in the arrival times of all tokens.
//!
//! Tokens that reach the client together were computed in one step. A new step begins after a pause, or when a stream gets
//! its next token. The first token of a stream ends its prompt, every later one is a decode step.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use ergometer_runs::cost_model::{Term, Work};
use ergometer_statistics::median;
use ergometer_units::Timestamp;

use super::{Step, StepPart, StepWork};
use crate::{Arrival, Stream};

/// A pause longer than this part of the usual time between tokens separates two steps.
const PAUSE: f64 = 0.25;

/// The pause is at least this long (the client's own jitter) and at most this long (prefills separate steps as well).
const SHORTEST_PAUSE_NS: f64 = 200_000.0;
const LONGEST_PAUSE_NS: f64 = 5_000_000.0;

/// With more tokens per event than this, the events of a stream do not show single steps.
const MOST_TOKENS_PER_EVENT: f64 = 1.5;

/// If more than this share of the tokens is in such streams, arrivals do not show steps.
const MOST_COARSE: f64 = 0.2;

/// A token of such a stream belongs to the last step before it, unless that began this many usual times between tokens ago.
const NEAR: f64 = 1.5;

/// The same, if the stream has a token in that step already.
const SAME: f64 = 0.9;

/// Two events of a stream closer than this arrived together: something between server and client held the first back.
const TOGETHER_NS: i64 = 100_000;

/// If more than this share of the events arrive together with their predecessor, arrivals do not show steps.
const MOST_TOGETHER: f64 = 0.3;

/// The usual time between tokens is the median of about this many.
const MOST_GAPS: usize = 1 << 20;

/// The steps in order of time; `None` if arrivals do not show them.
pub(super) fn steps(streams: &[Stream]) -> Option<Clusters<'_>> {
    let counted = || streams.iter().filter(|stream| !stream.arrivals.is_empty());
    let tokens = |stream: &Stream| stream.output_tokens.unwrap_or(stream.arrivals.len() as f64);
    let all: f64 = counted().map(tokens).sum();
    let coarse: f64 = counted().filter(|stream| is_coarse(stream)).map(tokens).sum();
    if counted().next().is_none()
        || coarse > MOST_COARSE * all
        || counted().any(|stream| stream.prompt_tokens.is_none())
    {
        return None;
    }
    let gaps = Gaps::new(streams);
    if gaps.together as f64 > MOST_TOGETHER * gaps.count as f64 {
        return None;
    }
    let usual_ns = median(gaps.sample).unwrap_or(LONGEST_PAUSE_NS);
    Some(Clusters::new(streams, usual_ns))
}

/// Whether the events of a stream stand for several tokens each.
fn is_coarse(stream: &Stream) -> bool {
    stream.tokens_per_event() > MOST_TOKENS_PER_EVENT
}

/// The times at which a stream probably got its tokens, one by one, if its events stand for several tokens each.
fn single_tokens(stream: &Stream, usual_ns: f64) -> Vec<Arrival> {
    let per_event = stream.tokens_per_event();
    let (mut found, mut due) = (Vec::new(), 0.0_f64);
    let sent = stream.sent.nanos_since_epoch();
    let mut before: Option<i64> = None;
    for arrival in &stream.arrivals {
        let at = arrival.at.nanos_since_epoch();
        let start = before.unwrap_or_else(|| at.saturating_sub(whole_ns(usual_ns * per_event)).clamp(sent.min(at), at));
        due += per_event;
        let count = due.round();
        due -= count;
        let step = (at - start) as f64 / count.max(1.0);
        let mut left = count;
        while left > 0.5 {
            left -= 1.0;
            let at = Timestamp::from_nanos_since_epoch(at - whole_ns(left * step));
            found.push(Arrival { at, choice: arrival.choice });
        }
        before = Some(at);
    }
    found
}

#[expect(clippy::cast_possible_truncation, reason = "saturates")]
const fn whole_ns(nanos: f64) -> i64 {
    nanos as i64
}

/// The times between neighbouring events of each choice.
#[derive(Default)]
struct Gaps {
    count: usize,
    /// How many are shorter than [`TOGETHER_NS`].
    together: usize,
    /// Evenly spread gaps, in nanoseconds.
    sample: Vec<f64>,
}

impl Gaps {
    fn new(streams: &[Stream]) -> Self {
        let events: usize = streams.iter().map(|stream| stream.arrivals.len()).sum();
        let every = events / MOST_GAPS + 1;
        let mut gaps = Self::default();
        let mut last: Vec<(u32, i64)> = Vec::new();
        for stream in streams {
            last.clear();
            for arrival in &stream.arrivals {
                let now = arrival.at.nanos_since_epoch();
                match last.iter_mut().find(|(choice, _)| *choice == arrival.choice) {
                    Some((_, before)) => gaps.add(now - std::mem::replace(before, now), every),
                    None => last.push((arrival.choice, now)),
                }
            }
        }
        gaps
    }

    fn add(&mut self, gap_ns: i64, every: usize) {
        self.together += usize::from(gap_ns < TOGETHER_NS);
        if self.count.is_multiple_of(every) {
            self.sample.push(gap_ns as f64);
        }
        self.count += 1;
    }
}

/// What was seen of a choice.
struct Choice {
    number: u32,
    /// Its tokens so far.
    tokens: usize,
    /// The number of the step with its last token.
    step: usize,
}

/// A token of a stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Token {
    at: Timestamp,
    stream: usize,
    /// Its index in the stream.
    place: usize,
}

/// Merges the tokens of all streams in order of time, and joins those that arrived together. It needs memory for the
/// streams that are being received, not for all tokens.
pub(super) struct Clusters<'a> {
    streams: &'a [Stream],
    usual_ns: f64,
    /// The tokens of streams whose events stand for several tokens.
    coarse: HashMap<usize, Vec<Arrival>>,
    /// The first tokens of the streams that have not started, the next one last.
    waiting: Vec<Token>,
    /// The next token of each stream that has started.
    next: BinaryHeap<Reverse<Token>>,
    /// The choices of each stream while it is received.
    choices: Vec<Vec<Choice>>,
    last: Option<Timestamp>,
    number: usize,
    step: Option<Step>,
    /// The last first token of any stream: the number of its step, and its time. Then the same of an earlier step.
    first_token: Option<(usize, Timestamp)>,
    earlier: Option<Timestamp>,
    prompts: Vec<StepWork>,
}

impl<'a> Clusters<'a> {
    fn new(streams: &'a [Stream], usual_ns: f64) -> Self {
        let coarse: HashMap<usize, Vec<Arrival>> = streams
            .iter()
            .enumerate()
            .filter(|(_, stream)| !stream.arrivals.is_empty() && is_coarse(stream))
            .map(|(place, stream)| (place, single_tokens(stream, usual_ns)))
            .collect();
        let first = |(stream, seen): (usize, &Stream)| {
            let tokens = coarse.get(&stream).unwrap_or(&seen.arrivals);
            tokens.first().map(|first| Token { at: first.at, stream, place: 0 })
        };
        let mut waiting: Vec<Token> = streams.iter().enumerate().filter_map(first).collect();
        waiting.sort_unstable_by_key(|&token| Reverse(token));
        Self {
            streams,
            usual_ns,
            coarse,
            waiting,
            next: BinaryHeap::new(),
            choices: streams.iter().map(|_| Vec::new()).collect(),
            last: None,
            number: 0,
            step: None,
            first_token: None,
            earlier: None,
            prompts: Vec::new(),
        }
    }

    /// When each prompt may have been computed: after the first token of the stream before it, and before its own.
    pub(super) fn into_prompts(self) -> Vec<StepWork> {
        self.prompts
    }

    fn tokens(&self, stream: usize) -> &[Arrival] {
        self.coarse.get(&stream).unwrap_or(&self.streams[stream].arrivals)
    }

    /// The next token of all streams.
    fn next_token(&mut self) -> Option<Token> {
        let token = match (self.waiting.last(), self.next.peek()) {
            (Some(first), Some(Reverse(known))) if known < first => self.next.pop()?.0,
            (Some(_), _) => self.waiting.pop()?,
            (None, _) => self.next.pop()?.0,
        };
        if let Some(next) = self.tokens(token.stream).get(token.place + 1) {
            self.next.push(Reverse(Token { at: next.at, place: token.place + 1, ..token }));
        }
        Some(token)
    }

    /// Whether a token begins a new step. `is_known` if its choice has a token in the current step.
    fn is_new_step(&self, token: Token, is_known: bool) -> bool {
        let since = |before: Timestamp| (token.at.nanos_since_epoch() - before.nanos_since_epoch()) as f64;
        if self.coarse.contains_key(&token.stream) {
            // Its times are not exact, so it joins the step of other streams if there is one.
            let near = if is_known { SAME } else { NEAR };
            return self.step.as_ref().is_none_or(|step| since(step.end) > near * self.usual_ns);
        }
        let pause_ns = (PAUSE * self.usual_ns).clamp(SHORTEST_PAUSE_NS, LONGEST_PAUSE_NS);
        is_known || self.last.is_none_or(|last| since(last) > pause_ns)
    }

    /// Adds a token. Returns the step before it, if it begins a new one.
    fn add(&mut self, token: Token) -> Option<Step> {
        let Token { at, stream, place } = token;
        let choice = self.tokens(stream)[place].choice;
        let is_last = place + 1 == self.tokens(stream).len();
        let is_coarse = self.coarse.contains_key(&stream);
        let known = self.choices[stream].iter().position(|known| known.number == choice);
        let known = known.unwrap_or_else(|| {
            self.choices[stream].push(Choice { number: choice, tokens: 0, step: usize::MAX });
            self.choices[stream].len() - 1
        });
        let mut before = None;
        if self.is_new_step(token, self.choices[stream][known].step == self.number) {
            self.number += 1;
            before = self.step.replace(Step { start: None, end: at, count: 1.0, parts: Vec::new() });
        }
        if !is_coarse {
            self.last = Some(at);
        }
        let found = &mut self.choices[stream][known];
        let number = found.tokens;
        (found.step, found.tokens) = (self.number, number + 1);
        if is_last {
            self.choices[stream] = Vec::new();
        }
        let seen = &self.streams[stream];
        if place == 0 {
            self.add_prompt(seen, at);
        }
        let parts = self.step.as_mut().map(|step| &mut step.parts)?;
        if place == 0 {
            parts.push(StepPart::prompt(Some(stream), seen.prompt_tokens.unwrap_or(0.0)));
        } else if number > 0 {
            let tokens = if is_coarse { 1.0 } else { seen.tokens_per_event() };
            parts.push(StepPart::decode(Some(stream), tokens, seen.context() + number as f64 * tokens));
        }
        before
    }

    fn add_prompt(&mut self, seen: &Stream, at: Timestamp) {
        if self.first_token.is_none_or(|(number, _)| number != self.number) {
            self.earlier = self.first_token.map(|(_, at)| at);
        }
        self.first_token = Some((self.number, at));
        let start = self.earlier.map_or(seen.sent, |earlier| earlier.max(seen.sent)).min(at);
        let mut work = Work::default();
        work[Term::PromptToken as usize] = seen.prompt_tokens.unwrap_or(0.0);
        work[Term::Prompt as usize] = 1.0;
        self.prompts.push(StepWork { start: Some(start), end: at, work });
    }
}

impl Iterator for Clusters<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        while let Some(token) = self.next_token() {
            if let Some(step) = self.add(token) {
                return Some(step);
            }
        }
        self.step.take()
    }
}

#[cfg(test)]
mod tests {
    use ergometer_runs::cost_model::padded_context;

    use super::*;
    use crate::Steps;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_nanos_since_epoch(micros * 1000)
    }

    fn stream(prompt: f64, arrivals: &[i64]) -> Stream {
        Stream {
            id: None,
            sent: at(0),
            end: at(arrivals.last().copied().unwrap_or(0) + 100),
            prompt_tokens: Some(prompt),
            cached_tokens: 0.0,
            output_tokens: Some(arrivals.len() as f64),
            arrivals: arrivals.iter().map(|&micros| Arrival { at: at(micros), choice: 0 }).collect(),
        }
    }

    #[test]
    fn tokens_that_arrive_together_are_one_step() {
        let streams = [
            stream(100.0, &[10_000, 20_000, 30_000, 40_000]),
            stream(50.0, &[10_300, 20_400, 30_200]),
            stream(7.0, &[25_000, 30_500, 40_200]),
        ];
        let steps = Steps::from_arrivals(&streams).unwrap();
        let works: Vec<_> = steps.steps().iter().map(|step| step.work).collect();
        let row = |term: Term| works.iter().map(|work| work[term as usize]).collect::<Vec<_>>();
        assert_eq!(row(Term::PromptToken), [150.0, 0.0, 7.0, 0.0, 0.0]);
        assert_eq!(row(Term::Prompt), [2.0, 0.0, 1.0, 0.0, 0.0]);
        assert_eq!(row(Term::Step), [0.0, 1.0, 0.0, 1.0, 1.0]);
        assert_eq!(row(Term::Sequence), [0.0, 2.0, 0.0, 3.0, 2.0]);
        assert_eq!(row(Term::Context), [0.0, 152.0, 0.0, 102.0 + 52.0 + 8.0, 103.0 + 9.0]);
        let padded = [(0.0, 0.0), (152.0, 50.0), (0.0, 0.0), (162.0, 144.0), (112.0, 94.0)];
        assert_eq!(row(Term::PaddedContext), padded.map(|(context, padding)| padded_context(context, padding)));
        let first = steps.requests()[0];
        assert!((first.work[Term::Step as usize] - (0.5 + 1.0 / 3.0 + 0.5)).abs() < 1e-12);
        assert_eq!((first.steps, first.steps_alone), (3.0, 0.0));
    }

    #[test]
    fn a_stream_that_comes_again_begins_a_step_without_a_pause() {
        let streams = [stream(1.0, &[1000, 1400, 1800, 2200]), stream(1.0, &[1190, 1590, 1990, 2390])];
        let steps = Steps::from_arrivals(&streams).unwrap();
        assert_eq!(steps.steps().len(), 4, "tokens every 0.4 ms, and the second stream half a step later");
        assert!(steps.steps()[1..].iter().all(|step| step.work[Term::Sequence as usize] == 2.0));
    }

    #[test]
    fn several_choices_are_several_sequences_with_one_prompt() {
        let arrivals = [(10, 0), (10, 1), (20, 0), (20, 1)];
        let mut one = stream(40.0, &[]);
        one.arrivals = arrivals.map(|(ms, choice)| Arrival { at: at(ms * 1000), choice }).to_vec();
        one.output_tokens = Some(4.0);
        let steps = Steps::from_arrivals(&[one]).unwrap();
        let work = steps.requests()[0];
        assert_eq!(work.work[Term::Prompt as usize], 1.0);
        assert_eq!(work.work[Term::Sequence as usize], 2.0);
        assert_eq!((work.work[Term::Step as usize], work.steps, work.steps_alone), (1.0, 1.0, 1.0));
    }

    #[test]
    fn arrivals_in_lumps_or_with_many_tokens_show_no_steps() {
        let lumps: Vec<i64> = (0..40).map(|token| 50_000 + token / 10 * 50_000 + token % 10).collect();
        assert_eq!(Steps::from_arrivals(&[stream(5.0, &lumps)]), None);
        let mut few = stream(5.0, &[10_000, 20_000]);
        few.output_tokens = Some(64.0);
        assert_eq!(Steps::from_arrivals(&[few]), None, "32 tokens in an event");
        let mut unknown = stream(5.0, &[10_000, 20_000]);
        unknown.prompt_tokens = None;
        assert_eq!(Steps::from_arrivals(&[unknown]), None);
        assert_eq!(Steps::from_arrivals(&[]), None);
    }

    #[test]
    fn a_stream_with_all_tokens_in_one_event_takes_part_in_the_steps_before_it() {
        let regular = |start: i64| stream(10.0, &(0..50).map(|token| start + 10_000 * token).collect::<Vec<_>>());
        let mut streams: Vec<Stream> = (0..9).map(|_| regular(10_000)).collect();
        let mut held = stream(10.0, &[505_000]);
        held.output_tokens = Some(40.0);
        streams.push(held);
        let steps = Steps::from_arrivals(&streams).unwrap();
        assert_eq!(steps.steps().len(), 50);
        let work = steps.requests()[9];
        assert_eq!(work.work[Term::Sequence as usize], 39.0);
        assert!((36.0..=40.0).contains(&work.steps), "{work:?}");
        // Without other streams, its tokens are steps of their own.
        let mut lone = stream(10.0, &[5_000_000]);
        lone.output_tokens = Some(20.0);
        streams.push(lone);
        let alone = Steps::from_arrivals(&streams).unwrap().requests()[10];
        assert!((18.0..=20.0).contains(&alone.steps_alone), "{alone:?}");
    }

    #[test]
    fn a_prompt_may_have_been_computed_since_the_first_token_before_it() {
        let streams = [stream(5.0, &[10_000, 20_000, 30_000]), stream(7.0, &[30_000]), stream(8.0, &[30_050, 40_000])];
        let steps = Steps::from_arrivals(&streams).unwrap();
        let times: Vec<_> = steps.prompts().iter().map(|prompt| (prompt.start.unwrap(), prompt.end)).collect();
        assert_eq!(times, [(at(0), at(10_000)), (at(10_000), at(30_000)), (at(10_000), at(30_050))]);
    }

    #[test]
    fn cached_prompt_tokens_are_read_but_not_computed() {
        let mut cached = stream(10.0, &[10_000, 20_000]);
        cached.cached_tokens = 90.0;
        let steps = Steps::from_arrivals(&[cached]).unwrap();
        let work = steps.requests()[0].work;
        assert_eq!((work[Term::PromptToken as usize], work[Term::Context as usize]), (10.0, 101.0));
    }
}
