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
            let digits = before.rfind(|letter: char| !letter.is_ascii_digit()).map_or(0, |place| place + 1);
            before[digits..].parse().ok()
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
    let Some(seen) = arrivals::steps(streams) else { return Err(EngineLogError::NoArrivals) };
    let decoding: Vec<usize> = seen.iter().map(Step::decoding).collect();
    // Steps without a decoding sequence may send no token, so both sides are compared without them.
    let logged: Vec<usize> = (0..iterations.len()).filter(|&place| iterations[place].generation_requests > 0).collect();
    let shown: Vec<usize> = (0..seen.len()).filter(|&place| decoding[place] > 0).collect();
    let is_same = |offset: usize, place: usize| {
        let logged = logged.get(offset + place).map(|&line| iterations[line].generation_requests);
        logged == Some(decoding[shown[place]])
    };
    let matches = |offset: usize| (0..shown.len()).filter(|&place| is_same(offset, place)).count();
    let offsets = 0..=logged.len().saturating_sub(shown.len());
    let best =
        offsets.map(|offset| (matches(offset), offset)).max_by_key(|&(count, offset)| (count, usize::MAX - offset));
    let (matched, offset) = best.unwrap_or((0, 0));
    if (matched as f64) < LEAST_MATCHED * shown.len() as f64 || shown.is_empty() {
        return Err(EngineLogError::NotAligned { matched, of: shown.len() });
    }
    let start = offset.checked_sub(1).map_or(0, |before| logged[before] + 1);
    Ok(place_prompts(seen, &shown, iterations, (&logged[offset..], start)))
}

/// Moves the prompt tokens of the seen steps to the steps in which the log has them.
fn place_prompts(
    mut seen: Vec<Step>,
    shown: &[usize],
    iterations: &[Iteration],
    (logged, mut before): (&[usize], usize),
) -> Vec<Step> {
    let mut waiting: VecDeque<(Option<usize>, f64)> = VecDeque::new();
    for step in &mut seen {
        for part in step.parts.iter_mut().filter(|part| part.prompt_tokens > 0.0) {
            waiting.push_back((part.request, std::mem::take(&mut part.prompt_tokens)));
        }
    }
    for (&place, &line) in shown.iter().zip(logged) {
        let mut tokens: f64 = iterations[before..=line].iter().map(|iteration| iteration.context_tokens).sum();
        before = line + 1;
        while tokens > 0.0 {
            let Some((request, left)) = waiting.front_mut() else { break };
            let taken = left.min(tokens);
            seen[place].parts.push(StepPart { prompts: 0.0, ..StepPart::prompt(*request, taken) });
            (*left, tokens) = (*left - taken, tokens - taken);
            if *left <= 0.0 {
                waiting.pop_front();
            }
        }
    }
    // Prompts that the log does not have keep their tokens, at the end of their prefill.
    for (request, left) in waiting {
        let first =
            seen.iter_mut().find(|step| step.parts.iter().any(|part| part.request == request && part.prompts > 0.0));
        if let Some(step) = first {
            step.parts.push(StepPart { prompts: 0.0, ..StepPart::prompt(request, left) });
        }
    }
    seen
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
        let tokens: Vec<f64> = steps.steps().iter().map(|step| step.work()[Term::PromptToken as usize]).collect();
        assert_eq!(tokens.iter().sum::<f64>(), 950.0);
        assert_eq!(tokens[1..4], [350.0, 300.0, 300.0], "{tokens:?}");
        assert_eq!(steps.requests()[1].work[Term::PromptToken as usize], 900.0);
        let other = EngineLog::read([line(1, (0, 0), 5), line(2, (0, 0), 5)].join("\n").as_bytes()).unwrap();
        assert!(matches!(Steps::from_log(&other, &streams), Err(EngineLogError::NotAligned { .. })));
    }
}
