//! Builds bodies in `OpenAI`'s format: events of a stream, complete answers, lists and errors.

use serde_json::{Value, json};

use crate::fault::Fault;
use crate::generation_request::{Api, GenerationRequest};
use crate::plan::Plan;
use crate::schedule::{StreamPart, TokenKind};
use crate::script::{Script, UsagePosition};

/// The context length that the mock reports.
pub(crate) const CONTEXT: u64 = 32_768;

/// The data that every body of one answer needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer<'a> {
    pub(crate) id: &'a str,
    pub(crate) model: &'a str,
    pub(crate) created_s: i64,
    pub(crate) generation: &'a GenerationRequest,
    pub(crate) plan: &'a Plan,
    pub(crate) script: &'a Script,
}

impl Answer<'_> {
    /// One event of the stream.
    pub(crate) fn event(&self, part: StreamPart) -> Vec<u8> {
        let data = match part {
            StreamPart::Role { choice } => self.chunk(choice, Some(json!({"role": "assistant", "content": ""})), None),
            StreamPart::Tokens { choice, from, to, kind } => {
                return self.text_event(choice, kind, &self.plan.text(choice, from, to));
            }
            StreamPart::Finish { choice } => self.chunk(choice, None, Some(self.plan.reason.name())),
            StreamPart::Usage => {
                let mut body = self.envelope("chunk");
                body["choices"] = json!([]);
                body["usage"] = self.usage();
                body.to_string()
            }
            StreamPart::Done => String::from("[DONE]"),
            StreamPart::NotJson => String::from("{\"id\": this is not JSON"),
            StreamPart::Error => error(500, "server_error", "the stream failed (scripted fault)").to_string(),
        };
        self.framed(&data)
    }

    /// The event with this text of a choice.
    pub(crate) fn text_event(&self, choice: u64, kind: TokenKind, text: &str) -> Vec<u8> {
        let delta = match kind {
            TokenKind::Reasoning => json!({"reasoning_content": text}),
            TokenKind::Answer => json!({"content": text}),
        };
        self.framed(&self.chunk(choice, Some(delta), None))
    }

    fn framed(&self, data: &str) -> Vec<u8> {
        let newline = self.script.newline.text();
        format!("data: {data}{newline}{newline}").into_bytes()
    }

    /// The complete answer in one body.
    pub(crate) fn whole(&self) -> Value {
        let choices = (0..self.generation.choices).map(|choice| {
            let mut body = json!({"index": choice, "finish_reason": self.plan.reason.name(), "logprobs": null});
            let text = self.plan.answer_text(choice);
            if self.generation.api == Api::OpenAiText {
                body["text"] = Value::from(self.plan.reasoning_text(choice) + &text);
            } else {
                body["message"] = json!({"role": "assistant", "content": text});
                if self.plan.reasoning > 0 {
                    body["message"]["reasoning_content"] = Value::from(self.plan.reasoning_text(choice));
                }
            }
            body
        });
        let choices = choices.collect::<Vec<_>>();
        let mut body = self.envelope("");
        body["choices"] = Value::from(choices);
        if self.script.usage != UsagePosition::None && self.plan.fault != Some(Fault::NoUsage) {
            body["usage"] = self.usage();
        }
        body
    }

    fn chunk(&self, choice: u64, delta: Option<Value>, finish: Option<&str>) -> String {
        let mut body = self.envelope("chunk");
        let delta = delta.unwrap_or_else(|| json!({}));
        body["choices"] = if self.generation.api == Api::OpenAiText {
            // Completions have no reasoning field, so reasoning is sent as text.
            let text =
                delta.get("content").or_else(|| delta.get("reasoning_content")).cloned().unwrap_or_else(|| json!(""));
            json!([{"index": choice, "text": text, "finish_reason": finish, "logprobs": null}])
        } else {
            json!([{"index": choice, "delta": delta, "finish_reason": finish, "logprobs": null}])
        };
        let is_last = finish.is_some() && choice + 1 == self.generation.choices;
        if is_last && self.script.usage == UsagePosition::Last && self.plan.fault != Some(Fault::NoUsage) {
            body["usage"] = self.usage();
        } else if self.generation.wants_usage && self.script.usage == UsagePosition::Chunk {
            body["usage"] = Value::Null;
        }
        body.to_string()
    }

    fn envelope(&self, kind: &str) -> Value {
        let object = match (self.generation.api, kind) {
            (Api::OpenAiText, _) => "text_completion",
            (_, "chunk") => "chat.completion.chunk",
            _ => "chat.completion",
        };
        json!({"id": self.id, "object": object, "created": self.created_s, "model": self.model})
    }

    fn usage(&self) -> Value {
        let prompt = self.generation.prompt_tokens;
        let completion = self.plan.tokens * self.generation.choices;
        let mut usage =
            json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion});
        if let Some(cached) = self.script.cached_tokens {
            usage["prompt_tokens_details"] = json!({"cached_tokens": cached.min(prompt)});
        }
        if self.plan.reasoning > 0 {
            let reasoning = self.plan.reasoning * self.generation.choices;
            usage["completion_tokens_details"] = json!({"reasoning_tokens": reasoning});
        }
        usage
    }
}

