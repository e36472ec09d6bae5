//! Aligns vLLM's iteration log with the tokens that arrived.
//!
//! With `--enable-logging-iteration-details`, vLLM logs a line per step: the number of prompts and of prompt tokens in it
//! (context), the number of sequences that decode in it (generation), and how long it took. It names no requests, and its
//! time stamps are often whole seconds. The arrivals say which requests were in a step; the log says when their prompts
//! were computed, which arrivals cannot show if a prompt is computed in several chunks. The two are aligned by the number
//! of sequences in each step.

use std::collections::VecDeque;

use super::arrivals;
use super::engine_log::EngineLogError;
use super::{Step, StepPart};
use crate::Stream;

/// At least this share of the steps must have the same number of sequences in log and arrivals.
const LEAST_MATCHED: f64 = 0.8;

/// The steps of the run at which places in the log are compared first, the share of them that must be the same, and how
/// many places are compared at all steps.
const SAMPLES: usize = 256;
const LEAST_SAMPLED: f64 = 0.6;
const MOST_CANDIDATES: usize = 1000;

/// One line of the log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Iteration {
    context_tokens: f64,
    generation_requests: usize,
}

impl Iteration {
    /// Parses a line of the log; `None` if it is another line.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let rest = &line[line.find("Iteration(")?..];
        let number = |label: &str| -> Option<u32> {
            let before = rest[..rest.find(label)?].trim_end();
            before[before.trim_end_matches(|letter: char| letter.is_ascii_digit()).len()..].parse().ok()
        };
        // A line that was cut off has no elapsed time.
        rest.split("elapsed time:").nth(1)?;
        Some(Self {
            context_tokens: f64::from(number("context tokens")?),
            generation_requests: number("generation requests")? as usize,
        })
    }
}

/// The steps that the arrivals show, with prompts where the log has them.
pub(super) fn align(iterations: &[Iteration], streams: &[Stream]) -> Result<Vec<Step>, EngineLogError> {
    let seen: Vec<Step> = arrivals::steps(streams).ok_or(EngineLogError::NoArrivals)?.collect();
    let decoding: Vec<usize> = seen.iter().map(Step::decoding).collect();
    // Steps without a decoding sequence may send no token, so both sides are compared without them.
    let logged: Vec<usize> = (0..iterations.len()).filter(|&place| iterations[place].generation_requests > 0).collect();
    let shown: Vec<usize> = (0..seen.len()).filter(|&place| decoding[place] > 0).collect();
    let logged_sizes: Vec<usize> = logged.iter().map(|&line| iterations[line].generation_requests).collect();
    let shown_sizes: Vec<usize> = shown.iter().map(|&place| decoding[place]).collect();
    let (matched, offset) = best_offset(&logged_sizes, &shown_sizes);
    if (matched as f64) < LEAST_MATCHED * shown.len() as f64 || shown.is_empty() {
        return Err(EngineLogError::NotAligned { matched, of: shown.len() });
    }
    let start = offset.checked_sub(1).map_or(0, |before| logged[before] + 1);
    Ok(place_prompts(seen, &shown, iterations, (&logged[offset..], start)))
}

/// Where in the log the steps of the run begin, and how many of them have the same number of sequences there.
///
/// A log of a day has millions of steps, so places are first compared at some of the steps of the run.
fn best_offset(logged: &[usize], shown: &[usize]) -> (usize, usize) {
    let every = shown.len() / SAMPLES + 1;
    let sampled: Vec<usize> = (0..shown.len()).step_by(every).collect();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to the number of samples")]
    let most_wrong = ((1.0 - LEAST_SAMPLED) * sampled.len() as f64).ceil() as usize;
    let same = |offset: usize, place: usize| logged.get(offset + place) == Some(&shown[place]);
    let mut candidates: Vec<(usize, usize)> = Vec::new();
    for offset in 0..=logged.len().saturating_sub(shown.len()) {
        let wrong = sampled.iter().filter(|&&place| !same(offset, place)).take(most_wrong + 1).count();
        if wrong <= most_wrong {
            candidates.push((wrong, offset));
        }
    }
    candidates.sort_unstable();
    candidates.truncate(MOST_CANDIDATES);
    let counted = candidates.into_iter().map(|(_, offset)| {
        let matched = (0..shown.len()).filter(|&place| same(offset, place)).count();
        (matched, offset)
    });
    counted.max_by_key(|&(matched, offset)| (matched, usize::MAX - offset)).unwrap_or((0, 0))
}

/// Moves the prompt tokens of the seen steps to the steps in which the log has them.
fn place_prompts(
    mut seen: Vec<Step>,
    shown: &[usize],
    iterations: &[Iteration],
    (logged, mut before): (&[usize], usize),
) -> Vec<Step> {
    let mut waiting: VecDeque<WaitingPrompt> = VecDeque::new();
    for (place, step) in seen.iter_mut().enumerate() {
        for part in step.parts.iter_mut().filter(|part| part.prompt_tokens > 0.0) {
            let left = std::mem::take(&mut part.prompt_tokens);
            waiting.push_back(WaitingPrompt { request: part.request, first_token: place, left });
        }
    }
    for (&place, &line) in shown.iter().zip(logged) {
        let mut tokens: f64 = iterations[before..=line].iter().map(|iteration| iteration.context_tokens).sum();
        before = line + 1;
        while tokens > 0.0 {
            let Some(prompt) = waiting.front_mut() else { break };
            let taken = prompt.left.min(tokens);
            seen[place].parts.push(StepPart { prompts: 0.0, ..StepPart::prompt(prompt.request, taken) });
            (prompt.left, tokens) = (prompt.left - taken, tokens - taken);
            if prompt.left <= 0.0 {
                waiting.pop_front();
            }
        }
        // A prompt is complete when its first token arrives. What the log does not have came from a cache.
        waiting.retain(|prompt| prompt.first_token > place);
    }
    // Prompts that the log does not have keep their tokens, at the end of their prefill.
    for WaitingPrompt { request, first_token, left } in waiting {
        seen[first_token].parts.push(StepPart { prompts: 0.0, ..StepPart::prompt(request, left) });
    }
    seen
}

