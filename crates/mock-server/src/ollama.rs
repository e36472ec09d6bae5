//! Builds bodies in Ollama's format: lines of a stream, complete answers, lists and errors.
//!
//! Durations are in nanoseconds.

use serde_json::{Value, json};

use crate::clock::rfc3339;
use crate::fault::Fault;
use crate::generation_request::Api;
use crate::openai::{Answer, CONTEXT};
use crate::plan::FinishReason;
use crate::schedule::{StreamPart, TokenKind};
use crate::script::{Script, UsagePosition};

/// The version that the mock reports.
pub(crate) const VERSION: &str = "0.12.0";

/// The actual times of a request, for the durations at the end of an answer.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "names of raw numbers end with their unit")]
pub(crate) struct AnswerTimes {
    pub(crate) received_ns: i64,
    /// When the request got a slot.
    pub(crate) started_ns: i64,
    pub(crate) first_token_ns: Option<i64>,
    pub(crate) now_ns: i64,
}

impl Answer<'_> {
    /// One line of the stream.
    pub(crate) fn line(&self, part: StreamPart, times: &AnswerTimes) -> Vec<u8> {
        let line = match part {
            StreamPart::Tokens { choice, from, to, kind } => {
                self.piece(&self.plan.text(choice, from, to), kind, times.now_ns).to_string()
            }
            StreamPart::Finish { .. } => self.last("", "", times).to_string(),
            StreamPart::Error => error("the stream failed (scripted fault)").to_string(),
            StreamPart::NotJson => String::from("{\"model\": this is not JSON"),
            StreamPart::Role { .. } | StreamPart::Usage | StreamPart::Done => return Vec::new(),
        };
        format!("{line}{}", self.script.newline.text()).into_bytes()
    }

    /// The complete answer in one body.
    pub(crate) fn whole_line(&self, times: &AnswerTimes) -> Value {
        self.last(&self.plan.reasoning_text(0), &self.plan.answer_text(0), times)
    }

    fn piece(&self, text: &str, kind: TokenKind, now_ns: i64) -> Value {
        let mut body = json!({"model": self.model, "created_at": rfc3339(now_ns), "done": false});
        let (thinking, content) = match kind {
            TokenKind::Reasoning => (text, ""),
            TokenKind::Answer => ("", text),
        };
        self.put(&mut body, thinking, content);
        body
    }

    fn put(&self, body: &mut Value, thinking: &str, content: &str) {
        if self.generation.api == Api::OllamaChat {
            body["message"] = json!({"role": "assistant", "content": content});
            if !thinking.is_empty() {
                body["message"]["thinking"] = Value::from(thinking);
            }
        } else {
            body["response"] = Value::from(content);
            if !thinking.is_empty() {
                body["thinking"] = Value::from(thinking);
            }
        }
    }

    fn last(&self, thinking: &str, content: &str, times: &AnswerTimes) -> Value {
        let mut body = json!({"model": self.model, "created_at": rfc3339(times.now_ns), "done": true});
        self.put(&mut body, thinking, content);
        body["done_reason"] = Value::from(match self.plan.reason {
            _ if self.generation.only_loads => "load",
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
        });
        if self.script.usage == UsagePosition::None
            || self.plan.fault == Some(Fault::NoUsage)
            || self.generation.only_loads
        {
            return body;
        }
        let first_ns = times.first_token_ns.unwrap_or(times.now_ns);
        body["total_duration"] = Value::from(times.now_ns - times.received_ns);
        // The wait for a slot is reported as the time to load the model.
        body["load_duration"] = Value::from(times.started_ns - times.received_ns);
        body["prompt_eval_count"] = Value::from(self.generation.prompt_tokens);
        body["prompt_eval_duration"] = Value::from(first_ns - times.started_ns);
        body["eval_count"] = Value::from(self.plan.tokens);
        body["eval_duration"] = Value::from(times.now_ns - first_ns);
        body
    }
}

/// An error in Ollama's format.
pub(crate) fn error(message: &str) -> Value {
    json!({"error": message})
}