/// An error in `OpenAI`'s format.
pub(crate) fn error(code: u16, kind: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

/// The list of models.
pub(crate) fn models(script: &Script, created_s: i64) -> Value {
    let models: Vec<_> = script.listed_models().into_iter().map(|name| model(name, created_s)).collect();
    json!({"object": "list", "data": models})
}

/// One model.
pub(crate) fn model(name: &str, created_s: i64) -> Value {
    json!({"id": name, "object": "model", "created": created_s, "owned_by": "ergometer", "max_model_len": CONTEXT})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_answer<T>(body: &str, api: Api, script: &Script, check: impl FnOnce(Answer<'_>) -> T) -> T {
        let generation = GenerationRequest::read(api, body.as_bytes()).unwrap();
        let plan = Plan::draw(script, 0, &generation, None);
        check(Answer { id: "x-1", model: "m", created_s: 7, generation: &generation, plan: &plan, script })
    }

    fn script() -> Script {
        Script { answer: Some(String::from("forty two")), ..Script::default() }
    }

    fn event(answer: &Answer<'_>, part: StreamPart) -> Value {
        let event = String::from_utf8(answer.event(part)).unwrap();
        let data = event.strip_prefix("data: ").and_then(|event| event.strip_suffix("\n\n")).unwrap();
        serde_json::from_str(data).unwrap()
    }

    const CHAT: &str = r#"{"messages":[{"content":"how much"}],"stream":true,"stream_options":{"include_usage":true}}"#;

    #[test]
    fn a_chat_stream_has_role_content_reason_and_usage() {
        with_answer(CHAT, Api::OpenAiChat, &script(), |answer| {
            assert_eq!(
                event(&answer, StreamPart::Role { choice: 0 }),
                json!({"id": "x-1", "object": "chat.completion.chunk", "created": 7, "model": "m", "usage": null, "choices": [
                    {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": null, "logprobs": null}]})
            );
            let part = StreamPart::Tokens { choice: 0, from: 1, to: 2, kind: TokenKind::Answer };
            assert_eq!(event(&answer, part)["choices"][0]["delta"], json!({"content": " two"}));
            let finish = event(&answer, StreamPart::Finish { choice: 0 });
            assert_eq!(finish["choices"][0]["finish_reason"], "stop");
            assert_eq!(finish["choices"][0]["delta"], json!({}));
            let usage = event(&answer, StreamPart::Usage);
            assert_eq!(usage["choices"], json!([]));
            assert_eq!(usage["usage"], json!({"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}));
            assert_eq!(answer.event(StreamPart::Done), b"data: [DONE]\n\n");
            assert_eq!(event(&answer, StreamPart::Error)["error"]["code"], 500);
        });
    }

    #[test]
    fn usage_can_be_on_the_last_chunk_and_lines_can_end_in_crlf() {
        let odd = Script { usage: UsagePosition::Last, newline: crate::script::Newline::Crlf, ..script() };
        with_answer(CHAT, Api::OpenAiChat, &odd, |answer| {
            assert!(answer.event(StreamPart::Done).ends_with(b"[DONE]\r\n\r\n"));
            let finish = String::from_utf8(answer.event(StreamPart::Finish { choice: 0 })).unwrap();
            assert!(finish.contains("\"completion_tokens\":2"), "{finish}");
        });
    }

    #[test]
    fn usage_can_report_cached_tokens() {
        for (cached, reported) in [(1, 1), (9, 2)] {
            let script = Script { cached_tokens: Some(cached), ..script() };
            with_answer(CHAT, Api::OpenAiChat, &script, |answer| {
                let usage = event(&answer, StreamPart::Usage);
                assert_eq!(usage["usage"]["prompt_tokens_details"], json!({"cached_tokens": reported}));
            });
        }
    }

    #[test]
    fn whole_answers_have_every_choice() {
        let script = Script { reasoning: 1, ..script() };
        let body = r#"{"messages":[{"content":"how much"}],"n":2}"#;
        with_answer(body, Api::OpenAiChat, &script, |answer| {
            let whole = answer.whole();
            assert_eq!(whole["object"], "chat.completion");
            assert_eq!(whole["choices"][1]["message"]["content"], "forty two");
            assert!(whole["choices"][0]["message"]["reasoning_content"].is_string());
            assert_eq!(whole["usage"]["completion_tokens"], 6);
            assert_eq!(whole["usage"]["completion_tokens_details"]["reasoning_tokens"], 2);
        });
        with_answer(r#"{"prompt":"a"}"#, Api::OpenAiText, &self::script(), |answer| {
            assert_eq!(answer.whole()["choices"][0]["text"], "forty two");
            assert_eq!(answer.whole()["object"], "text_completion");
        });
    }

    #[test]
    fn the_bad_sse_fault_is_not_valid_json() {
        with_answer(CHAT, Api::OpenAiChat, &script(), |answer| {
            let event = String::from_utf8(answer.event(StreamPart::NotJson)).unwrap();
            let data = event.strip_prefix("data: ").unwrap();
            assert!(serde_json::from_str::<Value>(data).is_err());
        });
    }
}