/// A prompt that is not yet complete.
struct WaitingPrompt {
    request: Option<usize>,
    /// The step in which its first token arrived.
    first_token: usize,
    /// Its tokens that are not yet placed.
    left: f64,
}

#[cfg(test)]
mod tests {
    use ergometer_runs::cost_model::Term;
    use ergometer_units::Timestamp;

    use super::*;
    use crate::{Arrival, EngineLog, Steps};

    fn line(number: usize, context: (usize, usize), generation: usize) -> String {
        format!(
            "INFO 08-05 10:00:01 [core.py:300] Iteration({number}): {} context requests, {} context tokens, {generation} \
             generation requests, {generation} generation tokens, iteration elapsed time: 10.99 ms",
            context.0, context.1
        )
    }

    #[test]
    fn a_line_of_the_log_is_parsed() {
        let found = Iteration::parse(&line(515, (1, 300), 20)).unwrap();
        assert_eq!((found.context_tokens, found.generation_requests), (300.0, 20));
        assert_eq!(Iteration::parse("INFO: GET /health"), None);
        assert_eq!(Iteration::parse("Iteration(3): nothing"), None);
    }

    #[test]
    fn a_damaged_line_is_no_step() {
        let line = b"INFO Iteration(515): 1 context requests,\xff300 context tokens, 20 generation requests, elapsed time: 1 ms";
        let found = Iteration::parse(&String::from_utf8_lossy(line)).unwrap();
        assert_eq!(found.context_tokens, 300.0);
        assert_eq!(Iteration::parse("Iteration(1): \u{fffd} context tokens, elapsed time: 1 ms"), None);
    }

    #[test]
    fn a_run_is_found_in_a_long_log() {
        let mut rng = fastrand::Rng::with_seed(5);
        let logged: Vec<usize> = (0..200_000).map(|_| rng.usize(1..40)).collect();
        let shown: Vec<usize> =
            logged[123_456..133_456].iter().map(|&size| if rng.usize(..20) == 0 { size + 1 } else { size }).collect();
        let (matched, offset) = best_offset(&logged, &shown);
        assert_eq!(offset, 123_456);
        assert!((9_300..9_700).contains(&matched), "{matched}");
        assert_eq!(best_offset(&vec![1; 100_000], &vec![1; 5_000]), (5_000, 0));
        assert_eq!(best_offset(&[], &[3]).0, 0);
    }

    #[test]
    fn a_chunked_prompt_is_charged_where_it_was_computed() {
        let at = |ms: i64| Timestamp::from_nanos_since_epoch(ms * 1_000_000);
        let stream = |prompt: f64, times: &[i64]| Stream {
            id: None,
            sent: at(0),
            end: at(*times.last().unwrap()),
            prompt_tokens: Some(prompt),
            cached_tokens: 0.0,
            output_tokens: Some(times.len() as f64),
            arrivals: times.iter().map(|&ms| Arrival { at: at(ms), choice: 0 }).collect(),
        };
        // The second prompt of 900 tokens is computed in three chunks, beside steps of the first request.
        let streams = [stream(50.0, &[10, 20, 30, 40, 50, 60]), stream(900.0, &[40, 50, 60])];
        let log = [
            line(0, (0, 0), 9),
            line(1, (1, 50), 0),
            line(2, (1, 300), 1),
            line(3, (1, 300), 1),
            line(4, (1, 300), 1),
            line(5, (0, 0), 2),
            line(6, (0, 0), 2),
            line(7, (0, 0), 9),
        ];
        let log = EngineLog::read(log.join("\n").as_bytes()).unwrap();
        let steps = Steps::from_log(&log, &streams).unwrap();
        let tokens: Vec<f64> = steps.steps().iter().map(|step| step.work[Term::PromptToken as usize]).collect();
        assert_eq!(tokens.iter().sum::<f64>(), 950.0);
        assert_eq!(tokens[1..4], [350.0, 300.0, 300.0], "{tokens:?}");
        assert_eq!(steps.requests()[1].work[Term::PromptToken as usize], 900.0);
        // A prompt of which the log has less was in a cache.
        let cached = [
            line(1, (1, 50), 0),
            line(2, (0, 0), 1),
            line(3, (0, 0), 1),
            line(4, (1, 20), 1),
            line(5, (0, 0), 2),
            line(6, (0, 0), 2),
        ];
        let cached = EngineLog::read(cached.join("\n").as_bytes()).unwrap();
        let requests = Steps::from_log(&cached, &streams).unwrap().requests().to_vec();
        assert_eq!([0, 1].map(|place: usize| requests[place].work[Term::PromptToken as usize]), [50.0, 20.0]);
        let other = EngineLog::read([line(1, (0, 0), 5), line(2, (0, 0), 5)].join("\n").as_bytes()).unwrap();
        assert!(matches!(Steps::from_log(&other, &streams), Err(EngineLogError::NotAligned { .. })));
    }
}
