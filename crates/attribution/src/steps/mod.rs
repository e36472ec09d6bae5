//! The steps of a batching server: which requests took part in each, and with how much work.

mod arrivals;
mod engine_log;
mod iterations;
mod tokens;

use ergometer_runs::cost_model::{Evidence, Term, Work};
use ergometer_units::Timestamp;

use crate::Stream;
pub use engine_log::{EngineLog, EngineLogError};

/// The part of a sequence in a step. A request with several choices has several parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepPart {
    /// The index of the request; `None` for one of another client.
    pub request: Option<usize>,
    /// The prompt tokens computed for it.
    pub prompt_tokens: f64,
    /// 1 in the step that ends its prompt, else 0.
    pub prompts: f64,
    /// The tokens decoded for it.
    pub tokens: f64,
    /// The context that decoding them read.
    pub context: f64,
}

impl StepPart {
    const fn prompt(request: Option<usize>, prompt_tokens: f64) -> Self {
        Self { request, prompt_tokens, prompts: 1.0, tokens: 0.0, context: 0.0 }
    }

    fn decode(request: Option<usize>, tokens: f64, context: f64) -> Self {
        Self { request, prompt_tokens: 0.0, prompts: 0.0, tokens, context: tokens * context }
    }
}

/// One step of the server, or a slice of time that stands for several.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// When it started, if an engine log says so.
    pub start: Option<Timestamp>,
    /// When it ended.
    pub end: Timestamp,
    /// The number of decode steps it stands for, if anything was decoded.
    pub count: f64,
    /// Who took part.
    pub parts: Vec<StepPart>,
}

impl Step {
    /// Its work.
    #[must_use]
    pub fn work(&self) -> Work {
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
            work[Term::Padding as usize] = (longest * sequences - work[Term::Context as usize]).max(0.0);
        }
        work
    }

    /// The parts that decode.
    fn decoding(&self) -> usize {
        self.parts.iter().filter(|part| part.tokens > 0.0).count()
    }
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

/// The steps of a session, in order of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps {
    evidence: Evidence,
    list: Vec<Step>,
    requests: Vec<RequestWork>,
}

impl Steps {
    /// From the arrival times of all tokens; `None` if they cannot show steps: answers that do not stream, several tokens
    /// in an event, or events that arrive in lumps.
    #[must_use]
    pub fn from_arrivals(streams: &[Stream]) -> Option<Self> {
        arrivals::steps(streams).map(|steps| Self::new(Evidence::Arrivals, steps, streams.len()))
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

    fn new(evidence: Evidence, mut steps: Vec<Step>, requests: usize) -> Self {
        steps.sort_by_key(|step| step.end);
        let mut works = vec![RequestWork::default(); requests];
        for step in &steps {
            let decoding = step.decoding();
            let others =
                |request: usize| step.parts.iter().any(|part| part.tokens > 0.0 && part.request != Some(request));
            for part in &step.parts {
                let Some(request) = part.request.filter(|&request| request < requests) else { continue };
                let found = &mut works[request];
                found.work[Term::PromptToken as usize] += part.prompt_tokens;
                found.work[Term::Prompt as usize] += part.prompts;
                if part.tokens > 0.0 {
                    let share = step.count / decoding as f64;
                    found.work[Term::Step as usize] += share;
                    found.work[Term::Sequence as usize] += part.tokens;
                    found.work[Term::Context as usize] += part.context;
                    // The choices of a request are in the same step, which counts once.
                    let choices = step.parts.iter().filter(|other| other.tokens > 0.0 && other.request == part.request);
                    let choices = choices.count() as f64;
                    found.steps += step.count / choices;
                    if !others(request) {
                        found.steps_alone += step.count / choices;
                    }
                }
            }
        }
        Self { evidence, list: steps, requests: works }
    }

    /// What the steps come from.
    #[must_use]
    pub const fn evidence(&self) -> Evidence {
        self.evidence
    }

    /// The steps.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.list
    }

    /// The work of each request.
    #[must_use]
    pub fn requests(&self) -> &[RequestWork] {
        &self.requests
    }
}

#[cfg(test)]
impl Steps {
    pub(crate) fn for_test(steps: Vec<Step>, requests: usize) -> Self {
        Self::new(Evidence::StepLog, steps, requests)
    }
}
