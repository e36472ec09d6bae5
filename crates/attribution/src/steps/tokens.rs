//! Approximates the steps of a server from token counts, where arrivals do not show them.
//!
//! Time is cut into short slices. The prompt of a request is spread over the time before its first token, its output over
//! the time after it (both over its whole time if the answer does not stream). A slice stands for as many decode steps as
//! the fastest request in it has tokens: in a batch, each sequence gets one token per step.

use ergometer_units::{Seconds, Timestamp};

use super::{Step, StepPart};
use crate::Stream;

/// The length of a slice, unless the session is too long for that.
const SLICE: Seconds = Seconds::new(0.05);

/// The most slices of a session, and the most parts of requests in them.
const MOST_SLICES: f64 = 200_000.0;
const MOST_PARTS: f64 = 4e6;

pub(super) fn steps(streams: &[Stream]) -> Option<Vec<Step>> {
    let worked = streams.iter().filter(|stream| stream.output_tokens.is_some() || !stream.arrivals.is_empty());
    let is_known = worked.clone().all(|stream| stream.prompt_tokens.is_some());
    if worked.clone().next().is_none() || !is_known {
        return None;
    }
    let first = worked.clone().map(|stream| stream.sent).min()?;
    let last = worked.map(|stream| stream.end).max()?;
    let in_flight: f64 = streams.iter().map(|stream| (stream.end - stream.sent).get().max(0.0)).sum();
    let length = Seconds::new(SLICE.get().max((last - first).get() / MOST_SLICES).max(in_flight / MOST_PARTS));
    let count = place((last - first) / length) + 1;
    let mut steps: Vec<Step> = (1..=count)
        .map(|place| first + Seconds::new(place as f64 * length.get()))
        .map(|end| Step { start: None, end, count: 0.0, parts: Vec::new() })
        .collect();
    for (request, stream) in streams.iter().enumerate() {
        spread(&mut steps, request, stream, (first, length));
    }
    Some(steps)
}

/// The slice that a number of slices reaches into.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "neither negative nor above MOST_SLICES")]
fn place(slices: f64) -> usize {
    slices.clamp(0.0, MOST_SLICES) as usize
}

fn spread(steps: &mut [Step], request: usize, stream: &Stream, (first, length): (Timestamp, Seconds)) {
    let Some(output) = stream.output_tokens.or((!stream.arrivals.is_empty()).then_some(stream.arrivals.len() as f64))
    else {
        return;
    };
    let streams = stream.arrivals.len() > 1;
    let middle = stream.arrivals.first().filter(|_| streams).map_or(stream.sent, |arrival| arrival.at);
    let prompt_end = if streams { middle } else { stream.end };
    let decoded = (output - 1.0).max(0.0);
    let place = |at: Timestamp| place((at - first) / length).min(steps.len() - 1);
    let prompt_places = place(stream.sent)..=place(prompt_end);
    let decode_places = place(middle)..=place(stream.end);
    let share = |place: usize, from: Timestamp, to: Timestamp| {
        let start = first + Seconds::new(place as f64 * length.get());
        let overlap = (start + length).min(to) - start.max(from);
        let whole = (to - from).get();
        if whole > 0.0 { (overlap.get() / whole).clamp(0.0, 1.0) } else { 1.0 }
    };
    for place in prompt_places {
        let share = share(place, stream.sent, prompt_end);
        let part = StepPart::prompt(Some(request), stream.prompt_tokens.unwrap_or(0.0) * share);
        steps[place].parts.push(StepPart { prompts: share, ..part });
    }
    let mut done = 0.0;
    for place in decode_places {
        let tokens = decoded * share(place, middle, stream.end);
        if tokens > 0.0 {
            let context = stream.context() + done + tokens / 2.0;
            steps[place].parts.push(StepPart::decode(Some(request), tokens, context));
            steps[place].count = steps[place].count.max(tokens);
            done += tokens;
        }
    }
}

#[cfg(test)]
mod tests {
    use ergometer_runs::cost_model::Term;

    use super::*;
    use crate::Steps;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_nanos_since_epoch(ms * 1_000_000)
    }

    fn stream(sent: i64, end: i64, output: f64) -> Stream {
        Stream {
            id: None,
            sent: at(sent),
            end: at(end),
            prompt_tokens: Some(100.0),
            cached_tokens: 0.0,
            output_tokens: Some(output),
            arrivals: Vec::new(),
        }
    }

    #[test]
    fn all_work_of_answers_without_a_stream_is_spread_over_their_time() {
        let steps = Steps::from_tokens(&[stream(0, 1000, 101.0), stream(500, 1500, 51.0)]).unwrap();
        assert_eq!(steps.steps().len(), 31);
        for (work, decoded) in steps.requests().iter().zip([100.0, 50.0]) {
            assert!((work.work[Term::PromptToken as usize] - 100.0).abs() < 1e-9);
            assert!((work.work[Term::Prompt as usize] - 1.0).abs() < 1e-9);
            assert!((work.work[Term::Sequence as usize] - decoded).abs() < 1e-9);
        }
        let whole: f64 = steps.steps().iter().map(|step| step.work[Term::Step as usize]).sum();
        assert!((whole - (100.0 + 25.0)).abs() < 1e-6, "the faster one sets the number of steps: {whole}");
    }

    #[test]
    fn a_request_of_no_length_keeps_its_work() {
        let steps = Steps::from_tokens(&[stream(5, 5, 3.0)]).unwrap();
        assert_eq!(steps.requests()[0].work[Term::Sequence as usize], 2.0);
        let mut unknown = stream(0, 10, 3.0);
        unknown.prompt_tokens = None;
        assert_eq!(Steps::from_tokens(&[unknown]), None);
    }
}
