//! Draws everything random about one answer: fault, tokens and times.
//!
//! A plan depends only on the script and the number of the request, not on how requests overlap.

use std::time::Duration;

use crate::fault::Fault;
use crate::generation_request::GenerationRequest;
use crate::script::Script;
use crate::words;

/// Why an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinishReason {
    /// The answer is complete.
    Stop,
    /// The token limit of the request was reached.
    Length,
}

impl FinishReason {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
        }
    }
}

/// The tokens, times and fault of one request.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) fault: Option<Fault>,
    /// The number of tokens of each choice, including reasoning.
    pub(crate) tokens: u64,
    /// How many of the tokens are reasoning.
    pub(crate) reasoning: u64,
    pub(crate) reason: FinishReason,
    /// When each token is due after the start; the same for all choices.
    pub(crate) due: Vec<Duration>,
    seed: u64,
    answer: Option<FixedAnswer>,
}

/// The fixed answer of the script, and where each of its tokens ends.
#[derive(Debug, Clone)]
struct FixedAnswer {
    text: String,
    ends: Vec<usize>,
}

impl FixedAnswer {
    fn new(text: &str) -> Self {
        let mut end = 0;
        let ends = words::tokens(text).into_iter().map(|token| {
            end += token.len();
            end
        });
        Self { ends: ends.collect(), text: text.to_owned() }
    }

    /// The tokens in this range, without those beyond the end.
    fn tokens(&self, from: usize, to: usize) -> &str {
        let start = |token: usize| match token.min(self.ends.len()) {
            0 => 0,
            before => self.ends[before - 1],
        };
        &self.text[start(from)..start(to)]
    }
}

