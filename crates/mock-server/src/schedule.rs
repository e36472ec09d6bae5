//! The schedule of a stream: which parts are sent when, and how the body ends.
//!
//! The schedule follows from the plan and the request, without a socket; `stream` sends it. A fault in the middle of
//! the stream comes after half of the content chunks, and after at least one.

use std::time::Duration;

use crate::fault::Fault;
use crate::generation_request::GenerationRequest;
use crate::plan::Plan;
use crate::script::{Script, StreamEnd, UsagePosition};

/// Whether tokens are reasoning or answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Reasoning,
    Answer,
}

/// One event of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamPart {
    /// The role, without content.
    Role { choice: u64 },
    /// A range of tokens.
    Tokens { choice: u64, from: u64, to: u64, kind: TokenKind },
    /// The finish reason of a choice.
    Finish { choice: u64 },
    /// The token counts.
    Usage,
    /// `[DONE]`.
    Done,
    /// A line that is not JSON.
    NotJson,
    /// An error object.
    Error,
}

/// A part and when it is due after the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) due: Duration,
    pub(crate) part: StreamPart,
}

/// How the body ends after the last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    /// Completely.
    Whole,
    /// Never: nothing more is sent.
    Stall,
    /// The connection is closed before the end of the body.
    Cut,
    /// The connection is reset.
    Reset,
}

/// All parts of a stream and its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schedule {
    pub(crate) steps: Vec<Step>,
    pub(crate) end: BodyEnd,
    /// When the end is due.
    pub(crate) end_due: Duration,
}

impl Schedule {
    /// The schedule of this plan.
    pub(crate) fn new(plan: &Plan, generation: &GenerationRequest, script: &Script) -> Self {
        let chunks = chunks(plan, script.tokens_per_chunk);
        let middle = chunks.len().div_ceil(2);
        let mut schedule = Self { steps: Vec::new(), end: BodyEnd::Whole, end_due: Duration::ZERO };
        if !generation.api.is_ollama() && generation.api != crate::generation_request::Api::OpenAiText {
            (0..generation.choices).for_each(|choice| schedule.push(Duration::ZERO, StreamPart::Role { choice }));
        }
        for (at, chunk) in chunks.iter().enumerate() {
            if at == middle && schedule.breaks(plan.fault, chunk.due, generation) {
                return schedule;
            }
            for choice in 0..generation.choices {
                schedule
                    .push(chunk.due, StreamPart::Tokens { choice, from: chunk.from, to: chunk.to, kind: chunk.kind });
            }
        }
        let last = chunks.last().map_or(Duration::ZERO, |chunk| chunk.due);
        if middle >= chunks.len() && schedule.breaks(plan.fault, last, generation) {
            return schedule;
        }
        schedule.close(plan, generation, script, last);
        schedule
    }

    fn push(&mut self, due: Duration, part: StreamPart) {
        self.steps.push(Step { due, part });
        self.end_due = due;
    }

    /// Applies the fault. Returns whether it ends the stream.
    fn breaks(&mut self, fault: Option<Fault>, due: Duration, generation: &GenerationRequest) -> bool {
        self.end = match fault {
            Some(Fault::HangStream) => BodyEnd::Stall,
            Some(Fault::ResetStream) => BodyEnd::Reset,
            Some(Fault::Truncated) => BodyEnd::Cut,
            Some(Fault::BadSse) => {
                self.push(due, StreamPart::NotJson);
                return false;
            }
            Some(Fault::ErrorStream) => {
                self.push(due, StreamPart::Error);
                if !generation.api.is_ollama() {
                    self.push(due, StreamPart::Done);
                }
                return true;
            }
            _ => return false,
        };
        self.end_due = due;
        true
    }

    fn close(&mut self, plan: &Plan, generation: &GenerationRequest, script: &Script, due: Duration) {
        if generation.api.is_ollama() {
            if plan.fault != Some(Fault::NoDone) {
                self.push(due, StreamPart::Finish { choice: 0 });
            }
            return;
        }
        (0..generation.choices).for_each(|choice| self.push(due, StreamPart::Finish { choice }));
        if generation.wants_usage && script.usage == UsagePosition::Chunk && plan.fault != Some(Fault::NoUsage) {
            self.push(due, StreamPart::Usage);
        }
        if script.end == StreamEnd::Done && plan.fault != Some(Fault::NoDone) {
            self.push(due, StreamPart::Done);
        }
    }
}

/// Tokens that are sent together when the last of them is due.
struct Chunk {
    from: u64,
    to: u64,
    kind: TokenKind,
    due: Duration,
}

