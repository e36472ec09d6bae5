//! Reads the log of a server's engine: which requests it prefilled and decoded in each step.
//!
//! Two formats are read, line by line; other lines are skipped:
//! - JSON Lines: `{"kind": "prefill", "start_ns", "end_ns", "request", "tokens"}` and
//!   `{"kind": "decode", "start_ns", "end_ns", "requests": […], "context": […]}`;
//! - vLLM's iteration details (see [`iterations`](super::iterations)).
//!
//! Requests are found by the id that was sent with them. A log without these ids is matched by order: servers prefill
//! requests of one length in the order in which they were sent.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, BufRead};

use ergometer_units::{Seconds, Timestamp};
use serde::Deserialize;
use thiserror::Error;

use super::iterations::{Iteration, align};
use super::{Step, StepPart};
use crate::Stream;

/// The longest line that is read. A step of 4,096 sequences takes about 100 kB.
const LONGEST_LINE: u64 = 16 << 20;

/// The clocks of server and client differ by less than this on one machine.
const CLOCKS: Seconds = Seconds::new(0.001);

/// At least this share of the tokens that were received must be in the log.
const LEAST_TOKENS: f64 = 0.98;

/// The steps of an engine.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EngineLog {
    lines: Vec<LogLine>,
    iterations: Vec<Iteration>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum LogLine {
    Prefill { start_ns: i64, end_ns: i64, request: String, tokens: f64 },
    Decode { start_ns: i64, end_ns: i64, requests: Vec<String>, context: Vec<f64> },
}

/// No context has more tokens.
const MOST_TOKENS: f64 = 1e12;

impl LogLine {
    /// Parses a line; `None` if it is no step, or an impossible one.
    fn parse(line: &[u8]) -> Option<Self> {
        let step: Self = serde_json::from_slice(line).ok()?;
        let is_count = |tokens: &f64| (0.0..=MOST_TOKENS).contains(tokens);
        let is_possible = match &step {
            Self::Prefill { tokens, .. } => is_count(tokens),
            Self::Decode { context, .. } => context.iter().all(is_count),
        };
        (is_possible && step.start_ns() <= step.end_ns()).then_some(step)
    }

    const fn start_ns(&self) -> i64 {
        match self {
            Self::Prefill { start_ns, .. } | Self::Decode { start_ns, .. } => *start_ns,
        }
    }

    const fn end_ns(&self) -> i64 {
        match self {
            Self::Prefill { end_ns, .. } | Self::Decode { end_ns, .. } => *end_ns,
        }
    }
}

/// Why an engine log cannot be used.
#[derive(Debug, Error)]
pub enum EngineLogError {
    /// The file cannot be read.
    #[error("cannot read the engine log: {0}")]
    Io(#[from] io::Error),
    /// No line is a step.
    #[error("the engine log contains no steps")]
    NoSteps,
    /// The log is of other requests.
    #[error("the engine log has only {found} of the {of} requests of this run")]
    OtherRequests {
        /// The requests that were found.
        found: usize,
        /// The requests of the run that received tokens.
        of: usize,
    },
    /// Steps of the run are missing.
    #[error(
        "the engine log has only {found} of the {of} tokens that this run received, not counting the \
             first of each answer"
    )]
    MissingTokens {
        /// The decoded tokens in the log.
        found: usize,
        /// The tokens that were received after the first of each answer.
        of: usize,
    },
    /// The steps of vLLM's log cannot be aligned with the tokens that arrived.
    #[error("only {matched} of the {of} steps found from token arrival times match the engine log")]
    NotAligned {
        /// The steps with the same number of sequences.
        matched: usize,
        /// The steps in which tokens arrived.
        of: usize,
    },
    /// vLLM's log does not say which requests are in a step, so the arrivals have to.
    #[error("the engine log has no request ids, and token arrival times do not show which requests were in a step")]
    NoArrivals,
}

