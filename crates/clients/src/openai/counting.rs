//! Counts tokens with the tokenizer endpoint of the server, for servers that send no counts with their answers.

use serde_json::{Value, json};

use super::OpenAi;
use crate::{Request, TokenSource, Usage};

impl OpenAi {
    /// Counts tokens with `/tokenize` of vLLM or llama.cpp; `None` if the server has no such endpoint.
    pub(super) async fn count_tokens(&self, request: &Request<'_>, answer: &[&str]) -> Option<Usage> {
        let (name, conversation) = self.conversation(request);
        let input = if name == "messages" {
            match self.tokenize(&json!({"model": self.model, "messages": conversation})).await {
                Some(count) if count > 0 => count,
                _ => self.tokenize_rendered(&conversation).await?,
            }
        } else {
            self.tokenize(&self.plain(conversation.as_str()?, true)).await?
        };
        let mut output = 0;
        for part in answer.iter().filter(|part| !part.is_empty()) {
            output += self.tokenize(&self.plain(part, false)).await?;
        }
        Some(Usage { input, output, cached: None, source: TokenSource::Tokenize })
    }

    /// A request body with the text in the fields of both servers: `prompt` of vLLM and `content` of llama.cpp.
    fn plain(&self, text: &str, has_specials: bool) -> Value {
        json!({
            "model": self.model, "prompt": text, "content": text,
            "add_special_tokens": has_specials, "add_special": has_specials,
        })
    }

    /// Counts the tokens of a conversation with llama.cpp, which must apply the chat template first.
    async fn tokenize_rendered(&self, conversation: &Value) -> Option<u64> {
        let url = self.connection.base().path("apply-template");
        let answer = self.connection.ask(&url, &json!({"messages": conversation})).await.ok()?;
        let rendered: Value = serde_json::from_slice(&answer).ok()?;
        let text = rendered.get("prompt")?.as_str()?;
        self.tokenize(&json!({"content": text, "add_special": true, "parse_special": true})).await
    }

    async fn tokenize(&self, body: &Value) -> Option<u64> {
        let answer = self.connection.ask(&self.connection.base().path("tokenize"), body).await.ok()?;
        let answer: Value = serde_json::from_slice(&answer).ok()?;
        let listed = || Some(answer.get("tokens")?.as_array()?.len() as u64);
        answer.get("count").and_then(Value::as_u64).or_else(listed)
    }
}
