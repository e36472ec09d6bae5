//! The model: its files go in, something that can be asked comes out.

use std::path::Path;

use crate::chat::Chat;
use crate::checkpoint::{Checkpoint, WeightType};
use crate::config::{Config, parse_generation_config};
use crate::demo::Demo;
use crate::error::ModelError;
use crate::files::Files;
use crate::tokenizer::Tokenizer;
use crate::transformer::Transformer;

/// A language model in memory. Share it by reference or in an `Arc`: requests on several threads do not disturb each
/// other, and give the answers that they would give alone.
pub struct Model {
    pub(crate) info: ModelInfo,
    pub(crate) transformer: Transformer,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) chat: Chat,
    /// Tokens that end an answer.
    pub(crate) end_tokens: Vec<u32>,
}

/// What a model is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelInfo {
    /// The name of its folder, or of the demo.
    pub name: String,
    /// Weights, counted from the tensors; an embedding that is the head, too, counts once.
    pub parameters: u64,
    /// Bytes of the weights in memory, where they are 32-bit floats in panels filled up to sixteen rows.
    pub weight_bytes: u64,
    /// The number format of the weights in their files.
    pub weight_type: WeightType,
    /// Layers.
    pub layers: usize,
    /// Numbers that stand for a token between the layers.
    pub hidden_size: usize,
    /// Tokens that prompt and answer together may have.
    pub context: usize,
    /// Tokens that the model knows.
    pub vocabulary: usize,
    /// A hash of its files: two models with the same one give the same answers.
    pub fingerprint: String,
    /// Whether its larger matrices are spread over several threads; otherwise it runs on the calling thread alone.
    pub is_parallel: bool,
}

impl Model {
    /// Loads a Hugging Face folder: config.json, tokenizer.json and the weights in safetensors files, and where they
    /// are there `tokenizer_config.json`, `chat_template.jinja` and `generation_config.json`.
    pub fn load(folder: &Path) -> Result<Self, ModelError> {
        // "." has no name; the folder that it stands for has.
        let named = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let name = named.file_name().map_or_else(|| String::from("model"), |name| name.to_string_lossy().into_owned());
        Self::from_files(name, &Files::read(folder)?)
    }

    /// Loads a model that comes with the library; no file is read.
    pub fn demo(demo: Demo) -> Result<Self, ModelError> {
        Self::from_files(demo.name().to_owned(), &demo.files())
    }

    /// What the model is.
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
        // The files of one model name different ones (end of text, end of turn), and each of them ends an answer.
        end_tokens.extend(chat.end().and_then(|end| tokenizer.token(end)));
        let mut checkpoint = Checkpoint::open(&files.weights)?;
        let transformer = Transformer::load(&config, &mut checkpoint)?;
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
    /// Only what it is: the weights would be millions of numbers.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Model").field("info", &self.info).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Model>();
    }

    #[test]
    fn the_demos_say_what_they_are() {
        let info = Model::demo(Demo::Tiny).unwrap().info().clone();
        assert_eq!((info.name.as_str(), info.layers, info.hidden_size, info.context), ("tiny", 2, 64, 256));
        assert_eq!((info.parameters, info.weight_type, info.vocabulary), (140_096, WeightType::F16, 260));
        // Embedding and head have 260 rows, filled up to 272.
        assert_eq!(info.weight_bytes, 4 * (140_096 + 2 * 12 * 64));
        assert_ne!(info.fingerprint, Model::demo(Demo::Small).unwrap().info().fingerprint);
        assert_eq!(info.fingerprint, Model::demo(Demo::Tiny).unwrap().info().fingerprint);
        assert!(!info.is_parallel, "its processor time is that of the calling thread");
        assert_eq!(Model::demo(Demo::Small).unwrap().info().parameters, 919_680);
    }
}
