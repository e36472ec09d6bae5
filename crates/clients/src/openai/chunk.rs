//! The JSON objects of an answer, with the fields that different servers send.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::reading::whole_number;

/// A chunk of a stream, or a whole answer.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    pub(super) usage: Option<UsageField>,
    #[serde(default)]
    pub(super) timings: Option<Timings>,
    #[serde(default)]
    pub(super) error: Option<Value>,
    /// `error` if the whole object is an error.
    #[serde(borrow, default)]
    pub(super) object: Option<Word<'a>>,
    #[serde(borrow, default)]
    pub(super) message: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    pub(super) index: u32,
    /// The new content, in a stream.
    #[serde(borrow, default)]
    pub(super) delta: Option<Message<'a>>,
    /// The whole content, in an answer without streaming.
    #[serde(borrow, default)]
    pub(super) message: Option<Message<'a>>,
    /// The text of a completion.
    #[serde(borrow, default)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Option<Word<'a>>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Message<'a> {
    /// Present in the first chunk of most servers, and in every chunk of some.
    #[serde(default)]
    pub(super) role: Option<IgnoredAny>,
    #[serde(borrow, default)]
    pub(super) content: Option<Text<'a>>,
    /// The reasoning, as vLLM, SGLang, llama.cpp and DeepSeek name it.
    #[serde(borrow, default)]
    pub(super) reasoning_content: Option<Text<'a>>,
    /// The reasoning, as OpenRouter, Groq and newer vLLM name it.
    #[serde(borrow, default)]
    pub(super) reasoning: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<Vec<ToolCall<'a>>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolCall<'a> {
    #[serde(borrow, default)]
    pub(super) function: Option<Function<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    pub(super) name: Option<Word<'a>>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<Text<'a>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct UsageField {
    #[serde(default)]
    pub(super) prompt_tokens: Option<u64>,
    #[serde(default)]
    pub(super) completion_tokens: Option<u64>,
    /// Prompt tokens that the server took from its cache.
    #[serde(default, rename = "prompt_tokens_details", deserialize_with = "cached_tokens")]
    pub(super) cached: Option<u64>,
}

/// The count in the details of the prompt tokens; `None` if it is not a whole number.
fn cached_tokens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let details = Value::deserialize(deserializer)?;
    Ok(details.get("cached_tokens").and_then(Value::as_u64))
}

/// The counts and durations of llama.cpp. `prompt_n` excludes prompt tokens that were in the cache.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Timings {
    #[serde(default)]
    pub(super) prompt_n: Option<f64>,
    /// Prompt tokens that were in the cache; older versions do not report them.
    #[serde(default, deserialize_with = "whole_number")]
    pub(super) cache_n: Option<u64>,
    #[serde(default)]
    pub(super) prompt_ms: Option<f64>,
    #[serde(default)]
    pub(super) predicted_n: Option<f64>,
    #[serde(default)]
    pub(super) predicted_ms: Option<f64>,
}

/// A string that is borrowed if possible: serde makes every optional `Cow` owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word<'a>(Cow<'a, str>);

impl Word<'_> {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Word<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(WordVisitor)
    }
}

struct WordVisitor;

impl<'de> Visitor<'de> for WordVisitor {
    type Value = Word<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Word(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Word(Cow::Owned(text.to_owned())))
    }
}

/// A string, or the joined strings of a list of parts; empty for other values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of parts")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Text::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Text::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Text::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Text::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Text::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let mut whole = String::new();
        while let Some(Text(part)) = parts.next_element()? {
            whole.push_str(&part);
        }
        Ok(Text(Cow::Owned(whole)))
    }

    /// The text of a part: `{"type": "text", "text": ".."}`.
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut found = Text::default();
        while let Some(name) = fields.next_key::<Word<'de>>()? {
            if matches!(name.as_str(), "text" | "message") {
                found = fields.next_value()?;
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}
