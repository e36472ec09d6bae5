//! The clients there are, by id, and what a user asks for.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Client, ClientError};

/// A client as `ergo list clients` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClientInfo {
    /// How it is asked for.
    pub id: &'static str,
    /// What it is.
    pub description: &'static str,
    /// Its parameters and what they mean.
    pub parameters: &'static [(&'static str, &'static str)],
    /// The parameters its requests take by `--param`, and what they mean.
    pub request_parameters: &'static [(&'static str, &'static str)],
}

const REGISTRY: &[ClientInfo] = &[
    #[cfg(feature = "embedded")]
    super::embedded::INFO,
];

/// All clients there are.
#[must_use]
pub fn registry() -> &'static [ClientInfo] {
    REGISTRY
}

/// A client as the user asks for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientSpec {
    /// An id of the registry.
    pub id: String,
    /// The model: a name, or for the embedded client a path too.
    pub model: String,
    /// The folder of the model, where it is one: the run may be resumed from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_folder: Option<PathBuf>,
    /// The server's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Headers of every request, `Name: value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// Parameters, by name.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

/// Makes a client. Nothing is sent yet.
pub fn open(spec: &ClientSpec) -> Result<Box<dyn Client>, ClientError> {
    match spec.id.as_str() {
        #[cfg(feature = "embedded")]
        "embedded" => Ok(Box::new(super::embedded::Embedded::new(spec)?)),
        unknown => {
            let known: Vec<&str> = REGISTRY.iter().map(|info| info.id).collect();
            let known = if known.is_empty() { String::from("none in this build") } else { known.join(", ") };
            Err(ClientError::Unknown { id: unknown.to_owned(), known })
        }
    }
}

/// The names of a list of parameters, for an error.
#[cfg(feature = "embedded")]
pub(super) fn names(parameters: &[(&str, &str)]) -> String {
    parameters.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}
