//! Encodes the parts of a stream as HTTP chunks.
//!
//! The events of one choice differ only in their text, so the JSON around the text is built once per choice. The bytes
//! are the same as if every event were built separately.

use crate::http;
use crate::ollama::AnswerTimes;
use crate::openai::Answer;
use crate::schedule::{StreamPart, TokenKind};

/// The bytes before and after the text in the events of one choice.
#[derive(Debug)]
struct EventTemplate {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl EventTemplate {
    /// Builds the event without text and with text: the first difference is where the text starts.
    fn new(answer: &Answer<'_>, choice: u64, kind: TokenKind) -> Self {
        let mut before = answer.text_event(choice, kind, "");
        let other = answer.text_event(choice, kind, "a");
        let begin = before.iter().zip(&other).take_while(|(one, other)| one == other).count();
        let after = before.split_off(begin);
        Self { before, after }
    }
}

/// Encodes one stream.
#[derive(Debug)]
pub(crate) struct StreamEncoder<'a> {
    answer: Answer<'a>,
    /// Two per choice: for reasoning and for the answer.
    templates: Vec<Option<EventTemplate>>,
    text: String,
    quoted: Vec<u8>,
}

impl<'a> StreamEncoder<'a> {
    pub(crate) const fn new(answer: Answer<'a>) -> Self {
        Self { answer, templates: Vec::new(), text: String::new(), quoted: Vec::new() }
    }

    /// Appends one part to the bytes. `times` is called only if the part contains times.
    pub(crate) fn add(&mut self, bytes: &mut Vec<u8>, part: StreamPart, times: impl FnOnce() -> AnswerTimes) {
        if self.answer.generation.api.is_ollama() {
            return http::add_chunk(bytes, &[&self.answer.line(part, &times())]);
        }
        let StreamPart::Tokens { choice, from, to, kind } = part else {
            return http::add_chunk(bytes, &[&self.answer.event(part)]);
        };
        self.text.clear();
        self.answer.plan.add_text(&mut self.text, choice, from, to);
        self.quoted.clear();
        // Writing into memory cannot fail; if it did, building the whole event would still be correct.
        let is_quoted = serde_json::to_writer(&mut self.quoted, &self.text).is_ok();
        let inner = self.quoted.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
        let (true, Some(inner)) = (is_quoted, inner) else {
            return http::add_chunk(bytes, &[&self.answer.event(part)]);
        };
        let place = usize::try_from(choice).unwrap_or_default() * 2 + usize::from(kind == TokenKind::Answer);
        if self.templates.len() <= place {
            self.templates.resize_with(place + 1, || None);
        }
        let template = self.templates[place].get_or_insert_with(|| EventTemplate::new(&self.answer, choice, kind));
        http::add_chunk(bytes, &[&template.before, inner, &template.after]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::generation_request::{Api, GenerationRequest};
    use crate::plan::Plan;
    use crate::schedule::Schedule;
    use crate::script::{Newline, Script, UsagePosition};

    const TIMES: AnswerTimes =
        AnswerTimes { received_ns: 100, started_ns: 110, first_token_ns: Some(150), now_ns: 400 };

    /// One part of a stream, built without a template.
    fn built(answer: &Answer<'_>, part: StreamPart) -> Vec<u8> {
        let ollama = answer.generation.api.is_ollama();
        http::chunk(&if ollama { answer.line(part, &TIMES) } else { answer.event(part) })
    }

    proptest! {
        #[test]
        fn templates_give_the_same_bytes_as_building_each_event(
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
                usage: if odd { UsagePosition::Last } else { UsagePosition::Chunk },
                ..Script::instant()
            };
            let body = format!(
                r#"{{"messages":[{{"content":"a"}}],"prompt":"a","stream":true,"n":{choices},"stream_options":{{"include_usage":true}}}}"#
            );
            let generation = GenerationRequest::read(api, body.as_bytes()).unwrap();
            let plan = Plan::draw(&script, 3, &generation, None);
            let answer = Answer { id: &id, model: "m", created_s: 7, generation: &generation, plan: &plan, script: &script };
            let mut encoder = StreamEncoder::new(answer);
            let (mut bytes, mut wanted) = (Vec::new(), Vec::new());
            for step in Schedule::new(&plan, &generation, &script).steps {
                encoder.add(&mut bytes, step.part, || TIMES);
                wanted.extend(built(&answer, step.part));
            }
            prop_assert_eq!(String::from_utf8(bytes), String::from_utf8(wanted));
        }
    }
}
