//! What can be wrong with a model or with a request to it: each variant says what, where, and what to do about it.

use std::error::Error;
use std::io;
use std::path::PathBuf;

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A file could not be read.
    #[error(
        "cannot read {}: {cause}. hint: a model folder holds config.json, tokenizer.json and model.safetensors \
         (or its shards and model.safetensors.index.json)", .path.display()
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// There are no weights in the folder.
    #[error(
        "no weights in {}: neither model.safetensors nor model.safetensors.index.json is there. \
         hint: weights in other formats (.bin, .gguf) have to be converted to safetensors", .folder.display()
    )]
    NoWeights {
        /// The folder.
        folder: PathBuf,
    },
    /// A file is not the JSON it should be.
    #[error("{} does not hold what it should: {cause}", .path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What the parser said, with line and column.
        #[source]
        cause: serde_json::Error,
    },
    /// The configuration contradicts itself, or a value is out of all bounds.
    #[error("{}: {reason}. hint: was the file edited, or is it of another model?", .path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The model is of a kind that this engine does not compute.
    #[error(
        "{}: {what} is not supported. hint: supported are model_type llama, and mistral without a sliding window; \
         hidden_act silu; rope scaling default, linear and llama3; weights in f32, f16 or bf16", .path.display()
    )]
    Unsupported {
        /// The file that says so.
        path: PathBuf,
        /// What is not supported.
        what: String,
    },
    /// The list of shards is wrong.
    #[error("{}: {reason}", .path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A weight file is damaged.
    #[error("{} is not a whole safetensors file: {cause}. hint: copy or download it again", .path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What the reader said.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// A tensor that the configuration asks for is not there.
    #[error("no tensor {name} in the weights of {}. hint: are all shards there, and is config.json theirs?", .path.display())]
    MissingTensor {
        /// The tensor.
        name: String,
        /// The weight file, the first one where there are many.
        path: PathBuf,
    },
    /// A tensor is not of the shape that the configuration asks for.
    #[error(
        "tensor {name} in {} has shape {found:?}, and config.json asks for {expected:?}. hint: is config.json theirs?",
        .path.display()
    )]
    Shape {
        /// The tensor.
        name: String,
        /// The weight file.
        path: PathBuf,
        /// What the configuration asks for.
        expected: Vec<usize>,
        /// What is there.
        found: Vec<usize>,
    },
    /// The tokenizer could not be read.
    #[error("{} is not a tokenizer: {cause}", .path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What the reader said.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The chat template could not be compiled.
    #[error("the chat template in {} cannot be compiled: {cause}", .path.display())]
    Template {
        /// The file that it is in.
        path: PathBuf,
        /// What the compiler said.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
}

/// Why nothing could be generated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// The prompt does not fit into the context.
    #[error("the prompt has {tokens} tokens, and the context of the model is {context}. hint: shorten the prompt")]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens that the model takes.
        context: usize,
    },
    /// The prompt has no tokens, so that there is nothing to go on from.
    #[error("the prompt is empty. hint: give it some text; this model adds no token of its own")]
    EmptyPrompt,
    /// A token of the prompt has no embedding.
    #[error("token {token} of the prompt is outside the model's vocabulary of {vocabulary}")]
    UnknownToken {
        /// The token.
        token: u32,
        /// Tokens that the model knows.
        vocabulary: usize,
    },
    /// A setting of the sampling is out of its range.
    #[error("{setting} is {value}, and it must be {range}")]
    Sampling {
        /// The setting.
        setting: &'static str,
        /// What it was set to.
        value: String,
        /// What it may be.
        range: &'static str,
    },
    /// The chat template refused the messages.
    #[error("the chat template of the model failed: {cause}")]
    Template {
        /// What it said.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The tokenizer failed.
    #[error("the tokenizer of the model failed: {cause}")]
    Tokenizer {
        /// What it said.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The model computed something that is not a number.
    #[error(
        "the model's output after {position} tokens is not finite. \
         hint: its weights are damaged, or too large for 32-bit floats"
    )]
    NotFinite {
        /// Tokens that went in.
        position: usize,
    },
}