impl Plan {
    /// Draws the plan of the request with this number. A forced fault replaces the random one.
    pub(crate) fn draw(script: &Script, number: u64, generation: &GenerationRequest, forced: Option<Fault>) -> Self {
        let seed =
            fastrand::Rng::with_seed(script.seed.rotate_left(32) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        let drawn = draw_fault(script, random.f64());
        let fault = forced.or(drawn);
        let drawn_tokens = script.tokens.draw(&mut random);
        let answer = script.answer.as_deref().map(FixedAnswer::new);
        let scripted = match &answer {
            Some(answer) => script.reasoning.saturating_add(answer.ends.len() as u64),
            None => drawn_tokens,
        };
        let wanted = if generation.only_loads || fault == Some(Fault::Empty) { 0 } else { scripted };
        let tokens = wanted.min(generation.max_tokens.unwrap_or(u64::MAX));
        let factor = if fault == Some(Fault::Slow) { script.slow_factor } else { 1.0 };
        let mut at = Duration::ZERO;
        let mut due = Vec::with_capacity(usize::try_from(tokens).unwrap_or_default());
        for token in 0..tokens {
            let wait = if token == 0 { script.ttft } else { script.gap };
            at = at.saturating_add(wait.draw(&mut random).mul_f64(factor));
            due.push(at);
        }
        Self {
            fault,
            tokens,
            reasoning: script.reasoning.min(tokens),
            reason: if tokens < wanted { FinishReason::Length } else { FinishReason::Stop },
            due,
            seed,
            answer,
        }
    }

    /// The text of a range of tokens of a choice. Reasoning and answer both start without a space.
    pub(crate) fn text(&self, choice: u64, from: u64, to: u64) -> String {
        let mut text = String::new();
        self.add_text(&mut text, choice, from, to);
        text
    }

    /// Appends the text of a range of tokens of a choice.
    pub(crate) fn add_text(&self, text: &mut String, choice: u64, from: u64, to: u64) {
        let start = |place: u64| usize::try_from(place.saturating_sub(self.reasoning)).unwrap_or(usize::MAX);
        if let (Some(answer), true) = (&self.answer, from >= self.reasoning) {
            text.push_str(answer.tokens(start(from), start(to)));
            return;
        }
        for place in from..to {
            if place != 0 && place != self.reasoning {
                text.push(' ');
            }
            text.push_str(words::random_word(self.seed.wrapping_add(choice), place));
        }
    }

    /// The complete reasoning of a choice.
    pub(crate) fn reasoning_text(&self, choice: u64) -> String {
        self.text(choice, 0, self.reasoning)
    }

    /// The complete answer of a choice.
    pub(crate) fn answer_text(&self, choice: u64) -> String {
        self.text(choice, self.reasoning, self.tokens)
    }
}

/// Each fault takes an interval of its rate in 0..1; the draw selects a fault or none.
fn draw_fault(script: &Script, draw: f64) -> Option<Fault> {
    let mut end = 0.0;
    script.faults.iter().filter(|drawn| drawn.fault != Fault::Refuse).find_map(|drawn| {
        end += drawn.rate;
        (draw < end).then_some(drawn.fault)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::generation_request::Api;

    pub(crate) fn generation(extra: &str) -> GenerationRequest {
        let body = format!(r#"{{"messages":[{{"role":"user","content":"how are you"}}],"stream":true{extra}}}"#);
        GenerationRequest::read(Api::OpenAiChat, body.as_bytes()).unwrap()
    }

    fn script(faults: &[&str]) -> Script {
        let faults = faults.iter().map(|text| text.parse().unwrap()).collect();
        Script {
            faults,
            tokens: "uniform:2..50".parse().unwrap(),
            gap: "exponential:5ms".parse().unwrap(),
            ..Script::default()
        }
    }

    proptest! {
        #[test]
        fn a_plan_is_repeatable_and_its_times_ascend(seed: u64, number: u64) {
            let script = Script { seed, ..script(&["reset=0.3", "slow=20%"]) };
            let [first, second] = [(); 2].map(|()| Plan::draw(&script, number, &generation(""), None));
            prop_assert_eq!(first.fault, second.fault);
            prop_assert_eq!(&first.due, &second.due);
            prop_assert_eq!(first.answer_text(0), second.answer_text(0));
            prop_assert!(first.due.is_sorted());
            prop_assert_eq!(first.due.len() as u64, first.tokens);
            prop_assert_eq!(words::count(&first.answer_text(0)), first.tokens);
        }

        #[test]
        fn ranges_join_to_the_complete_text(cut in 0..=20u64, reasoning in 0..25u64) {
            let script = Script { tokens: "20".parse().unwrap(), reasoning, ..Script::default() };
            let plan = Plan::draw(&script, 1, &generation(""), None);
            let whole = plan.reasoning_text(0) + &plan.answer_text(0);
            let cut_text = plan.text(0, 0, cut) + &plan.text(0, cut, 20);
            prop_assert_eq!(cut_text, whole);
        }
    }

    #[test]
    fn faults_are_as_frequent_as_their_rates() {
        let script = script(&["reset=0.25", "429=25%"]);
        let drawn: Vec<_> = (0..4000).map(|number| Plan::draw(&script, number, &generation(""), None).fault).collect();
        for (fault, share) in [(Some(Fault::Reset), 1000), (Some(Fault::TooManyRequests), 1000), (None, 2000)] {
            let count = drawn.iter().filter(|drawn| **drawn == fault).count();
            assert!(count.abs_diff(share) < 150, "{fault:?}: {count}");
        }
    }

    #[test]
    fn the_request_limits_the_tokens() {
        let plan = Plan::draw(&script(&[]), 0, &generation(r#","max_tokens":1"#), None);
        assert_eq!((plan.tokens, plan.reason), (1, FinishReason::Length));
        let answer = Script { answer: Some(String::from("the answer is 42")), reasoning: 3, ..Script::default() };
        let plan = Plan::draw(&answer, 0, &generation(""), None);
        assert_eq!((plan.tokens, plan.reasoning, plan.reason), (7, 3, FinishReason::Stop));
        assert_eq!(plan.answer_text(0), "the answer is 42");
        assert_eq!(plan.text(0, 4, 6), " answer is");
        assert_eq!(words::count(&plan.reasoning_text(0)), 3);
    }

    #[test]
    fn a_forced_fault_does_not_change_other_draws() {
        let script = script(&["reset=1"]);
        let forced = Plan::draw(&script, 3, &generation(""), Some(Fault::Slow));
        let drawn = Plan::draw(&script, 3, &generation(""), None);
        assert_eq!((forced.fault, drawn.fault), (Some(Fault::Slow), Some(Fault::Reset)));
        assert_eq!(forced.tokens, drawn.tokens);
        let (slow, usual) = (forced.due.last().unwrap(), drawn.due.last().unwrap());
        assert!(slow.abs_diff(usual.mul_f64(10.0)) < Duration::from_micros(1), "{slow:?} is ten times {usual:?}");
        assert_eq!(Plan::draw(&script, 3, &generation(""), Some(Fault::Empty)).tokens, 0);
    }
}