impl EngineLog {
    /// Reads a log. Lines that are no steps are skipped.
    ///
    /// ```
    /// use ergometer_attribution::EngineLog;
    ///
    /// let line = r#"{"kind": "prefill", "start_ns": 1, "end_ns": 5, "request": "r1", "tokens": 64}"#;
    /// assert_eq!(EngineLog::read(line.as_bytes())?.len(), 1);
    /// # Ok::<_, ergometer_attribution::EngineLogError>(())
    /// ```
    pub fn read(mut reader: impl BufRead) -> Result<Self, EngineLogError> {
        let mut log = Self::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = io::Read::take(&mut reader, LONGEST_LINE).read_until(b'\n', &mut line)?;
            if length == 0 {
                break;
            }
            if line.first() == Some(&b'{') {
                log.lines.extend(LogLine::parse(&line));
            } else {
                log.iterations.extend(Iteration::parse(&String::from_utf8_lossy(&line)));
            }
        }
        if log.is_empty() { Err(EngineLogError::NoSteps) } else { Ok(log) }
    }

    /// The lines of a log that belong to a run: steps between two times, and all lines without a precise time.
    pub fn excerpt(mut reader: impl BufRead, first: Timestamp, last: Timestamp) -> Result<Vec<u8>, EngineLogError> {
        let (first, last) = ((first - CLOCKS).nanos_since_epoch(), (last + CLOCKS).nanos_since_epoch());
        let (mut kept, mut line) = (Vec::new(), Vec::new());
        loop {
            line.clear();
            if io::Read::take(&mut reader, LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let is_kept = if line.first() == Some(&b'{') {
                LogLine::parse(&line).is_some_and(|step| step.start_ns() >= first && step.end_ns() <= last)
            } else {
                Iteration::parse(&String::from_utf8_lossy(&line)).is_some()
            };
            if is_kept {
                kept.extend_from_slice(&line);
            }
        }
        if kept.is_empty() { Err(EngineLogError::NoSteps) } else { Ok(kept) }
    }

    /// The number of steps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len() + self.iterations.len()
    }

    /// Whether it has no step.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn steps(&self, streams: &[Stream]) -> Result<Vec<Step>, EngineLogError> {
        if self.lines.is_empty() {
            return align(&self.iterations, streams);
        }
        let first = streams.iter().map(|stream| stream.sent).min();
        let last = streams.iter().map(|stream| stream.end).max();
        let Some((first, last)) = first.zip(last) else { return Err(EngineLogError::NoSteps) };
        let (first, last) = ((first - CLOCKS).nanos_since_epoch(), (last + CLOCKS).nanos_since_epoch());
        let within = self.lines.iter().filter(|line| line.start_ns() >= first && line.end_ns() <= last);
        let lines: Vec<&LogLine> = within.collect();
        let places = places(&lines, streams);
        // A request that is not in the log would get no energy, and its energy would go to others.
        let wanted = streams.iter().filter(|stream| !stream.arrivals.is_empty()).count();
        let found: HashSet<usize> =
            places.values().copied().filter(|&place| !streams[place].arrivals.is_empty()).collect();
        if found.len() < wanted || places.is_empty() {
            return Err(EngineLogError::OtherRequests { found: found.len(), of: wanted });
        }
        let mut prefills = Prefills::new(&lines, &places, streams);
        let mut tokens = 0;
        let mut step = |line: &LogLine| {
            let parts = match line {
                LogLine::Prefill { request, tokens, .. } => vec![prefills.part(request, *tokens)],
                LogLine::Decode { requests, context, .. } => {
                    let context = context.iter().copied().chain(std::iter::repeat(0.0));
                    let parts: Vec<StepPart> = requests
                        .iter()
                        .zip(context)
                        .map(|(id, context)| StepPart::decode(places.get(id.as_str()).copied(), 1.0, context))
                        .collect();
                    tokens += parts.iter().filter(|part| part.request.is_some()).count();
                    parts
                }
            };
            let [start, end] = [line.start_ns(), line.end_ns()].map(Timestamp::from_nanos_since_epoch);
            Step { start: Some(start), end, count: 1.0, parts }
        };
        let steps: Vec<Step> = lines.iter().map(|line| step(line)).collect();
        let received: usize = streams.iter().map(Stream::tokens_after_first).sum();
        if (tokens as f64) < LEAST_TOKENS * received as f64 {
            return Err(EngineLogError::MissingTokens { found: tokens, of: received });
        }
        Ok(steps)
    }
}

/// The prefills of a log. A long prompt has several lines: the engine computes it in chunks.
struct Prefills<'a> {
    places: &'a HashMap<&'a str, usize>,
    /// The lines of each request that are left.
    lines: HashMap<&'a str, usize>,
    /// The tokens of each request that are left. The client knows which tokens came from a cache.
    tokens: Vec<Option<f64>>,
}

