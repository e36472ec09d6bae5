//! Encodes text as tokens and decodes tokens with the tokenizer of a model, without truncation and padding.

use std::error::Error;

use ergometer_diagnostics::contain_panic;
use serde::de::IgnoredAny;

use crate::config::parse_json;
use crate::error::ModelError;
use crate::files::File;
use crate::token_bytes::bytes_per_token;

/// The error type of the `tokenizers` crate.
type BoxedError = Box<dyn Error + Send + Sync>;

/// Where special tokens come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Specials {
    /// The text already contains them, because a chat template wrote it.
    InText,
    /// The tokenizer adds its own around the text.
    Added,
}

/// The tokenizer of a model.
pub(crate) struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// The most bytes of text that a token covers, on average over a long text.
    bytes_per_token: usize,
}

impl Tokenizer {
    pub(crate) fn load(file: &File) -> Result<Self, ModelError> {
        let wrong = |cause| ModelError::Tokenizer { path: file.path.clone(), cause };
        // `tokenizers` 0.23 panics on some malformed decoders and normalizers. Parsing the JSON first finds truncated
        // files; a panic on valid JSON becomes an error below.
        parse_json::<IgnoredAny>(&file.path, &file.bytes)?;
        let read = || tokenizers::Tokenizer::from_bytes(&*file.bytes);
        let panicked = || Err(BoxedError::from("the normalizer or the decoder is malformed"));
        let mut inner = contain_panic(read).unwrap_or_else(|_| panicked()).map_err(wrong)?;
        // Some files contain truncation settings from training, which would silently truncate prompts.
        inner.with_truncation(None).map_err(wrong)?;
        inner.with_padding(None);
        let bytes_per_token = bytes_per_token(&inner);
        Ok(Self { inner, bytes_per_token })
    }

    /// The tokens of a text. The text of a special token becomes that token wherever it occurs.
    pub(crate) fn encode(&self, text: &str, specials: Specials) -> Result<Vec<u32>, BoxedError> {
        Ok(self.inner.encode_fast(text, specials == Specials::Added)?.get_ids().to_vec())
    }

    /// The length in bytes of the longest text that can have this many tokens.
    pub(crate) fn most_bytes(&self, tokens: usize) -> usize {
        self.bytes_per_token.saturating_mul(tokens)
    }

    /// The text of tokens, without special tokens.
    pub(crate) fn decode(&self, tokens: &[u32]) -> Result<String, BoxedError> {
        self.inner.decode(tokens, true)
    }

    /// The token with exactly this text.
    pub(crate) fn token(&self, text: &str) -> Option<u32> {
        self.inner.token_to_id(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::Demo;

    #[test]
    fn a_special_token_is_one_token_and_decodes_to_no_text() {
        let tokenizer = Tokenizer::load(&Demo::Tiny.files().tokenizer).unwrap();
        let tokens = tokenizer.encode("<s>hé<answer>", Specials::InText).unwrap();
        assert_eq!(tokens, [256, 104, 0xC3, 0xA9, 259]);
        assert_eq!(tokenizer.decode(&tokens).unwrap(), "hé");
        assert_eq!(tokenizer.token("</s>"), Some(257));
    }

    #[test]
    fn a_panic_inside_the_tokenizers_crate_becomes_an_error() {
        let mut file = Demo::Tiny.files().tokenizer;
        let mut json: serde_json::Value = serde_json::from_slice(&file.bytes).unwrap();
        json["normalizer"] = serde_json::json!({"type": "Precompiled", "precompiled_charsmap": 1});
        file.bytes = serde_json::to_vec(&json).unwrap().into();
        assert!(matches!(Tokenizer::load(&file), Err(ModelError::Tokenizer { .. })));
        file.bytes = file.bytes[..file.bytes.len() / 2].to_vec().into();
        assert!(matches!(Tokenizer::load(&file), Err(ModelError::Json { .. })));
    }

    #[test]
    fn truncation_settings_in_the_file_are_ignored() {
        let mut file = Demo::Tiny.files().tokenizer;
        let mut json: serde_json::Value = serde_json::from_slice(&file.bytes).unwrap();
        json["truncation"] =
            serde_json::json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
        file.bytes = serde_json::to_vec(&json).unwrap().into();
        let tokens = Tokenizer::load(&file).unwrap().encode("abcdef", Specials::Added).unwrap();
        assert_eq!(tokens.len(), 6);
    }
}