/// Splits the tokens into chunks. A chunk has either reasoning or answer.
fn chunks(plan: &Plan, tokens_per_chunk: u64) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for (start, end, kind) in
        [(0, plan.reasoning, TokenKind::Reasoning), (plan.reasoning, plan.tokens, TokenKind::Answer)]
    {
        let mut from = start;
        while from < end {
            let to = from.saturating_add(tokens_per_chunk).min(end);
            let last = usize::try_from(to - 1).ok().and_then(|last| plan.due.get(last));
            chunks.push(Chunk { from, to, kind, due: last.copied().unwrap_or_default() });
            from = to;
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::generation_request::Api;

    fn generation(api: Api, choices: u64) -> GenerationRequest {
        let body = format!(
            r#"{{"messages":[{{"content":"a b"}}],"prompt":"a b","stream":true,"n":{choices},"stream_options":{{"include_usage":true}}}}"#
        );
        GenerationRequest::read(api, body.as_bytes()).unwrap()
    }

    fn schedule(script: &Script, generation: &GenerationRequest, fault: Option<Fault>) -> Schedule {
        Schedule::new(&Plan::draw(script, 0, generation, fault), generation, script)
    }

    fn short() -> Script {
        Script { tokens: "4".parse().unwrap(), ..Script::default() }
    }

    fn parts(schedule: &Schedule) -> String {
        let letters = schedule.steps.iter().map(|step| match step.part {
            StreamPart::Role { .. } => 'r',
            StreamPart::Tokens { .. } => 't',
            StreamPart::Finish { .. } => 'f',
            StreamPart::Usage => 'u',
            StreamPart::Done => 'd',
            StreamPart::NotJson => '!',
            StreamPart::Error => 'e',
        });
        letters.collect()
    }

    #[test]
    fn each_fault_changes_the_schedule() {
        let chat = generation(Api::OpenAiChat, 1);
        for (fault, expected, end) in [
            (None, "rttttfud", BodyEnd::Whole),
            (Some(Fault::BadSse), "rtt!ttfud", BodyEnd::Whole),
            (Some(Fault::ErrorStream), "rtted", BodyEnd::Whole),
            (Some(Fault::HangStream), "rtt", BodyEnd::Stall),
            (Some(Fault::ResetStream), "rtt", BodyEnd::Reset),
            (Some(Fault::Truncated), "rtt", BodyEnd::Cut),
            (Some(Fault::NoUsage), "rttttfd", BodyEnd::Whole),
            (Some(Fault::NoDone), "rttttfu", BodyEnd::Whole),
            (Some(Fault::Empty), "rfud", BodyEnd::Whole),
            (Some(Fault::Slow), "rttttfud", BodyEnd::Whole),
        ] {
            let schedule = schedule(&short(), &chat, fault);
            assert_eq!((parts(&schedule).as_str(), schedule.end), (expected, end), "{fault:?}");
        }
    }

    #[test]
    fn ollama_ends_with_a_final_line() {
        let generate = generation(Api::OllamaText, 1);
        for (fault, expected) in [(None, "ttttf"), (Some(Fault::NoDone), "tttt"), (Some(Fault::ErrorStream), "tte")] {
            assert_eq!(parts(&schedule(&short(), &generate, fault)), expected, "{fault:?}");
        }
    }

    #[test]
    fn the_script_sets_where_usage_and_done_are() {
        let chat = generation(Api::OpenAiChat, 2);
        let last = Script { usage: UsagePosition::Last, end: StreamEnd::Bare, ..short() };
        assert_eq!(parts(&schedule(&last, &chat, None)), "rrttttttttff");
        let text = generation(Api::OpenAiText, 1);
        assert_eq!(parts(&schedule(&short(), &text, None)), "ttttfud");
    }

    #[test]
    fn a_fault_in_the_middle_comes_even_with_one_chunk() {
        let one = Script { tokens_per_chunk: 10, ..short() };
        let cut = schedule(&one, &generation(Api::OpenAiChat, 1), Some(Fault::Truncated));
        assert_eq!((parts(&cut).as_str(), cut.end), ("rt", BodyEnd::Cut));
    }

    proptest! {
        #[test]
        fn every_token_is_sent_once_and_in_order(tokens in 0..60u64, reasoning in 0..70u64, tokens_per_chunk in 1..9u64) {
            let script = Script {
                tokens: tokens.to_string().parse().unwrap(),
                gap: "exponential:3ms".parse().unwrap(),
                reasoning,
                tokens_per_chunk,
                ..Script::default()
            };
            let schedule = schedule(&script, &generation(Api::OpenAiChat, 1), None);
            prop_assert!(schedule.steps.is_sorted_by_key(|step| step.due));
            let mut next = 0;
            for step in &schedule.steps {
                if let StreamPart::Tokens { from, to, kind, .. } = step.part {
                    prop_assert_eq!(from, next);
                    prop_assert!(from < to && to - from <= tokens_per_chunk);
                    prop_assert_eq!(kind == TokenKind::Reasoning, from < reasoning);
                    next = to;
                }
            }
            prop_assert_eq!(next, tokens);
        }
    }
}