/// The list of models.
pub(crate) fn tags(script: &Script, started_ns: i64) -> Value {
    let models = script.listed_models().into_iter().map(|name| {
        json!({
            "name": name,
            "model": name,
            "modified_at": rfc3339(started_ns),
            "size": 0,
            "digest": format!("{:064x}", crate::words::id(name)),
            "details": details(),
        })
    });
    json!({"models": models.collect::<Vec<_>>()})
}

/// The details of a model.
pub(crate) fn show(started_ns: i64) -> Value {
    json!({
        "modelfile": "# a script, not a model",
        "parameters": "",
        "template": "{{ .Prompt }}",
        "details": details(),
        "model_info": {"general.architecture": "mock", "general.parameter_count": 0, "mock.context_length": CONTEXT},
        "capabilities": ["completion"],
        "modified_at": rfc3339(started_ns),
    })
}

fn details() -> Value {
    json!({"parent_model": "", "format": "gguf", "family": "mock", "families": ["mock"], "parameter_size": "0", "quantization_level": "F16"})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation_request::GenerationRequest;
    use crate::plan::Plan;

    const TIMES: AnswerTimes =
        AnswerTimes { received_ns: 100, started_ns: 110, first_token_ns: Some(150), now_ns: 400 };

    fn with_answer(body: &str, api: Api, reasoning: u64, check: impl FnOnce(Answer<'_>)) {
        let script = Script { answer: Some(String::from("forty two")), reasoning, ..Script::default() };
        let generation = GenerationRequest::read(api, body.as_bytes()).unwrap();
        let plan = Plan::draw(&script, 0, &generation, None);
        check(Answer { id: "x", model: "m", created_s: 7, generation: &generation, plan: &plan, script: &script });
    }

    fn line(answer: &Answer<'_>, part: StreamPart) -> Value {
        let line = answer.line(part, &TIMES);
        assert!(line.ends_with(b"}\n"));
        serde_json::from_slice(&line).unwrap()
    }

    #[test]
    fn durations_sum_to_the_total() {
        with_answer(r#"{"prompt":"how much"}"#, Api::OllamaText, 0, |answer| {
            let piece = line(&answer, StreamPart::Tokens { choice: 0, from: 0, to: 1, kind: TokenKind::Answer });
            assert_eq!(
                piece,
                json!({"model": "m", "created_at": "1970-01-01T00:00:00.000000400Z", "response": "forty", "done": false})
            );
            let last = line(&answer, StreamPart::Finish { choice: 0 });
            assert_eq!(
                (&last["done"], &last["done_reason"], &last["response"]),
                (&json!(true), &json!("stop"), &json!(""))
            );
            assert_eq!((&last["prompt_eval_count"], &last["eval_count"]), (&json!(2), &json!(2)));
            let parts =
                ["load_duration", "prompt_eval_duration", "eval_duration"].map(|name| last[name].as_i64().unwrap());
            assert_eq!((parts, last["total_duration"].as_i64()), ([10, 40, 250], Some(300)));
        });
    }

    #[test]
    fn chat_has_messages_and_thinking() {
        with_answer(r#"{"messages":[{"content":"how much"}]}"#, Api::OllamaChat, 1, |answer| {
            let thought = line(&answer, StreamPart::Tokens { choice: 0, from: 0, to: 1, kind: TokenKind::Reasoning });
            assert_eq!(thought["message"]["content"], "");
            assert!(thought["message"]["thinking"].is_string());
            let whole = answer.whole_line(&TIMES);
            assert_eq!(whole["message"]["content"], "forty two");
            assert_eq!(whole["eval_count"], 3);
        });
    }

    #[test]
    fn a_request_without_a_prompt_loads_the_model() {
        with_answer(r#"{"model":"m"}"#, Api::OllamaText, 0, |answer| {
            let last = line(&answer, StreamPart::Finish { choice: 0 });
            assert_eq!((&last["done_reason"], last.get("eval_count")), (&json!("load"), None));
        });
    }
}
