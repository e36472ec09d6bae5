//! Loads a model from its files.

use std::path::Path;

use crate::chat::Chat;
use crate::checkpoint::{Checkpoint, WeightType};
use crate::config::{Config, parse_generation_config};
use crate::demo::Demo;
use crate::error::ModelError;
use crate::files::Files;
use crate::threads::start_threads;
use crate::tokenizer::Tokenizer;
use crate::transformer::Transformer;

/// A language model in memory. Share it by reference or in an `Arc`: concurrent requests do not affect each other's
/// answers.
pub struct Model {
    pub(crate) info: ModelInfo,
    pub(crate) transformer: Transformer,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) chat: Chat,
    /// The end-of-sequence tokens.
    pub(crate) end_tokens: Vec<u32>,
}

/// Name, size and number format of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelInfo {
    /// The name of the folder or of the demo.
    pub name: String,
    /// The number of weights. Tied embeddings count once.
    pub parameters: u64,
    /// The size of the weights in memory: 32-bit floats, in panels padded to a multiple of sixteen rows.
    pub weight_bytes: u64,
    /// The number format of the weights in their files.
    pub weight_type: WeightType,
    /// The number of layers.
    pub layers: usize,
    /// The width of the hidden state.
    pub hidden_size: usize,
    /// The context length in tokens, prompt and answer together.
    pub context: usize,
    /// The number of tokens in the vocabulary.
    pub vocabulary: usize,
    /// A hash of the model's files. Models with equal fingerprints give the same answers.
    pub fingerprint: String,
    /// Whether products of the larger matrices use several threads. Otherwise the model runs on the calling thread
    /// only.
    pub is_parallel: bool,
}

impl Model {
    /// Loads a Hugging Face folder: `config.json`, `tokenizer.json`, the weights in safetensors files, and if present
    /// `tokenizer_config.json`, `chat_template.jinja` and `generation_config.json`.
    pub fn load(folder: &Path) -> Result<Self, ModelError> {
        // "." has no file name; its canonical path does.
        let named = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let name = named.file_name().map_or_else(|| String::from("model"), |name| name.to_string_lossy().into_owned());
        Self::from_files(name, &Files::read(folder)?)
    }

    /// Loads a demo model. It reads no file.
    pub fn demo(demo: Demo) -> Result<Self, ModelError> {
        Self::from_files(demo.name().to_owned(), &demo.files())
    }

    /// Name, size and number format of this model.
    #[must_use]
    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn from_files(name: String, files: &Files) -> Result<Self, ModelError> {
        let config = Config::parse(&files.config.path, &files.config.bytes)?;
        let tokenizer = Tokenizer::load(&files.tokenizer)?;
        let chat = Chat::load(files.tokenizer_config.as_ref(), files.chat_template.as_ref())?;
        let mut end_tokens = config.end_tokens.clone();
        if let Some(file) = &files.generation_config {
            end_tokens.extend(parse_generation_config(&file.path, &file.bytes)?);
        }
        // The files of a model can name different end tokens (end of text, end of turn). Each of them ends an answer.
        end_tokens.extend(chat.end().and_then(|end| tokenizer.token(end)));
        let mut checkpoint = Checkpoint::open(&files.weights)?;
        let transformer = Transformer::load(&config, &mut checkpoint)?;
        if transformer.is_parallel() {
            start_threads()?;
        }
        let tally = checkpoint.tally();
        let info = ModelInfo {
            name,
            parameters: tally.parameters,
            weight_bytes: tally.bytes,
            weight_type: tally.weight_type,
            layers: config.layers,
            hidden_size: config.hidden_size,
            context: config.context,
            vocabulary: config.vocabulary,
            fingerprint: files.fingerprint(),
            is_parallel: transformer.is_parallel(),
        };
        Ok(Self { info, transformer, tokenizer, chat, end_tokens })
    }
}

impl std::fmt::Debug for Model {
    /// Prints the info only: there are millions of weights.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Model").field("info", &self.info).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_can_share_a_model() {
        fn shared<T: Send + Sync>() {}
        shared::<Model>();
    }

    #[test]
    fn the_info_describes_the_demo_models() {
        let info = Model::demo(Demo::Tiny).unwrap().info().clone();
        assert_eq!((info.name.as_str(), info.layers, info.hidden_size, info.context), ("tiny", 2, 64, 256));
        assert_eq!((info.parameters, info.weight_type, info.vocabulary), (140_096, WeightType::F16, 260));
        // Embedding and head have 260 rows, padded to 272.
        assert_eq!(info.weight_bytes, 4 * (140_096 + 2 * 12 * 64));
        assert_ne!(info.fingerprint, Model::demo(Demo::Small).unwrap().info().fingerprint);
        assert_eq!(info.fingerprint, Model::demo(Demo::Tiny).unwrap().info().fingerprint);
        assert!(!info.is_parallel, "it runs on the calling thread only");
        assert_eq!(Model::demo(Demo::Small).unwrap().info().parameters, 919_680);
    }
}
