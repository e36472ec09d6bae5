//! Parses the JSON body of a generation request or a tokenize request.
//!
//! Invalid bodies give a message for the client. Fields that the mock does not use are ignored.

use serde::Deserialize;
use serde_json::Value;

use crate::words;

/// The maximum number of choices of one request.
const MAX_CHOICES: u64 = 128;

/// The API and the endpoint of a generation request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    /// `/v1/chat/completions`
    OpenAiChat,
    /// `/v1/completions`
    OpenAiText,
    /// `/api/chat`
    OllamaChat,
    /// `/api/generate`
    OllamaText,
}

impl Api {
    pub(crate) const fn is_ollama(self) -> bool {
        matches!(self, Self::OllamaChat | Self::OllamaText)
    }
}

/// How the answer is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    Stream,
    /// In one body.
    Whole,
}

/// The parameters of a generation request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GenerationRequest {
    pub(crate) api: Api,
    pub(crate) model: Option<String>,
    pub(crate) prompt_tokens: u64,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) delivery: Delivery,
    pub(crate) choices: u64,
    /// Whether the stream should send usage in a separate chunk.
    pub(crate) wants_usage: bool,
    /// Ollama: a request without a prompt only loads the model.
    pub(crate) only_loads: bool,
}

#[derive(Debug, Deserialize)]
struct Body {
    model: Option<String>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<i64>,
    max_completion_tokens: Option<i64>,
    n: Option<u64>,
    messages: Option<Vec<Message>>,
    prompt: Option<Value>,
    system: Option<String>,
    options: Option<OllamaOptions>,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct OllamaOptions {
    num_predict: Option<i64>,
}

#[derive(Debug, Deserialize)]
struct Message {
    content: Option<Value>,
}

impl GenerationRequest {
    /// Parses the body of a request to this endpoint.
    pub(crate) fn read(api: Api, body: &[u8]) -> Result<Self, String> {
        let body: Body =
            serde_json::from_slice(body).map_err(|error| format!("the body is not a valid request: {error}"))?;
        let (prompt_tokens, prompts) = match api {
            Api::OpenAiChat => {
                let messages = body.messages.as_deref().filter(|messages| !messages.is_empty());
                (message_tokens(messages.ok_or("`messages` is missing or empty")?), 1)
            }
            Api::OpenAiText => prompt_tokens(body.prompt.as_ref().ok_or("`prompt` is missing")?)?,
            Api::OllamaChat => (message_tokens(body.messages.as_deref().unwrap_or_default()), 1),
            Api::OllamaText => {
                let system = body.system.as_deref().map_or(0, words::count);
                (system + body.prompt.as_ref().map_or(Ok((0, 1)), prompt_tokens)?.0, 1)
            }
        };
        let choices = if api.is_ollama() { 1 } else { body.n.unwrap_or(1).saturating_mul(prompts) };
        if !(1..=MAX_CHOICES).contains(&choices) {
            return Err(format!("`n` must be from 1 to {MAX_CHOICES}"));
        }
        let max_tokens = if api.is_ollama() {
            // Ollama: -1 is no limit, -2 fills the context.
            body.options.and_then(|options| options.num_predict).and_then(|max| u64::try_from(max).ok())
        } else {
            let max = body.max_completion_tokens.or(body.max_tokens);
            max.map(|max| u64::try_from(max).ok().filter(|max| *max > 0).ok_or("`max_tokens` must be at least 1"))
                .transpose()?
        };
        let streams = body.stream.unwrap_or(api.is_ollama());
        Ok(Self {
            api,
            model: body.model,
            prompt_tokens,
            max_tokens,
            delivery: if streams { Delivery::Stream } else { Delivery::Whole },
            choices,
            wants_usage: body.stream_options.and_then(|options| options.include_usage).unwrap_or(false),
            only_loads: api.is_ollama() && prompt_tokens == 0,
        })
    }
}

fn message_tokens(messages: &[Message]) -> u64 {
    messages.iter().filter_map(|message| message.content.as_ref()).map(content_tokens).sum()
}

/// Content is a string, or a list of parts, some of which have text.
fn content_tokens(content: &Value) -> u64 {
    match content {
        Value::String(text) => words::count(text),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).map(words::count).sum(),
        _ => 0,
    }
}

/// A prompt is a string, token ids, or a list of either. Returns the number of tokens and of prompts.
fn prompt_tokens(prompt: &Value) -> Result<(u64, u64), String> {
    match prompt {
        Value::String(text) => Ok((words::count(text), 1)),
        Value::Array(items) if items.iter().all(Value::is_u64) => Ok((items.len() as u64, 1)),
        Value::Array(items) => {
            let counts = items.iter().map(|item| prompt_tokens(item).map(|(tokens, _)| tokens));
            Ok((counts.sum::<Result<u64, _>>()?, items.len() as u64))
        }
        _ => Err(String::from("`prompt` must be a string, a list of strings or token ids")),
    }
}

