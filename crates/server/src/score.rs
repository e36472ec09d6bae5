//! The score of a stream: what is sent, in which order, when, and how it ends.
//!
//! In go a plan and what was asked; out comes a list of steps for the player, who only keeps time. Nothing here touches a
//! socket. A fault in the middle comes after half of the chunks with content, and always after at least one.

use std::time::Duration;

use crate::asked::Asked;
use crate::fault::Fault;
use crate::plan::Plan;
use crate::script::{Script, StreamEnd, UsagePlace};

/// Whether tokens are the answer or what was thought before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Reasoning,
    Answer,
}

/// One thing that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Who speaks, without content.
    Role { choice: u64 },
    /// Some tokens.
    Tokens { choice: u64, from: u64, to: u64, kind: Kind },
    /// Why a choice ends.
    Finish { choice: u64 },
    /// How many tokens it was.
    Usage,
    /// `[DONE]`.
    Done,
    /// A line that is not JSON.
    NotJson,
    /// An error object.
    Error,
}

/// A part, and when it is due after the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) due: Duration,
    pub(crate) part: Part,
}

/// How the body ends after the last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// As it should.
    Whole,
    /// Not at all: nothing more comes.
    Stall,
    /// The connection is closed, the body unfinished.
    Cut,
    /// The connection is reset.
    Reset,
}

/// A whole stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Score {
    pub(crate) steps: Vec<Step>,
    pub(crate) end: End,
    /// When the end is due.
    pub(crate) end_due: Duration,
}

impl Score {
    /// The stream of this plan.
    pub(crate) fn of(plan: &Plan, asked: &Asked, script: &Script) -> Self {
        let chunks = chunks(plan, script.tokens_per_chunk);
        let middle = chunks.len().div_ceil(2);
        let mut score = Self { steps: Vec::new(), end: End::Whole, end_due: Duration::ZERO };
        if !asked.api.is_ollama() && asked.api != crate::asked::Api::OpenAiText {
            (0..asked.choices).for_each(|choice| score.push(Duration::ZERO, Part::Role { choice }));
        }
        for (at, chunk) in chunks.iter().enumerate() {
            if at == middle && score.breaks(plan.fault, chunk.due, asked) {
                return score;
            }
            for choice in 0..asked.choices {
                score.push(chunk.due, Part::Tokens { choice, from: chunk.from, to: chunk.to, kind: chunk.kind });
            }
        }
        let last = chunks.last().map_or(Duration::ZERO, |chunk| chunk.due);
        if middle >= chunks.len() && score.breaks(plan.fault, last, asked) {
            return score;
        }
        score.close(plan, asked, script, last);
        score
    }

    fn push(&mut self, due: Duration, part: Part) {
        self.steps.push(Step { due, part });
        self.end_due = due;
    }

    /// Puts the fault in; says whether the stream is over with it.
    fn breaks(&mut self, fault: Option<Fault>, due: Duration, asked: &Asked) -> bool {
        self.end = match fault {
            Some(Fault::HangStream) => End::Stall,
            Some(Fault::ResetStream) => End::Reset,
            Some(Fault::Truncated) => End::Cut,
            Some(Fault::BadSse) => {
                self.push(due, Part::NotJson);
                return false;
            }
            Some(Fault::ErrorStream) => {
                self.push(due, Part::Error);
                if !asked.api.is_ollama() {
                    self.push(due, Part::Done);
                }
                return true;
            }
            _ => return false,
        };
        self.end_due = due;
        true
    }

    fn close(&mut self, plan: &Plan, asked: &Asked, script: &Script, due: Duration) {
        if asked.api.is_ollama() {
            if plan.fault != Some(Fault::NoDone) {
                self.push(due, Part::Finish { choice: 0 });
            }
            return;
        }
        (0..asked.choices).for_each(|choice| self.push(due, Part::Finish { choice }));
        if asked.wants_usage && script.usage == UsagePlace::Chunk && plan.fault != Some(Fault::NoUsage) {
            self.push(due, Part::Usage);
        }
        if script.end == StreamEnd::Done && plan.fault != Some(Fault::NoDone) {
            self.push(due, Part::Done);
        }
    }
}

/// Tokens that go together, due with the last of them.
struct Chunk {
    from: u64,
    to: u64,
    kind: Kind,
    due: Duration,
}

