//! The clients there are, by id, and what a user asks for.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::http::{Connection, Network};
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
    super::openai::INFO,
    super::ollama::INFO,
];

/// All clients there are.
#[must_use]
pub fn registry() -> &'static [ClientInfo] {
    REGISTRY
}

/// A client as the user asks for it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
    /// How the server is reached.
    #[serde(default, skip_serializing_if = "Network::is_default")]
    pub network: Network,
    /// Parameters, by name.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

impl ClientSpec {
    /// The parameter of this name.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    /// Checks that the client has all parameters that are given.
    pub(super) fn check(&self, info: &ClientInfo) -> Result<(), ClientError> {
        let is_known = |name: &str| info.parameters.iter().any(|(known, _)| *known == name);
        match self.parameters.keys().find(|name| !is_known(name)) {
            None => Ok(()),
            Some(unknown) => Err(ClientError::Parameter(format!(
                "the client {} has no parameter `{unknown}`. hint: {}",
                info.id,
                if info.parameters.is_empty() {
                    String::from("it has none")
                } else {
                    format!("there are {}", names(info.parameters))
                }
            ))),
        }
    }

    /// The connection to its server, which is `default` where the user does not say.
    pub(super) fn connection(&self, default: &str) -> Result<Connection, ClientError> {
        let base_url = self.base_url.as_deref().unwrap_or(default);
        Connection::new(base_url, &self.headers, &self.network)
            .map_err(|error| ClientError::Parameter(error.to_string()))
    }
}

/// Makes a client. Nothing is sent yet.
pub fn open(spec: &ClientSpec) -> Result<Box<dyn Client>, ClientError> {
    match spec.id.as_str() {
        #[cfg(feature = "embedded")]
        "embedded" => Ok(Box::new(super::embedded::Embedded::new(spec)?)),
        "openai" => Ok(Box::new(super::openai::OpenAi::new(spec)?)),
        "ollama" => Ok(Box::new(super::ollama::Ollama::new(spec)?)),
        unknown => {
            let known: Vec<&str> = REGISTRY.iter().map(|info| info.id).collect();
            Err(ClientError::Unknown { id: unknown.to_owned(), known: known.join(", ") })
        }
    }
}

/// The model to ask for where the user names none: the only one there is. `option` is how to name one.
pub async fn only_model(client: &dyn Client, option: &str) -> Result<String, ClientError> {
    only(client.models().await?, option).map_err(ClientError::Parameter)
}

fn only(mut models: Vec<String>, option: &str) -> Result<String, String> {
    match models.len() {
        1 => Ok(models.remove(0)),
        0 => Err(format!("the server lists no models. hint: name one with --{option}")),
        count => {
            models.truncate(12);
            let (listed, more) = (models.join(", "), if count > 12 { ", …" } else { "" });
            Err(format!("the server has {count} models. hint: choose one with --{option}: {listed}{more}"))
        }
    }
}

/// The names of a list of parameters, for an error.
pub(super) fn names(parameters: &[(&str, &str)]) -> String {
    parameters.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_model_is_taken_and_of_several_one_must_be_named() {
        let names = |count: usize| (0..count).map(|number| format!("m{number}")).collect::<Vec<_>>();
        assert_eq!(only(names(1), "--model"), Ok(String::from("m0")));
        assert!(only(names(0), "--judge-model").unwrap_err().contains("--judge-model"));
        let error = only(names(20), "--model").unwrap_err();
        assert!(error.contains("20 models") && error.contains("m11, …") && !error.contains("m12"), "{error}");
    }
}
