//! The configuration of a judge.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A model that grades answers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JudgeSpec {
    /// The address of an OpenAI-compatible server.
    pub base_url: String,
    /// The model; if empty, the only model of the server.
    #[serde(default)]
    pub model: String,
    /// The environment variable with the API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// A file with certificates to trust in addition to the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Whether any certificate is accepted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
}