/// Reasoning and answer share no chunk.
fn chunks(plan: &Plan, tokens_per_chunk: u64) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for (start, end, kind) in [(0, plan.reasoning, Kind::Reasoning), (plan.reasoning, plan.tokens, Kind::Answer)] {
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
    use crate::asked::Api;

    fn asked(api: Api, choices: u64) -> Asked {
        let body = format!(
            r#"{{"messages":[{{"content":"a b"}}],"prompt":"a b","stream":true,"n":{choices},"stream_options":{{"include_usage":true}}}}"#
        );
        Asked::read(api, body.as_bytes()).unwrap()
    }

    fn score(script: &Script, asked: &Asked, fault: Option<Fault>) -> Score {
        Score::of(&Plan::draw(script, 0, asked, fault), asked, script)
    }

    fn short() -> Script {
        Script { tokens: "4".parse().unwrap(), ..Script::default() }
    }

    fn parts(score: &Score) -> String {
        let letters = score.steps.iter().map(|step| match step.part {
            Part::Role { .. } => 'r',
            Part::Tokens { .. } => 't',
            Part::Finish { .. } => 'f',
            Part::Usage => 'u',
            Part::Done => 'd',
            Part::NotJson => '!',
            Part::Error => 'e',
        });
        letters.collect()
    }

    #[test]
    fn each_fault_changes_the_score_in_its_way() {
        let chat = asked(Api::OpenAiChat, 1);
        for (fault, expected, end) in [
            (None, "rttttfud", End::Whole),
            (Some(Fault::BadSse), "rtt!ttfud", End::Whole),
            (Some(Fault::ErrorStream), "rtted", End::Whole),
            (Some(Fault::HangStream), "rtt", End::Stall),
            (Some(Fault::ResetStream), "rtt", End::Reset),
            (Some(Fault::Truncated), "rtt", End::Cut),
            (Some(Fault::NoUsage), "rttttfd", End::Whole),
            (Some(Fault::NoDone), "rttttfu", End::Whole),
            (Some(Fault::Empty), "rfud", End::Whole),
            (Some(Fault::Slow), "rttttfud", End::Whole),
        ] {
            let score = score(&short(), &chat, fault);
            assert_eq!((parts(&score).as_str(), score.end), (expected, end), "{fault:?}");
        }
    }

    #[test]
    fn ollama_ends_with_a_line_of_its_own() {
        let generate = asked(Api::OllamaText, 1);
        for (fault, expected) in [(None, "ttttf"), (Some(Fault::NoDone), "tttt"), (Some(Fault::ErrorStream), "tte")] {
            assert_eq!(parts(&score(&short(), &generate, fault)), expected, "{fault:?}");
        }
    }

    #[test]
    fn the_script_says_where_usage_and_done_stand() {
        let chat = asked(Api::OpenAiChat, 2);
        let last = Script { usage: UsagePlace::Last, end: StreamEnd::Bare, ..short() };
        assert_eq!(parts(&score(&last, &chat, None)), "rrttttttttff");
        let text = asked(Api::OpenAiText, 1);
        assert_eq!(parts(&score(&short(), &text, None)), "ttttfud");
    }

    #[test]
    fn a_fault_in_the_middle_comes_even_when_there_is_one_chunk() {
        let one = Script { tokens_per_chunk: 10, ..short() };
        let cut = score(&one, &asked(Api::OpenAiChat, 1), Some(Fault::Truncated));
        assert_eq!((parts(&cut).as_str(), cut.end), ("rt", End::Cut));
    }

    proptest! {
        #[test]
        fn every_token_is_sent_once_and_in_time(tokens in 0..60u64, reasoning in 0..70u64, tokens_per_chunk in 1..9u64) {
            let script = Script {
                tokens: tokens.to_string().parse().unwrap(),
                gap: "exponential:3ms".parse().unwrap(),
                reasoning,
                tokens_per_chunk,
                ..Script::default()
            };
            let score = score(&script, &asked(Api::OpenAiChat, 1), None);
            prop_assert!(score.steps.is_sorted_by_key(|step| step.due));
            let mut next = 0;
            for step in &score.steps {
                if let Part::Tokens { from, to, kind, .. } = step.part {
                    prop_assert_eq!(from, next);
                    prop_assert!(from < to && to - from <= tokens_per_chunk);
                    prop_assert_eq!(kind == Kind::Reasoning, from < reasoning);
                    next = to;
                }
            }
            prop_assert_eq!(next, tokens);
        }
    }
}
