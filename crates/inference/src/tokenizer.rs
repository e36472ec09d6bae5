//! Text to tokens and back: the tokenizer of the model, with nothing cut off and nothing filled up.

use std::error::Error;
use std::panic::catch_unwind;

use serde::de::IgnoredAny;

use crate::config::parse_json;
use crate::error::ModelError;
use crate::files::File;

/// What a call into the `tokenizers` crate may fail with.
type BoxedError = Box<dyn Error + Send + Sync>;

/// What becomes of special tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Specials {
    /// The text has them: it comes from a template.
    InText,
    /// The tokenizer puts its own around the text.
    Added,
}

/// A tokenizer.
pub(crate) struct Tokenizer {
    inner: tokenizers::Tokenizer,
}

impl Tokenizer {
    pub(crate) fn load(file: &File) -> Result<Self, ModelError> {
        let wrong = |cause| ModelError::Tokenizer { path: file.path.clone(), cause };
        // `tokenizers` 0.23 panics inside its decoders and normalizers on some of what it cannot read. A file cut short
        // is found here first; for what is JSON and still not a tokenizer, the panic is made the error it should be.
        parse_json::<IgnoredAny>(&file.path, &file.bytes)?;
        let read = || tokenizers::Tokenizer::from_bytes(&*file.bytes);
        let panicked = || Err(BoxedError::from("its reader gave up; the normalizer or the decoder is malformed"));
        let mut inner = catch_unwind(read).unwrap_or_else(|_| panicked()).map_err(wrong)?;
        // Some files carry the settings of their training, and a prompt would be cut without a word.
        inner.with_truncation(None).map_err(wrong)?;
        inner.with_padding(None);
        Ok(Self { inner })
    }

    /// The tokens of a text. Special tokens are known by their text wherever they stand.
    pub(crate) fn encode(&self, text: &str, specials: Specials) -> Result<Vec<u32>, BoxedError> {
        Ok(self.inner.encode_fast(text, specials == Specials::Added)?.get_ids().to_vec())
    }

    /// The text of tokens, without special ones.
    pub(crate) fn decode(&self, tokens: &[u32]) -> Result<String, BoxedError> {
        self.inner.decode(tokens, true)
    }

    /// The token of that very text.
    pub(crate) fn token(&self, text: &str) -> Option<u32> {
        self.inner.token_to_id(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::Demo;

    #[test]
    fn special_tokens_are_one_token_and_no_text() {
        let tokenizer = Tokenizer::load(&Demo::Tiny.files().tokenizer).unwrap();
        let tokens = tokenizer.encode("<s>hé<answer>", Specials::InText).unwrap();
        assert_eq!(tokens, [256, 104, 0xC3, 0xA9, 259]);
        assert_eq!(tokenizer.decode(&tokens).unwrap(), "hé");
        assert_eq!(tokenizer.token("</s>"), Some(257));
    }

    #[test]
    fn a_decoder_that_panics_its_reader_is_an_error() {
        let mut file = Demo::Tiny.files().tokenizer;
        let mut json: serde_json::Value = serde_json::from_slice(&file.bytes).unwrap();
        json["normalizer"] = serde_json::json!({"type": "Precompiled", "precompiled_charsmap": 1});
        file.bytes = serde_json::to_vec(&json).unwrap().into();
        assert!(matches!(Tokenizer::load(&file), Err(ModelError::Tokenizer { .. })));
        file.bytes = file.bytes[..file.bytes.len() / 2].to_vec().into();
        assert!(matches!(Tokenizer::load(&file), Err(ModelError::Json { .. })));
    }

    #[test]
    fn truncation_and_padding_of_the_file_are_left_out() {
        let mut file = Demo::Tiny.files().tokenizer;
        let mut json: serde_json::Value = serde_json::from_slice(&file.bytes).unwrap();
        json["truncation"] =
            serde_json::json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
        file.bytes = serde_json::to_vec(&json).unwrap().into();
        let tokens = Tokenizer::load(&file).unwrap().encode("abcdef", Specials::Added).unwrap();
        assert_eq!(tokens.len(), 6);
    }
}