impl<'a> Prefills<'a> {
    fn new(lines: &[&'a LogLine], places: &'a HashMap<&'a str, usize>, streams: &[Stream]) -> Self {
        let mut left = HashMap::new();
        for (id, _) in prefills(lines) {
            *left.entry(id).or_default() += 1;
        }
        Self { places, lines: left, tokens: streams.iter().map(|stream| stream.prompt_tokens).collect() }
    }

    fn part(&mut self, id: &str, tokens: f64) -> StepPart {
        let place = self.places.get(id).copied();
        let left = self.lines.get_mut(id).map_or(0, |left| {
            *left -= 1;
            *left
        });
        let mut computed = tokens;
        if let Some(known) = place.and_then(|place| self.tokens[place].as_mut()) {
            computed = tokens.min(*known);
            *known -= computed;
        }
        StepPart { prompts: f64::from(u8::from(left == 0)), ..StepPart::prompt(place, computed) }
    }
}

/// The request id and the tokens of each prefill line.
fn prefills<'a>(lines: &[&'a LogLine]) -> impl Iterator<Item = (&'a str, f64)> {
    lines.iter().filter_map(|line| match line {
        LogLine::Prefill { request, tokens, .. } => Some((request.as_str(), *tokens)),
        LogLine::Decode { .. } => None,
    })
}

/// The request of each id in the log: by the id that was sent, or by order among prompts of one length.
fn places<'a>(lines: &[&'a LogLine], streams: &[Stream]) -> HashMap<&'a str, usize> {
    let sent: HashMap<&str, usize> =
        streams.iter().enumerate().filter_map(|(place, stream)| Some((stream.id.as_deref()?, place))).collect();
    let by_id: HashMap<&str, usize> =
        prefills(lines).filter_map(|(id, _)| sent.get(id).map(|&place| (id, place))).collect();
    if !by_id.is_empty() {
        return by_id;
    }
    // The prompt of each request, in the order of its first line.
    let mut prompts: Vec<(&str, f64)> = Vec::new();
    let mut known: HashMap<&str, usize> = HashMap::new();
    for (id, tokens) in prefills(lines) {
        let place = *known.entry(id).or_insert_with(|| {
            prompts.push((id, 0.0));
            prompts.len() - 1
        });
        prompts[place].1 += tokens;
    }
    let mut order: Vec<usize> = (0..streams.len()).filter(|&place| !streams[place].arrivals.is_empty()).collect();
    order.sort_by_key(|&place| streams[place].sent);
    // Token counts are whole numbers, so equal counts have equal bits.
    let mut by_length: HashMap<u64, VecDeque<usize>> = HashMap::new();
    for place in order {
        by_length.entry(streams[place].context().to_bits()).or_default().push_back(place);
    }
    let matched = prompts.into_iter().filter_map(|(id, tokens)| {
        let place = by_length.get_mut(&tokens.to_bits())?.pop_front()?;
        Some((id, place))
    });
    matched.collect()
}

#[cfg(test)]
mod tests {
    use ergometer_runs::cost_model::{Evidence, Term};

    use super::*;
    use crate::{Arrival, Steps};

    fn stream(id: Option<&str>, sent_ms: i64, prompt: f64) -> Stream {
        let at = |ms: i64| Timestamp::from_nanos_since_epoch(ms * 1_000_000);
        Stream {
            id: id.map(ToOwned::to_owned),
            sent: at(sent_ms),
            end: at(100),
            prompt_tokens: Some(prompt),
            cached_tokens: 0.0,
            output_tokens: Some(2.0),
            arrivals: vec![Arrival { at: at(60), choice: 0 }, Arrival { at: at(70), choice: 0 }],
        }
    }

