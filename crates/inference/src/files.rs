//! Reads the files of a model from a folder. No other module touches the file system.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::config::parse_json;
use crate::error::ModelError;

/// The content of a file.
pub(crate) struct File {
    /// The path that errors name.
    pub(crate) path: PathBuf,
    pub(crate) bytes: Cow<'static, [u8]>,
}

/// All files of a model.
pub(crate) struct Files {
    pub(crate) config: File,
    pub(crate) tokenizer: File,
    pub(crate) tokenizer_config: Option<File>,
    pub(crate) chat_template: Option<File>,
    pub(crate) generation_config: Option<File>,
    /// Has at least one element.
    pub(crate) weights: Vec<File>,
}

/// The files needed to count tokens.
pub(crate) struct TokenizerFiles {
    pub(crate) tokenizer: File,
    pub(crate) tokenizer_config: Option<File>,
    pub(crate) chat_template: Option<File>,
}

/// `model.safetensors.index.json`: the shard of each tensor.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Files {
    /// Reads a Hugging Face folder.
    pub(crate) fn read(folder: &Path) -> Result<Self, ModelError> {
        Ok(Self {
            config: read(folder.join("config.json"))?,
            tokenizer: read(folder.join("tokenizer.json"))?,
            tokenizer_config: read_if_exists(folder.join("tokenizer_config.json"))?,
            chat_template: read_if_exists(folder.join("chat_template.jinja"))?,
            generation_config: read_if_exists(folder.join("generation_config.json"))?,
            weights: read_weights(folder)?,
        })
    }
}

impl Files {
    /// A hash of all files that an answer depends on.
    pub(crate) fn fingerprint(&self) -> String {
        let optional = [&self.tokenizer_config, &self.chat_template, &self.generation_config];
        let parts = [Some(&self.config), Some(&self.tokenizer)].into_iter().chain(optional.map(Option::as_ref));
        hash(parts.chain(self.weights.iter().map(Some)))
    }
}

impl TokenizerFiles {
    /// Reads the files of a folder or a single tokenizer file. For a path to a `tokenizer.json`, it also reads the
    /// other files beside it.
    pub(crate) fn read(path: &Path) -> Result<Self, ModelError> {
        const NAME: &str = "tokenizer.json";
        let folder = if path.is_dir() {
            path
        } else if path.file_name().is_some_and(|name| name == NAME) {
            path.parent().unwrap_or(Path::new(""))
        } else {
            return Ok(Self { tokenizer: read(path.to_owned())?, tokenizer_config: None, chat_template: None });
        };
        Ok(Self {
            tokenizer: read(folder.join(NAME))?,
            tokenizer_config: read_if_exists(folder.join("tokenizer_config.json"))?,
            chat_template: read_if_exists(folder.join("chat_template.jinja"))?,
        })
    }

    /// A hash of all files that a token count depends on.
    pub(crate) fn fingerprint(&self) -> String {
        hash([Some(&self.tokenizer), self.tokenizer_config.as_ref(), self.chat_template.as_ref()])
    }
}

/// Hashes each file's length and content, so that an absent file differs from an empty one and moving bytes from one
/// file to the next changes the hash.
fn hash<'a>(parts: impl IntoIterator<Item = Option<&'a File>>) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part.map_or(u64::MAX, |file| file.bytes.len() as u64).to_le_bytes());
        digest.update(part.map_or(&[][..], |file| &file.bytes));
    }
    digest.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn read_weights(folder: &Path) -> Result<Vec<File>, ModelError> {
    if let Some(whole) = read_if_exists(folder.join("model.safetensors"))? {
        return Ok(vec![whole]);
    }
    let Some(index) = read_if_exists(folder.join("model.safetensors.index.json"))? else {
        return Err(ModelError::NoWeights { folder: folder.to_owned() });
    };
    let shards: BTreeSet<String> = parse_json::<Index>(&index.path, &index.bytes)?.weight_map.into_values().collect();
    let wrong = |reason| ModelError::Index { path: index.path.clone(), reason };
    if shards.is_empty() {
        return Err(wrong(String::from("weight_map names no shard")));
    }
    // The index of a downloaded model must not read files outside its folder.
    if let Some(outside) = shards.iter().find(|&shard| Path::new(shard).file_name() != Some(shard.as_ref())) {
        return Err(wrong(format!("the shard {outside:?} is not a plain file name")));
    }
    shards.into_iter().map(|shard| read(folder.join(shard))).collect()
}

fn read(path: PathBuf) -> Result<File, ModelError> {
    match std::fs::read(&path) {
        Ok(bytes) => Ok(File { path, bytes: Cow::Owned(bytes) }),
        Err(cause) => Err(ModelError::Read { path, cause }),
    }
}

fn read_if_exists(path: PathBuf) -> Result<Option<File>, ModelError> {
    match read(path) {
        Ok(file) => Ok(Some(file)),
        Err(ModelError::Read { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
