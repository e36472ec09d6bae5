//! What one request will get: everything the script leaves to chance, drawn once.
//!
//! In go the script and the number of the request; out comes a plan that is the same for the same two, however
//! requests overlap.

use std::time::Duration;

use crate::asked::Asked;
use crate::fault::Fault;
use crate::script::Script;
use crate::words;

/// Why an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It was finished.
    Stop,
    /// The request allowed no more tokens.
    Length,
}

impl Reason {
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
    /// How many tokens each choice has, its reasoning included.
    pub(crate) tokens: u64,
    /// How many of them are reasoning.
    pub(crate) reasoning: u64,
    pub(crate) reason: Reason,
    /// When each token is due, after the start: the choices go in step.
    pub(crate) due: Vec<Duration>,
    seed: u64,
    answer: Option<Fixed>,
}

/// An answer that is given, and where each of its tokens ends.
#[derive(Debug, Clone)]
struct Fixed {
    text: String,
    ends: Vec<usize>,
}

impl Fixed {
    fn new(text: &str) -> Self {
        let mut end = 0;
        let ends = words::tokens(text).into_iter().map(|token| {
            end += token.len();
            end
        });
        Self { ends: ends.collect(), text: text.to_owned() }
    }

    /// Some of its tokens, as many of them as there are.
    fn tokens(&self, from: usize, to: usize) -> &str {
        let start = |token: usize| match token.min(self.ends.len()) {
            0 => 0,
            before => self.ends[before - 1],
        };
        &self.text[start(from)..start(to)]
    }
}

impl Plan {
    /// Draws the plan of the request with this number. A forced fault takes the place of the drawn one.
    pub(crate) fn draw(script: &Script, number: u64, asked: &Asked, forced: Option<Fault>) -> Self {
        let seed =
            fastrand::Rng::with_seed(script.seed.rotate_left(32) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        let drawn = draw_fault(script, random.f64());
        let fault = forced.or(drawn);
        let drawn_tokens = script.tokens.draw(&mut random);
        let answer = script.answer.as_deref().map(Fixed::new);
        let scripted = match &answer {
            Some(answer) => script.reasoning.saturating_add(answer.ends.len() as u64),
            None => drawn_tokens,
        };
        let wanted = if asked.only_loads || fault == Some(Fault::Empty) { 0 } else { scripted };
        let tokens = wanted.min(asked.most_tokens.unwrap_or(u64::MAX));
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
            reason: if tokens < wanted { Reason::Length } else { Reason::Stop },
            due,
            seed,
            answer,
        }
    }

    /// The text of some tokens of a choice. Reasoning and answer each begin without a space.
    pub(crate) fn text(&self, choice: u64, from: u64, to: u64) -> String {
        let mut text = String::new();
        self.add_text(&mut text, choice, from, to);
        text
    }

    /// Puts the text of some tokens behind what there is.
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
            text.push_str(words::drawn(self.seed.wrapping_add(choice), place));
        }
    }

    /// The reasoning of a choice, whole.
    pub(crate) fn reasoning_text(&self, choice: u64) -> String {
        self.text(choice, 0, self.reasoning)
    }

    /// The answer of a choice, whole.
    pub(crate) fn answer_text(&self, choice: u64) -> String {
        self.text(choice, self.reasoning, self.tokens)
    }
}

/// The faults share the line from 0 to 1; the draw falls on one of them or on none.
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
    use crate::asked::Api;

    pub(crate) fn asked(extra: &str) -> Asked {
        let body = format!(r#"{{"messages":[{{"role":"user","content":"how are you"}}],"stream":true{extra}}}"#);
        Asked::read(Api::OpenAiChat, body.as_bytes()).unwrap()
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
        fn a_plan_repeats_and_its_times_only_go_forward(seed: u64, number: u64) {
            let script = Script { seed, ..script(&["reset=0.3", "slow=20%"]) };
            let [first, second] = [(); 2].map(|()| Plan::draw(&script, number, &asked(""), None));
            prop_assert_eq!(first.fault, second.fault);
            prop_assert_eq!(&first.due, &second.due);
            prop_assert_eq!(first.answer_text(0), second.answer_text(0));
            prop_assert!(first.due.is_sorted());
            prop_assert_eq!(first.due.len() as u64, first.tokens);
            prop_assert_eq!(words::count(&first.answer_text(0)), first.tokens);
        }

        #[test]
        fn pieces_put_together_are_the_text(cut in 0..=20u64, reasoning in 0..25u64) {
            let script = Script { tokens: "20".parse().unwrap(), reasoning, ..Script::default() };
            let plan = Plan::draw(&script, 1, &asked(""), None);
            let whole = plan.reasoning_text(0) + &plan.answer_text(0);
            let cut_text = plan.text(0, 0, cut) + &plan.text(0, cut, 20);
            prop_assert_eq!(cut_text, whole);
        }
    }

    #[test]
    fn faults_come_as_often_as_asked() {
        let script = script(&["reset=0.25", "429=25%"]);
        let drawn: Vec<_> = (0..4000).map(|number| Plan::draw(&script, number, &asked(""), None).fault).collect();
        for (fault, share) in [(Some(Fault::Reset), 1000), (Some(Fault::TooManyRequests), 1000), (None, 2000)] {
            let count = drawn.iter().filter(|drawn| **drawn == fault).count();
            assert!(count.abs_diff(share) < 150, "{fault:?}: {count}");
        }
    }

    #[test]
    fn the_request_limits_the_tokens() {
        let plan = Plan::draw(&script(&[]), 0, &asked(r#","max_tokens":1"#), None);
        assert_eq!((plan.tokens, plan.reason), (1, Reason::Length));
        let answer = Script { answer: Some(String::from("the answer is 42")), reasoning: 3, ..Script::default() };
        let plan = Plan::draw(&answer, 0, &asked(""), None);
        assert_eq!((plan.tokens, plan.reasoning, plan.reason), (7, 3, Reason::Stop));
        assert_eq!(plan.answer_text(0), "the answer is 42");
        assert_eq!(plan.text(0, 4, 6), " answer is");
        assert_eq!(words::count(&plan.reasoning_text(0)), 3);
    }

    #[test]
    fn a_forced_fault_leaves_the_other_draws_alone() {
        let script = script(&["reset=1"]);
        let forced = Plan::draw(&script, 3, &asked(""), Some(Fault::Slow));
        let drawn = Plan::draw(&script, 3, &asked(""), None);
        assert_eq!((forced.fault, drawn.fault), (Some(Fault::Slow), Some(Fault::Reset)));
        assert_eq!(forced.tokens, drawn.tokens);
        let (slow, usual) = (forced.due.last().unwrap(), drawn.due.last().unwrap());
        assert!(slow.abs_diff(usual.mul_f64(10.0)) < Duration::from_micros(1), "{slow:?} is ten times {usual:?}");
        assert_eq!(Plan::draw(&script, 3, &asked(""), Some(Fault::Empty)).tokens, 0);
    }
}
