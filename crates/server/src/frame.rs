//! The parts of a stream as bytes, each in a chunk of HTTP of its own.
//!
//! In go parts, out come the same bytes as composing every part anew would give. The events of one choice differ in
//! their text alone, so what stands around it is composed once, and not a JSON value for each of many chunks.

use crate::http;
use crate::ollama::Times;
use crate::openai::Answer;
use crate::score::{Kind, Part};

/// What stands before and after the text of a choice's events.
#[derive(Debug)]
struct Shell {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Shell {
    /// Composes the event twice, without text and with some: they differ first where text begins.
    fn of(answer: &Answer<'_>, choice: u64, kind: Kind) -> Self {
        let mut before = answer.text_event(choice, kind, "");
        let other = answer.text_event(choice, kind, "a");
        let begin = before.iter().zip(&other).take_while(|(one, other)| one == other).count();
        let after = before.split_off(begin);
        Self { before, after }
    }
}

/// Writes the parts of one stream.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    answer: Answer<'a>,
    /// Two for each choice: of its reasoning and of its answer.
    shells: Vec<Option<Shell>>,
    text: String,
    quoted: Vec<u8>,
}

impl<'a> Frames<'a> {
    pub(crate) const fn new(answer: Answer<'a>) -> Self {
        Self { answer, shells: Vec::new(), text: String::new(), quoted: Vec::new() }
    }

    /// Puts one part behind what there is. `times` is asked where the part says them.
    pub(crate) fn add(&mut self, bytes: &mut Vec<u8>, part: Part, times: impl FnOnce() -> Times) {
        if self.answer.asked.api.is_ollama() {
            return http::add_chunk(bytes, &[&self.answer.line(part, &times())]);
        }
        let Part::Tokens { choice, from, to, kind } = part else {
            return http::add_chunk(bytes, &[&self.answer.event(part)]);
        };
        self.text.clear();
        self.answer.plan.add_text(&mut self.text, choice, from, to);
        self.quoted.clear();
        // Writing into memory does not fail, and text is always JSON; composing anew would be right even then.
        let is_quoted = serde_json::to_writer(&mut self.quoted, &self.text).is_ok();
        let inner = self.quoted.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
        let (true, Some(inner)) = (is_quoted, inner) else {
            return http::add_chunk(bytes, &[&self.answer.event(part)]);
        };
        let place = usize::try_from(choice).unwrap_or_default() * 2 + usize::from(kind == Kind::Answer);
        if self.shells.len() <= place {
            self.shells.resize_with(place + 1, || None);
        }
        let shell = self.shells[place].get_or_insert_with(|| Shell::of(&self.answer, choice, kind));
        http::add_chunk(bytes, &[&shell.before, inner, &shell.after]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::asked::{Api, Asked};
    use crate::plan::Plan;
    use crate::score::Score;
    use crate::script::{Newline, Script, UsagePlace};

    const TIMES: Times = Times { received_ns: 100, started_ns: 110, first_token_ns: Some(150), now_ns: 400 };

    /// Every part of a stream by itself, composed anew.
    fn anew(answer: &Answer<'_>, part: Part) -> Vec<u8> {
        let ollama = answer.asked.api.is_ollama();
        http::chunk(&if ollama { answer.line(part, &TIMES) } else { answer.event(part) })
    }

    proptest! {
        #[test]
        fn bytes_are_those_of_parts_composed_anew(
            id in "[ a-z\"\\\\\u{e9}]{0,8}",
            given in proptest::option::of("[ \"\\\\\n\u{1}\u{e9}a-c]{1,30}"),
            reasoning in 0..4u64,
            choices in 1..4u64,
            tokens_per_chunk in 1..4u64,
            odd: bool,
            api in prop_oneof![Just(Api::OpenAiChat), Just(Api::OpenAiText), Just(Api::OllamaChat), Just(Api::OllamaText)],
        ) {
            let script = Script {
                answer: given,
                reasoning,
                tokens_per_chunk,
                tokens: "9".parse().unwrap(),
                newline: if odd { Newline::Crlf } else { Newline::Lf },
                usage: if odd { UsagePlace::Last } else { UsagePlace::Chunk },
                ..Script::instant()
            };
            let body = format!(
                r#"{{"messages":[{{"content":"a"}}],"prompt":"a","stream":true,"n":{choices},"stream_options":{{"include_usage":true}}}}"#
            );
            let asked = Asked::read(api, body.as_bytes()).unwrap();
            let plan = Plan::draw(&script, 3, &asked, None);
            let answer = Answer { id: &id, model: "m", created_s: 7, asked: &asked, plan: &plan, script: &script };
            let mut frames = Frames::new(answer);
            let (mut bytes, mut wanted) = (Vec::new(), Vec::new());
            for step in Score::of(&plan, &asked, &script).steps {
                frames.add(&mut bytes, step.part, || TIMES);
                wanted.extend(anew(&answer, step.part));
            }
            prop_assert_eq!(String::from_utf8(bytes), String::from_utf8(wanted));
        }
    }
}