/// The token ids of a request to `/tokenize`, by the API that the request uses.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TokenizeRequest {
    /// The request has `prompt` or `messages`.
    Vllm(Vec<u32>),
    /// The request has `content`.
    LlamaCpp(Vec<u32>),
}

/// Parses the body of a request to `/tokenize`.
pub(crate) fn tokenize(body: &[u8]) -> Result<TokenizeRequest, String> {
    let body: Value = serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    let ids = |text: &str| words::tokens(text).into_iter().map(words::id).collect::<Vec<_>>();
    if let Some(content) = body["content"].as_str() {
        return Ok(TokenizeRequest::LlamaCpp(ids(content)));
    }
    if let Some(prompt) = body["prompt"].as_str() {
        return Ok(TokenizeRequest::Vllm(ids(prompt)));
    }
    let messages = body["messages"].as_array().ok_or("`prompt`, `messages` or `content` is missing")?;
    let contents = messages.iter().map(|message| match &message["content"] {
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join(" "),
        content => content.as_str().unwrap_or_default().to_owned(),
    });
    Ok(TokenizeRequest::Vllm(contents.flat_map(|content| ids(&content)).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(api: Api, body: &str) -> Result<GenerationRequest, String> {
        GenerationRequest::read(api, body.as_bytes())
    }

    #[test]
    fn chat_requests_are_read() {
        let generation = read(
            Api::OpenAiChat,
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":9,"max_completion_tokens":7,"n":2,
                "messages":[{"role":"system","content":"be brief"},{"role":"user","content":[{"type":"text","text":"how are you"},{"type":"image_url"}]}]}"#,
        )
        .unwrap();
        assert_eq!((generation.prompt_tokens, generation.max_tokens, generation.choices), (5, Some(7), 2));
        assert_eq!(
            (generation.delivery, generation.wants_usage, generation.only_loads),
            (Delivery::Stream, true, false)
        );
    }

    #[test]
    fn four_forms_of_prompts_are_read() {
        for (prompt, tokens, choices) in
            [(r#""a b c""#, 3, 1), (r#"["a b","c"]"#, 3, 2), ("[1,2,3,4]", 4, 1), ("[[1,2],[3]]", 3, 2)]
        {
            let generation = read(Api::OpenAiText, &format!(r#"{{"prompt":{prompt}}}"#)).unwrap();
            assert_eq!((generation.prompt_tokens, generation.choices), (tokens, choices), "{prompt}");
            assert_eq!(generation.delivery, Delivery::Whole);
        }
    }

    #[test]
    fn ollama_streams_by_default() {
        let generation =
            read(Api::OllamaText, r#"{"model":"m","prompt":"why so blue","options":{"num_predict":5}}"#).unwrap();
        assert_eq!(
            (generation.delivery, generation.max_tokens, generation.prompt_tokens),
            (Delivery::Stream, Some(5), 3)
        );
        let generation =
            read(Api::OllamaChat, r#"{"model":"m","messages":[],"stream":false,"options":{"num_predict":-1}}"#)
                .unwrap();
        assert_eq!((generation.delivery, generation.max_tokens, generation.only_loads), (Delivery::Whole, None, true));
    }

    #[test]
    fn invalid_bodies_name_the_field() {
        for (body, field) in [
            ("", "not a valid request"),
            ("[]", "not a valid request"),
            (r#"{"messages":[]}"#, "`messages`"),
            (r#"{"messages":[{"content":"a"}],"n":0}"#, "`n`"),
            (r#"{"messages":[{"content":"a"}],"max_tokens":0}"#, "`max_tokens`"),
        ] {
            let error = read(Api::OpenAiChat, body).unwrap_err();
            assert!(error.contains(field), "{body}: {error}");
        }
        assert!(read(Api::OpenAiText, r#"{"prompt":{}}"#).unwrap_err().contains("`prompt`"));
    }

    #[test]
    fn both_forms_of_tokenize_are_read() {
        let Ok(TokenizeRequest::Vllm(ids)) = tokenize(br#"{"model":"m","prompt":"a b a"}"#) else { panic!("no count") };
        assert_eq!((ids.len(), ids[0]), (3, ids[2]));
        assert!(matches!(tokenize(br#"{"content":"a b"}"#), Ok(TokenizeRequest::LlamaCpp(ids)) if ids.len() == 2));
        assert!(
            matches!(tokenize(br#"{"messages":[{"content":"a b"},{"content":"c"}]}"#), Ok(TokenizeRequest::Vllm(ids)) if ids.len() == 3)
        );
        assert!(tokenize(b"{}").is_err());
    }
}