    fn log(ids: [&str; 2]) -> EngineLog {
        let [one, two] = ids;
        let text = format!(
            "starting\n{{\"kind\": \"prefill\", \"start_ns\": 2000000, \"end_ns\": 9000000, \"request\": \"{one}\", \"tokens\": 64}}\n\
             {{\"kind\": \"prefill\", \"start_ns\": 9000000, \"end_ns\": 19000000, \"request\": \"{two}\", \"tokens\": 64}}\n\
             {{\"kind\": \"decode\", \"start_ns\": 20000000, \"end_ns\": 30000000, \"requests\": [\"{one}\", \"{two}\"], \"context\": [64, 65]}}\n\
             {{\"kind\": \"decode\", \"start_ns\": 5, \"requests\": []}}\n{{broken\n"
        );
        EngineLog::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn requests_are_found_by_id_or_by_order() {
        for (ids, sent) in [(["a", "b"], [Some("b"), Some("a")]), (["r1", "r2"], [None, None])] {
            let streams = [stream(sent[0], 0, 64.0), stream(sent[1], 1, 64.0)];
            let steps = Steps::from_log(&log(ids), &streams).unwrap();
            assert_eq!((steps.evidence(), steps.steps().len()), (Evidence::StepLog, 3));
            let expected = if sent[0].is_some() { [65.0, 64.0] } else { [64.0, 65.0] };
            let contexts = [0, 1].map(|place| steps.requests()[place].work[Term::Context as usize]);
            assert_eq!(contexts, expected, "{ids:?}");
        }
    }

    #[test]
    fn a_log_of_other_requests_is_an_error() {
        let streams = [stream(None, 0, 64.0), stream(None, 1, 99.0), stream(None, 1, 98.0)];
        let error = Steps::from_log(&log(["x", "y"]), &streams).unwrap_err().to_string();
        assert_eq!(error, "the engine log has only 1 of the 3 requests of this run");
        assert!(matches!(EngineLog::read(&b"no steps\n"[..]), Err(EngineLogError::NoSteps)));
    }

    #[test]
    fn a_prompt_in_chunks_is_one_prompt_with_the_tokens_that_were_not_cached() {
        let chunk = |number: i64, tokens: u32| {
            format!(
                "{{\"kind\": \"prefill\", \"start_ns\": {}, \"end_ns\": {}, \"request\": \"a\", \"tokens\": {tokens}}}\n",
                number * 5_000_000 + 2_000_000,
                number * 5_000_000 + 6_000_000
            )
        };
        let decode = "{\"kind\": \"decode\", \"start_ns\": 60000000, \"end_ns\": 69000000, \"requests\": [\"a\"], \"context\": [8000]}\n";
        let text = [chunk(0, 2048), chunk(1, 2048), chunk(2, 2048), chunk(3, 1856), decode.to_owned()].concat();
        let log = EngineLog::read(text.as_bytes()).unwrap();
        for id in [Some("a"), None] {
            let mut long = stream(id, 0, 2000.0);
            long.cached_tokens = 6000.0;
            let steps = Steps::from_log(&log, &[long]).unwrap();
            let work = steps.requests()[0].work;
            assert_eq!((work[Term::PromptToken as usize], work[Term::Prompt as usize]), (2000.0, 1.0), "{id:?}");
        }
    }

    #[test]
    fn work_for_other_clients_is_kept_apart() {
        let steps = Steps::from_log(&log(["a", "b"]), &[stream(Some("a"), 0, 64.0)]).unwrap();
        assert_eq!(steps.others().work[Term::PromptToken as usize], 64.0);
        assert_eq!(
            (steps.others().work[Term::Step as usize], steps.others().work[Term::Sequence as usize]),
            (0.5, 1.0)
        );
    }

    #[test]
    fn impossible_steps_are_skipped() {
        for line in [
            r#"{"kind": "prefill", "start_ns": 5, "end_ns": 1, "request": "r1", "tokens": 64}"#,
            r#"{"kind": "prefill", "start_ns": 1, "end_ns": 5, "request": "r1", "tokens": -64}"#,
            r#"{"kind": "decode", "start_ns": 1, "end_ns": 5, "requests": ["r1"], "context": [1e308]}"#,
        ] {
            assert!(matches!(EngineLog::read(line.as_bytes()), Err(EngineLogError::NoSteps)), "{line}");
        }
    }

    #[test]
    fn a_log_that_lacks_steps_is_an_error() {
        let mut long = stream(Some("a"), 0, 64.0);
        long.arrivals = (0..20)
            .map(|token| Arrival { at: long.sent + Seconds::new(0.001 * f64::from(token)), choice: 0 })
            .collect();
        let error = Steps::from_log(&log(["a", "b"]), &[long]).unwrap_err().to_string();
        assert_eq!(
            error,
            "the engine log has only 1 of the 19 tokens that this run received, not counting the first of each answer"
        );
    }

    #[test]
    fn cached_tokens_are_not_charged() {
        let mut cached = stream(Some("a"), 0, 10.0);
        cached.cached_tokens = 54.0;
        let steps = Steps::from_log(&log(["a", "b"]), &[cached, stream(Some("b"), 1, 64.0)]).unwrap();
        assert_eq!(steps.requests()[0].work[Term::PromptToken as usize], 10.0);
    }
}
