//! Errors of loading a model and of generating an answer. Each error's hint says what to do about it.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use ergometer_diagnostics::{Diagnostic, Hint, hint};

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A file could not be read.
    #[error("cannot read {}: {cause}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        cause: io::Error,
    },
    /// The folder has no weights.
    #[error("no weights in {}: model.safetensors and model.safetensors.index.json are both missing", .folder.display())]
    NoWeights {
        /// The folder.
        folder: PathBuf,
    },
    /// A file is not valid JSON, or a field is missing or has the wrong type.
    #[error("cannot parse {}: {cause}", .path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The error of the parser, with line and column.
        #[source]
        cause: serde_json::Error,
    },
    /// The configuration contradicts itself, or a value is out of range.
    #[error("{}: {reason}", .path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The model has a feature that this engine does not implement.
    #[error("{}: {feature} is not supported", .path.display())]
    Unsupported {
        /// The file that requires the feature.
        path: PathBuf,
        /// The feature.
        feature: String,
    },
    /// The index of the shards is wrong.
    #[error("{}: {reason}", .path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A weight file is damaged.
    #[error("{} is not a valid safetensors file: {cause}", .path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// The error of the reader.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The weights lack a tensor that the configuration requires.
    #[error("the weights in {} have no tensor {name}", .path.display())]
    MissingTensor {
        /// The tensor.
        name: String,
        /// The weight file; the first one if there are several.
        path: PathBuf,
    },
    /// The shape of a tensor differs from the configuration.
    #[error("tensor {name} in {} has shape {found:?}, but config.json requires {expected:?}", .path.display())]
    Shape {
        /// The tensor.
        name: String,
        /// The weight file.
        path: PathBuf,
        /// The shape that the configuration requires.
        expected: Vec<usize>,
        /// The shape in the file.
        found: Vec<usize>,
    },
    /// The tokenizer could not be loaded.
    #[error("cannot load the tokenizer from {}: {cause}", .path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// The error of the tokenizer library.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The chat template could not be compiled.
    #[error("cannot compile the chat template in {}: {cause}", .path.display())]
    Template {
        /// The file that contains the template.
        path: PathBuf,
        /// The error of the template engine.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The threads that compute with large matrices could not be started.
    #[error("cannot start a thread: {cause}")]
    Threads {
        /// The error of the operating system.
        cause: String,
    },
}

impl Diagnostic for ModelError {
    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::Read { .. } => hint!(
                "use a model folder with config.json, tokenizer.json and model.safetensors \
                 (or its shards and model.safetensors.index.json)"
            ),
            Self::NoWeights { .. } => hint!("convert weights in other formats (.bin, .gguf) to safetensors"),
            Self::Config { .. } => hint!("check that the file was not edited and belongs to this model"),
            Self::Unsupported { .. } => hint!(
                "use a supported model: model_type llama, or mistral without a sliding window; hidden_act silu; \
                 rope scaling default, linear or llama3; weights in f32, f16 or bf16"
            ),
            Self::Safetensors { .. } => hint!("copy or download the file again"),
            Self::MissingTensor { .. } => {
                hint!("check that no shard is missing and that config.json belongs to these weights")
            }
            Self::Shape { .. } => hint!("use the config.json that belongs to these weights"),
            Self::Threads { .. } => {
                hint!("check the limits on processes and on memory with `ulimit -u` and `ulimit -v`")
            }
            Self::Json { .. } | Self::Index { .. } | Self::Tokenizer { .. } | Self::Template { .. } => return None,
        })
    }
}

/// Why an answer could not be generated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// The prompt is longer than the context.
    #[error("the prompt has {tokens} tokens, but the context of the model is {context} tokens")]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens of the context.
        context: usize,
    },
    /// The prompt has so many bytes that its tokens cannot fit into the context.
    #[error("the prompt has {bytes} bytes, but the context of the model is {context} tokens, at most {most} bytes")]
    TooManyBytes {
        /// Bytes of the prompt.
        bytes: usize,
        /// The most bytes that fit into the context.
        most: usize,
        /// Tokens of the context.
        context: usize,
    },
    /// The prompt has no tokens.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// A token of the prompt has no embedding.
    #[error("the prompt has the token id {token}, but the model's vocabulary has {vocabulary} tokens")]
    UnknownToken {
        /// The token.
        token: u32,
        /// The size of the vocabulary.
        vocabulary: usize,
    },
    /// A sampling parameter is out of range.
    #[error("{parameter} is {value}, but it must be {range}")]
    Sampling {
        /// The name of the parameter.
        parameter: &'static str,
        /// Its value.
        value: String,
        /// The valid range, in words.
        range: &'static str,
    },
    /// The chat template rejected the messages.
    #[error("the chat template of the model failed: {cause}")]
    Template {
        /// The error of the template engine.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The tokenizer failed.
    #[error("the tokenizer of the model failed: {cause}")]
    Tokenizer {
        /// The error of the tokenizer library.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The model computed an infinity or a NaN.
    #[error("the model's output after {position} tokens is not finite")]
    NotFinite {
        /// Tokens processed so far.
        position: usize,
    },
}

impl Diagnostic for GenerateError {
    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::TooLong { .. } | Self::TooManyBytes { .. } => hint!("shorten the prompt"),
            Self::EmptyPrompt => hint!("use a prompt with text: this model adds no tokens to an empty prompt"),
            Self::NotFinite { .. } => hint!("check the weights: they are damaged or too large for 32-bit floats"),
            Self::UnknownToken { .. } | Self::Sampling { .. } | Self::Template { .. } | Self::Tokenizer { .. } => {
                return None;
            }
        })
    }
}
