//! Finds the steps of a server in the arrival times of all tokens.
//!
//! Tokens that reach the client together were computed in one step. A new step begins after a pause, or when a stream gets
//! its next token. The first token of a stream ends its prompt, every later one is a decode step.

use std::collections::HashSet;

use ergometer_statistics::median;
use ergometer_units::Timestamp;

use super::{Step, StepPart};
use crate::Stream;

/// A pause longer than this part of the usual time between tokens separates two steps.
const PAUSE: f64 = 0.25;

/// The pause is at least this long (the client's own jitter) and at most this long (prefills separate steps as well).
const SHORTEST_PAUSE_NS: f64 = 200_000.0;
const LONGEST_PAUSE_NS: f64 = 5_000_000.0;

/// With more tokens per event than this, events do not show single steps.
const MOST_TOKENS_PER_EVENT: f64 = 1.5;

/// Two events of a stream closer than this arrived together: something between server and client held the first back.
const TOGETHER_NS: i64 = 100_000;

/// If more than this share of the events arrive together with their predecessor, arrivals do not show steps.
const MOST_TOGETHER: f64 = 0.3;

/// One token event of any stream.
struct Event {
    at: Timestamp,
    stream: usize,
    choice: u32,
    /// The number of the event in its choice.
    number: usize,
    /// Whether it is the first of all choices of its stream.
    is_first: bool,
}

pub(super) fn steps(streams: &[Stream]) -> Option<Vec<Step>> {
    let counted: Vec<&Stream> = streams.iter().filter(|stream| stream.output_tokens.is_some()).collect();
    let tokens: f64 = counted.iter().filter_map(|stream| stream.output_tokens).sum();
    let events: usize = counted.iter().map(|stream| stream.arrivals.len()).sum();
    if events == 0 || tokens / events as f64 > MOST_TOKENS_PER_EVENT {
        return None;
    }
    if streams.iter().any(|stream| stream.prompt_tokens.is_none() && !stream.arrivals.is_empty()) {
        return None;
    }
    let gaps = gaps(streams);
    let together = gaps.iter().filter(|&&gap| gap < TOGETHER_NS as f64).count();
    if together as f64 > MOST_TOGETHER * gaps.len() as f64 {
        return None;
    }
    let usual = median(gaps).unwrap_or(LONGEST_PAUSE_NS);
    let pause = (PAUSE * usual).clamp(SHORTEST_PAUSE_NS, LONGEST_PAUSE_NS);
    Some(clusters(events_of(streams), pause, streams))
}

/// The times between neighbouring events of each choice, in nanoseconds.
fn gaps(streams: &[Stream]) -> Vec<f64> {
    let mut gaps = Vec::new();
    for stream in streams {
        let mut last: Vec<(u32, i64)> = Vec::new();
        for arrival in &stream.arrivals {
            let now = arrival.at.nanos_since_epoch();
            match last.iter_mut().find(|(choice, _)| *choice == arrival.choice) {
                Some((_, before)) => gaps.push((now - std::mem::replace(before, now)) as f64),
                None => last.push((arrival.choice, now)),
            }
        }
    }
    gaps
}

fn events_of(streams: &[Stream]) -> Vec<Event> {
    let mut events = Vec::with_capacity(streams.iter().map(|stream| stream.arrivals.len()).sum());
    for (stream, seen) in streams.iter().enumerate() {
        let mut numbers: Vec<(u32, usize)> = Vec::new();
        for (place, arrival) in seen.arrivals.iter().enumerate() {
            let known = numbers.iter_mut().find(|(choice, _)| *choice == arrival.choice);
            let number = known.map_or(0, |(_, number)| {
                *number += 1;
                *number
            });
            if number == 0 {
                numbers.push((arrival.choice, 0));
            }
            events.push(Event { at: arrival.at, stream, choice: arrival.choice, number, is_first: place == 0 });
        }
    }
    events.sort_by_key(|event| (event.at, event.stream, event.number));
    events
}

fn clusters(events: Vec<Event>, pause_ns: f64, streams: &[Stream]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut members: HashSet<(usize, u32)> = HashSet::new();
    let mut last: Option<Timestamp> = None;
    for event in events {
        let at = event.at.nanos_since_epoch();
        let is_new = last.is_none_or(|last| (at - last.nanos_since_epoch()) as f64 > pause_ns);
        if is_new || members.contains(&(event.stream, event.choice)) {
            members.clear();
            steps.push(Step { start: None, end: event.at, count: 1.0, parts: Vec::new() });
        }
        members.insert((event.stream, event.choice));
        last = Some(event.at);
        let stream = &streams[event.stream];
        let per_event = stream.tokens_per_event();
        let request = Some(event.stream);
        let Some(step) = steps.last_mut() else { continue };
        if event.is_first {
            step.parts.push(StepPart::prompt(request, stream.prompt_tokens.unwrap_or(0.0)));
        } else if event.number > 0 {
            let context = stream.context() + event.number as f64 * per_event;
            step.parts.push(StepPart::decode(request, per_event, context));
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use ergometer_runs::cost_model::Term;

    use super::*;
    use crate::{Arrival, Steps};

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
        let works: Vec<_> = steps.steps().iter().map(Step::work).collect();
        let row = |term: Term| works.iter().map(|work| work[term as usize]).collect::<Vec<_>>();
        assert_eq!(row(Term::PromptToken), [150.0, 0.0, 7.0, 0.0, 0.0]);
        assert_eq!(row(Term::Prompt), [2.0, 0.0, 1.0, 0.0, 0.0]);
        assert_eq!(row(Term::Step), [0.0, 1.0, 0.0, 1.0, 1.0]);
        assert_eq!(row(Term::Sequence), [0.0, 2.0, 0.0, 3.0, 2.0]);
        assert_eq!(row(Term::Context), [0.0, 152.0, 0.0, 102.0 + 52.0 + 8.0, 103.0 + 9.0]);
        assert_eq!(row(Term::Padding), [0.0, 50.0, 0.0, 3.0 * 102.0 - 162.0, 2.0 * 103.0 - 112.0]);
        let first = steps.requests()[0];
        assert!((first.work[Term::Step as usize] - (0.5 + 1.0 / 3.0 + 0.5)).abs() < 1e-12);
        assert_eq!((first.steps, first.steps_alone), (3.0, 0.0));
    }

    #[test]
    fn a_stream_that_comes_again_begins_a_step_without_a_pause() {
        let streams = [stream(1.0, &[1000, 1400, 1800, 2200]), stream(1.0, &[1190, 1590, 1990, 2390])];
        let steps = Steps::from_arrivals(&streams).unwrap();
        assert_eq!(steps.steps().len(), 4, "tokens every 0.4 ms, and the second stream half a step later");
        assert!(steps.steps()[1..].iter().all(|step| step.parts.len() == 2));
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
    fn cached_prompt_tokens_are_read_but_not_computed() {
        let mut cached = stream(10.0, &[10_000, 20_000]);
        cached.cached_tokens = 90.0;
        let steps = Steps::from_arrivals(&[cached]).unwrap();
        let work = steps.requests()[0].work;
        assert_eq!((work[Term::PromptToken as usize], work[Term::Context as usize]), (10.0, 101.0));
    }
}
