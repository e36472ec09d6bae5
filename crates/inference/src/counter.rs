//! Counts tokens with the tokenizer of a model. It needs no weights.

use std::path::Path;

use crate::chat::{Chat, Conversation};
use crate::error::{GenerateError, ModelError};
use crate::files::TokenizerFiles;
use crate::tokenizer::{Specials, Tokenizer};

/// Counts the tokens of prompts and answers.
///
/// ```
/// use std::path::Path;
/// use ergometer_inference::TokenCounter;
///
/// # let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/models/tiny"));
/// let counter = TokenCounter::load(folder)?;
/// assert_eq!(counter.text("40")?, 2);
/// // A prompt also has the tokens that the chat template adds.
/// assert!(counter.prompt(None, "What is 39 + 1?")? > counter.text("What is 39 + 1?")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TokenCounter {
    tokenizer: Tokenizer,
    chat: Chat,
    fingerprint: String,
}

impl TokenCounter {
    /// Loads the tokenizer of a model folder, or a tokenizer file such as `tokenizer.json`. For a folder or a
    /// `tokenizer.json` it also loads the chat template beside it, if there is one.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        let files = TokenizerFiles::read(path)?;
        Ok(Self {
            tokenizer: Tokenizer::load(&files.tokenizer)?,
            chat: Chat::load(files.tokenizer_config.as_ref(), files.chat_template.as_ref())?,
            fingerprint: files.fingerprint(),
        })
    }

    /// A hash of the tokenizer's files. Tokenizers with equal fingerprints give the same counts.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Tokens of a prompt rendered by the chat template. Without a chat template, the two texts are separated by an
    /// empty line.
    pub fn prompt(&self, system: Option<&str>, user: &str) -> Result<usize, GenerateError> {
        let conversation = Conversation { system, before: &[], user };
        Ok(self.chat.encode(&self.tokenizer, &conversation, None)?.len())
    }

    /// Tokens of a prompt sent without the chat template, including the special tokens that the tokenizer adds.
    pub fn plain_prompt(&self, text: &str) -> Result<usize, GenerateError> {
        self.count(text, Specials::Added)
    }

    /// Tokens of a text, without added special tokens.
    pub fn text(&self, text: &str) -> Result<usize, GenerateError> {
        self.count(text, Specials::InText)
    }

    fn count(&self, text: &str, specials: Specials) -> Result<usize, GenerateError> {
        let tokens = self.tokenizer.encode(text, specials).map_err(|cause| GenerateError::Tokenizer { cause })?;
        Ok(tokens.len())
    }
}

impl std::fmt::Debug for TokenCounter {
    /// Prints the fingerprint only: the vocabulary is long.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TokenCounter").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::Demo;
    use crate::model::Model;
    use std::fs;
    use std::path::PathBuf;

    fn assets(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/models").join(name)
    }

    #[test]
    fn prompt_counts_equal_those_of_the_model() {
        let (counter, model) = (TokenCounter::load(&assets("tiny")).unwrap(), Model::demo(Demo::Tiny).unwrap());
        for (system, user) in [(None, "What is 2 + 2?"), (Some("Be brief."), "hé"), (None, "")] {
            let tokens = model.encode(system, user).unwrap().tokens().len();
            assert_eq!(counter.prompt(system, user).unwrap(), tokens, "{system:?} {user}");
        }
    }

    #[test]
    fn a_tokenizer_json_uses_the_template_beside_it() {
        let folder = TokenCounter::load(&assets("tiny")).unwrap();
        let file = TokenCounter::load(&assets("tiny/tokenizer.json")).unwrap();
        assert_eq!(folder.fingerprint(), file.fingerprint());
        let alone = tempfile::tempdir().unwrap();
        fs::copy(assets("tiny/tokenizer.json"), alone.path().join("mine.json")).unwrap();
        let alone = TokenCounter::load(&alone.path().join("mine.json")).unwrap();
        assert_ne!(alone.fingerprint(), file.fingerprint());
        assert_eq!(alone.prompt(Some("ab"), "c").unwrap(), 5, "two texts and an empty line, a byte each");
        assert!(file.prompt(Some("ab"), "c").unwrap() != 5);
    }

    #[test]
    fn a_missing_or_invalid_tokenizer_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(TokenCounter::load(folder.path()), Err(ModelError::Read { .. })));
        fs::write(folder.path().join("tokenizer.json"), "{}").unwrap();
        assert!(matches!(TokenCounter::load(folder.path()), Err(ModelError::Tokenizer { .. })));
    }
}
