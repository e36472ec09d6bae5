//! The steps of a batching server: which requests took part in each, and with how much work.

mod arrivals;
mod engine_log;
mod iterations;
mod tokens;

use ergometer_runs::cost_model::{Evidence, Term, Work, padded_context};
use ergometer_units::Timestamp;

use crate::Stream;
pub use engine_log::{EngineLog, EngineLogError};

/// The part of a sequence in a step. A request with several choices has several parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StepPart {
    /// The index of the request; `None` for one of another client.
    pub(crate) request: Option<usize>,
    /// The prompt tokens computed for it.
    pub(crate) prompt_tokens: f64,
    /// 1 in the step that ends its prompt, else 0.
    pub(crate) prompts: f64,
    /// The tokens decoded for it.
    pub(crate) tokens: f64,
    /// The context that decoding them read.
    pub(crate) context: f64,
}

impl StepPart {
    const fn prompt(request: Option<usize>, prompt_tokens: f64) -> Self {
        Self { request, prompt_tokens, prompts: 1.0, tokens: 0.0, context: 0.0 }
    }

    fn decode(request: Option<usize>, tokens: f64, context: f64) -> Self {
        Self { request, prompt_tokens: 0.0, prompts: 0.0, tokens, context: tokens * context }
    }
}

/// One step of the server with its participants, or a slice of time that stands for several steps.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    /// When it started, if an engine log says so.
    pub(crate) start: Option<Timestamp>,
    /// When it ended.
    pub(crate) end: Timestamp,
    /// The number of decode steps it stands for, if anything was decoded.
    pub(crate) count: f64,
    /// Who took part.
    pub(crate) parts: Vec<StepPart>,
}

impl Step {
    /// Its work.
    pub(crate) fn work(&self) -> Work {
        let mut work = Work::default();
        let mut longest = 0.0_f64;
        for part in &self.parts {
            work[Term::PromptToken as usize] += part.prompt_tokens;
            work[Term::Prompt as usize] += part.prompts;
            work[Term::Sequence as usize] += part.tokens;
            work[Term::Context as usize] += part.context;
            if part.tokens > 0.0 {
                longest = longest.max(part.context / part.tokens);
            }
        }
        let sequences = work[Term::Sequence as usize];
        if sequences > 0.0 {
            work[Term::Step as usize] = self.count;
            let context = work[Term::Context as usize];
            work[Term::PaddedContext as usize] = padded_context(context, longest * sequences - context);
        }
        work
    }

    /// The parts that decode.
    fn decoding(&self) -> usize {
        self.parts.iter().filter(|part| part.tokens > 0.0).count()
    }
}

/// The work of one step, without its participants: a run has many more of these than of steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepWork {
    /// When it started, if an engine log says so.
    pub start: Option<Timestamp>,
    /// When it ended.
    pub end: Timestamp,
    /// Its work.
    pub work: Work,
}

/// The work that one request is charged for.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RequestWork {
    /// Its own work, and its equal part of each decode step. Padding is not charged.
    pub work: Work,
    /// The decode steps it took part in.
    pub steps: f64,
    /// The decode steps in which nobody else took part.
    pub steps_alone: f64,
}

impl RequestWork {
    /// A part of the work.
    #[must_use]
    pub fn scaled(self, part: f64) -> Self {
        Self {
            work: self.work.map(|amount| amount * part),
            steps: self.steps * part,
            steps_alone: self.steps_alone * part,
        }
    }
}

/// The steps of a session, in order of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps {
    evidence: Evidence,
    list: Vec<StepWork>,
    requests: Vec<RequestWork>,
    others: RequestWork,
    prompts: Vec<StepWork>,
}

impl Steps {
    /// From the arrival times of all tokens; `None` if they cannot show steps: answers that do not stream, several tokens
    /// in an event, or events that arrive in lumps.
    #[must_use]
    pub fn from_arrivals(streams: &[Stream]) -> Option<Self> {
        let mut clusters = arrivals::steps(streams)?;
        let steps = Self::new(Evidence::Arrivals, &mut clusters, streams.len());
        Some(Self { prompts: clusters.into_prompts(), ..steps })
    }

    /// From token counts and the times of requests; `None` without token counts.
    #[must_use]
    pub fn from_tokens(streams: &[Stream]) -> Option<Self> {
        tokens::steps(streams).map(|steps| Self::new(Evidence::Tokens, steps, streams.len()))
    }

    /// From an engine log; an error says why the log does not fit the requests.
    pub fn from_log(log: &EngineLog, streams: &[Stream]) -> Result<Self, EngineLogError> {
        log.steps(streams).map(|steps| Self::new(Evidence::StepLog, steps, streams.len()))
    }

    fn new(evidence: Evidence, steps: impl IntoIterator<Item = Step>, requests: usize) -> Self {
        let mut works = vec![RequestWork::default(); requests];
        let mut others = RequestWork::default();
        let mut decoding: Vec<Option<usize>> = Vec::new();
        let charge = |step: Step| {
            charge(&step, (&mut works, &mut others), &mut decoding);
            StepWork { start: step.start, end: step.end, work: step.work() }
        };
        let mut list: Vec<StepWork> = steps.into_iter().map(charge).collect();
        list.sort_by_key(|step| step.end);
        Self { evidence, list, requests: works, others, prompts: Vec::new() }
    }

    /// What the steps come from.
    #[must_use]
    pub const fn evidence(&self) -> Evidence {
        self.evidence
    }

    /// The work of each step.
    #[must_use]
    pub fn steps(&self) -> &[StepWork] {
        &self.list
    }

    /// The work of each request.
    #[must_use]
    pub fn requests(&self) -> &[RequestWork] {
        &self.requests
    }

    /// The work for other clients of the server, which only an engine log shows.
    #[must_use]
    pub const fn others(&self) -> RequestWork {
        self.others
    }

    /// When each prompt may have been computed, with its work. Empty if the steps say when.
    pub(crate) fn prompts(&self) -> &[StepWork] {
        &self.prompts
    }
}

/// Charges a step to the requests that took part in it, and to others. `decoding` is a buffer.
fn charge(step: &Step, (works, others): (&mut [RequestWork], &mut RequestWork), decoding: &mut Vec<Option<usize>>) {
    decoding.clear();
    decoding.extend(step.parts.iter().filter(|part| part.tokens > 0.0).map(|part| part.request));
    decoding.sort_unstable();
    let is_alone = decoding.first() == decoding.last();
    for part in &step.parts {
        let found = part.request.and_then(|request| works.get_mut(request)).unwrap_or(&mut *others);
        found.work[Term::PromptToken as usize] += part.prompt_tokens;
        found.work[Term::Prompt as usize] += part.prompts;
        if part.tokens > 0.0 {
            found.work[Term::Step as usize] += step.count / decoding.len() as f64;
            found.work[Term::Sequence as usize] += part.tokens;
            found.work[Term::Context as usize] += part.context;
            // The choices of a request are in the same step, which counts once.
            let first = decoding.partition_point(|&request| request < part.request);
            let choices = decoding[first..].partition_point(|&request| request == part.request) as f64;
            found.steps += step.count / choices;
            if is_alone {
                found.steps_alone += step.count / choices;
            }
        }
    }
}

#[cfg(test)]
impl Steps {
    pub(crate) fn for_test(steps: Vec<Step>, requests: usize) -> Self {
        Self::new(Evidence::StepLog, steps, requests)
    }
}
