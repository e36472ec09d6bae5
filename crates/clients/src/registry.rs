//! The registry of clients, and the specification by which one is opened.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ergometer_diagnostics::{Diagnostic as _, Hint, Message, hint, option};
use serde::{Deserialize, Serialize};

use super::http::{Connection, Network};
use super::{Client, ClientError};

/// A client as `ergo list clients` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClientInfo {
    /// The id it is chosen by.
    pub id: &'static str,
    /// What it talks to.
    pub description: &'static str,
    /// Names and descriptions of the client's parameters (`--client-param`).
    pub parameters: &'static [(&'static str, &'static str)],
    /// Names and descriptions of the parameters of its requests (`--param`).
    pub request_parameters: &'static [(&'static str, &'static str)],
}

/// Maximum length of the name of a model in bytes.
const LONGEST_NAME: usize = 4096;

const REGISTRY: &[ClientInfo] = &[
    #[cfg(feature = "embedded")]
    super::embedded::INFO,
    super::openai::INFO,
    super::ollama::INFO,
];

/// All registered clients.
#[must_use]
pub fn registry() -> &'static [ClientInfo] {
    REGISTRY
}

/// The client, the model and the server that a user asks for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ClientSpec {
    /// The id of a registered client.
    pub id: String,
    /// The model's name, or for the embedded client also a path.
    pub model: String,
    /// The absolute path of the model's folder, so that a run can be resumed from another working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_folder: Option<PathBuf>,
    /// The server's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Headers of every request, `Name: value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// Keys, certificates, connections and timeouts.
    #[serde(default, skip_serializing_if = "Network::is_default")]
    pub network: Network,
    /// Client parameters by name.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

impl ClientSpec {
    /// The value of the parameter with this name.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    /// Checks that the client has every parameter that is set.
    pub(super) fn check(&self, info: &ClientInfo) -> Result<(), ClientError> {
        let is_known = |name: &str| info.parameters.iter().any(|(known, _)| *known == name);
        match self.parameters.keys().find(|name| !is_known(name)) {
            None => Ok(()),
            Some(unknown) => {
                let hint = if info.parameters.is_empty() {
                    Hint::text("this client has no parameters")
                } else {
                    Hint::text(format!("its parameters are {}", names(info.parameters)))
                };
                let text = format!("the client {} has no parameter `{unknown}`", info.id);
                Err(ClientError::Parameter(Message::new(text).with_hint(hint)))
            }
        }
    }

    /// A connection to the server at the user's address, or at `default` if the user gave none.
    pub(super) fn connection(&self, default: &str) -> Result<Connection, ClientError> {
        let base_url = self.base_url.as_deref().unwrap_or(default);
        Connection::new(base_url, &self.headers, &self.network)
            .map_err(|error| ClientError::Parameter(error.to_message()))
    }
}

/// Creates a client. It sends nothing yet.
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

/// The server's only model, without secrets, for a user who named none. `name` is the option that names a model, for the
/// hint of the error.
pub async fn only_model(client: &dyn Client, name: &'static str) -> Result<String, ClientError> {
    let models = client.models().await?;
    // The name is stored with the run, and a server may repeat in it what it received.
    let secrets = client.secrets();
    let models = models.iter().map(|model| secrets.redact(model).into_owned()).collect();
    only(models, name).map_err(ClientError::Parameter)
}

/// Checks the names of models that a server lists. They are printed, stored and sent with every request.
pub(super) fn check_names(models: Vec<String>) -> Result<Vec<String>, ClientError> {
    let wrong = |text: String| {
        let hint = hint!("name the model with ", option("model"), "; then the list of models is not needed");
        Err(ClientError::Unavailable(Message::new(text).with_hint(hint)))
    };
    match models.iter().map(String::len).find(|length| !(1..=LONGEST_NAME).contains(length)) {
        None => Ok(models),
        Some(0) => wrong(String::from("the server lists a model with an empty name")),
        Some(length) => {
            wrong(format!("the server lists a model whose name has {length} bytes; the maximum is {LONGEST_NAME}"))
        }
    }
}

fn only(mut models: Vec<String>, name: &'static str) -> Result<String, Message> {
    match models.len() {
        1 => Ok(models.remove(0)),
        0 => Err(Message::new("the server lists no models").with_hint(hint!("name the model with ", option(name)))),
        count => {
            models.truncate(12);
            let (listed, more) = (models.join(", "), if count > 12 { ", …" } else { "" });
            let hint = hint!("choose one with ", option(name), format!(": {listed}{more}"));
            Err(Message::new(format!("the server has {count} models")).with_hint(hint))
        }
    }
}

/// The names of parameters, separated by commas.
pub(super) fn names(parameters: &[(&str, &str)]) -> String {
    parameters.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::CommandLine;

    use super::*;

    #[test]
    fn empty_and_long_names_of_models_are_refused() {
        let check = |name: &str| check_names(vec![String::from("m"), name.to_owned()]);
        assert_eq!(check(&"n".repeat(4096)).unwrap().len(), 2);
        assert!(check("").unwrap_err().to_string().contains("an empty name"));
        let error = check(&"n".repeat(4097)).unwrap_err().to_string();
        assert!(error.contains("has 4097 bytes; the maximum is 4096"), "{error}");
    }

    #[test]
    fn a_single_model_is_chosen_and_several_need_a_choice() {
        let names = |count: usize| (0..count).map(|number| format!("m{number}")).collect::<Vec<_>>();
        assert_eq!(only(names(1), "model"), Ok(String::from("m0")));
        assert!(only(names(0), "judge-model").unwrap_err().one_line(&CommandLine).contains("--judge-model"));
        let error = only(names(20), "model").unwrap_err().one_line(&CommandLine);
        assert!(error.contains("20 models") && error.contains("m11, …") && !error.contains("m12"), "{error}");
    }
}
