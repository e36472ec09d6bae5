//! Bodies in `OpenAI`'s format: chunks of a stream, whole answers, lists, errors.
//!
//! Pure: in go a plan and what was asked, out come JSON values and lines of an event stream.

use serde_json::{Value, json};

use crate::asked::{Api, Asked};
use crate::fault::Fault;
use crate::plan::Plan;
use crate::score::{Kind, Part};
use crate::script::{Script, UsagePlace};

/// The longest prompt and answer together that the mock says it takes.
pub(crate) const CONTEXT: u64 = 32_768;

/// What every body of one answer has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer<'a> {
    pub(crate) id: &'a str,
    pub(crate) model: &'a str,
    pub(crate) created_s: i64,
    pub(crate) asked: &'a Asked,
    pub(crate) plan: &'a Plan,
    pub(crate) script: &'a Script,
}

impl Answer<'_> {
    /// One event of the stream.
    pub(crate) fn event(&self, part: Part) -> Vec<u8> {
        let data = match part {
            Part::Role { choice } => self.chunk(choice, Some(json!({"role": "assistant", "content": ""})), None),
            Part::Tokens { choice, from, to, kind } => {
                return self.text_event(choice, kind, &self.plan.text(choice, from, to));
            }
            Part::Finish { choice } => self.chunk(choice, None, Some(self.plan.reason.name())),
            Part::Usage => {
                let mut body = self.envelope("chunk");
                body["choices"] = json!([]);
                body["usage"] = self.usage();
                body.to_string()
            }
            Part::Done => String::from("[DONE]"),
            Part::NotJson => String::from("{\"id\": this is not JSON"),
            Part::Error => {
                error(500, "server_error", "the mock server broke the stream, as its script says").to_string()
            }
        };
        self.framed(&data)
    }

    /// The event of some text of a choice.
    pub(crate) fn text_event(&self, choice: u64, kind: Kind, text: &str) -> Vec<u8> {
        let delta = match kind {
            Kind::Reasoning => json!({"reasoning_content": text}),
            Kind::Answer => json!({"content": text}),
        };
        self.framed(&self.chunk(choice, Some(delta), None))
    }

    fn framed(&self, data: &str) -> Vec<u8> {
        let newline = self.script.newline.text();
        format!("data: {data}{newline}{newline}").into_bytes()
    }

    /// The whole answer in one body.
    pub(crate) fn whole(&self) -> Value {
        let choices = (0..self.asked.choices).map(|choice| {
            let mut body = json!({"index": choice, "finish_reason": self.plan.reason.name(), "logprobs": null});
            let text = self.plan.answer_text(choice);
            if self.asked.api == Api::OpenAiText {
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
        if self.script.usage != UsagePlace::None && self.plan.fault != Some(Fault::NoUsage) {
            body["usage"] = self.usage();
        }
        body
    }

    fn chunk(&self, choice: u64, delta: Option<Value>, finish: Option<&str>) -> String {
        let mut body = self.envelope("chunk");
        let delta = delta.unwrap_or_else(|| json!({}));
        body["choices"] = if self.asked.api == Api::OpenAiText {
            // Completions know no reasoning: it is text like any other.
            let text =
                delta.get("content").or_else(|| delta.get("reasoning_content")).cloned().unwrap_or_else(|| json!(""));
            json!([{"index": choice, "text": text, "finish_reason": finish, "logprobs": null}])
        } else {
            json!([{"index": choice, "delta": delta, "finish_reason": finish, "logprobs": null}])
        };
        let is_last = finish.is_some() && choice + 1 == self.asked.choices;
        if is_last && self.script.usage == UsagePlace::Last && self.plan.fault != Some(Fault::NoUsage) {
            body["usage"] = self.usage();
        } else if self.asked.wants_usage && self.script.usage == UsagePlace::Chunk {
            body["usage"] = Value::Null;
        }
        body.to_string()
    }

    fn envelope(&self, kind: &str) -> Value {
        let object = match (self.asked.api, kind) {
            (Api::OpenAiText, _) => "text_completion",
            (_, "chunk") => "chat.completion.chunk",
            _ => "chat.completion",
        };
        json!({"id": self.id, "object": object, "created": self.created_s, "model": self.model})
    }

    fn usage(&self) -> Value {
        let prompt = self.asked.prompt_tokens;
        let completion = self.plan.tokens * self.asked.choices;
        let mut usage =
            json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion});
        if self.plan.reasoning > 0 {
            let reasoning = self.plan.reasoning * self.asked.choices;
            usage["completion_tokens_details"] = json!({"reasoning_tokens": reasoning});
        }
        usage
    }
}

/// An error as `OpenAI` writes it.
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

    fn with_answer<T>(body: &str, api: Api, script: &Script, look: impl FnOnce(Answer<'_>) -> T) -> T {
        let asked = Asked::read(api, body.as_bytes()).unwrap();
        let plan = Plan::draw(script, 0, &asked, None);
        look(Answer { id: "x-1", model: "m", created_s: 7, asked: &asked, plan: &plan, script })
    }

    fn script() -> Script {
        Script { answer: Some(String::from("forty two")), ..Script::default() }
    }

    fn event(answer: &Answer<'_>, part: Part) -> Value {
        let event = String::from_utf8(answer.event(part)).unwrap();
        let data = event.strip_prefix("data: ").and_then(|event| event.strip_suffix("\n\n")).unwrap();
        serde_json::from_str(data).unwrap()
    }

    const CHAT: &str = r#"{"messages":[{"content":"how much"}],"stream":true,"stream_options":{"include_usage":true}}"#;

    #[test]
    fn a_chat_stream_has_role_content_reason_and_usage() {
        with_answer(CHAT, Api::OpenAiChat, &script(), |answer| {
            assert_eq!(
                event(&answer, Part::Role { choice: 0 }),
                json!({"id": "x-1", "object": "chat.completion.chunk", "created": 7, "model": "m", "usage": null, "choices": [
                    {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": null, "logprobs": null}]})
            );
            let part = Part::Tokens { choice: 0, from: 1, to: 2, kind: Kind::Answer };
            assert_eq!(event(&answer, part)["choices"][0]["delta"], json!({"content": " two"}));
            let finish = event(&answer, Part::Finish { choice: 0 });
            assert_eq!(finish["choices"][0]["finish_reason"], "stop");
            assert_eq!(finish["choices"][0]["delta"], json!({}));
            let usage = event(&answer, Part::Usage);
            assert_eq!(usage["choices"], json!([]));
            assert_eq!(usage["usage"], json!({"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}));
            assert_eq!(answer.event(Part::Done), b"data: [DONE]\n\n");
            assert_eq!(event(&answer, Part::Error)["error"]["code"], 500);
        });
    }

    #[test]
    fn usage_can_stand_on_the_last_chunk_and_lines_can_end_in_crlf() {
        let odd = Script { usage: UsagePlace::Last, newline: crate::script::Newline::Crlf, ..script() };
        with_answer(CHAT, Api::OpenAiChat, &odd, |answer| {
            assert!(answer.event(Part::Done).ends_with(b"[DONE]\r\n\r\n"));
            let finish = String::from_utf8(answer.event(Part::Finish { choice: 0 })).unwrap();
            assert!(finish.contains("\"completion_tokens\":2"), "{finish}");
        });
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
    fn not_json_is_not_json() {
        with_answer(CHAT, Api::OpenAiChat, &script(), |answer| {
            let event = String::from_utf8(answer.event(Part::NotJson)).unwrap();
            let data = event.strip_prefix("data: ").unwrap();
            assert!(serde_json::from_str::<Value>(data).is_err());
        });
    }
}
