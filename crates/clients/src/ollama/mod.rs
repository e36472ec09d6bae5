//! The client for the native API of Ollama, which reports durations and token counts.

mod reader;

use async_trait::async_trait;
use ergometer_diagnostics::{Diagnostic as _, Hint, Message, hint, option};
use ergometer_telemetry::Clock;
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(super) use self::reader::OllamaReader;
use super::http::{BaseUrl, Connection, Target};
use super::reading::{Ready, messages};
use super::registry::check_names;
use super::{
    Client, ClientError, ClientInfo, ClientSpec, ConnectOutcome, Connections, FailureKind, Locality, ModelFacts,
    Request, RequestError, RequestOptions, Transcript,
};

pub(super) const INFO: ClientInfo = ClientInfo {
    id: "ollama",
    description: "the native API of Ollama, which reports durations and token counts",
    parameters: &[("endpoint", "chat (default) or generate")],
    request_parameters: &[
        ("temperature", "sampling temperature; the default depends on the model"),
        ("think", "reasoning before the answer: true, false, or a level"),
        ("keep_alive", "how long the model stays loaded, such as 5m"),
        ("NAME", "any other model option (top_k, top_p, min_p, repeat_penalty, …), or format, raw, template or tools"),
    ],
};

/// The default address of Ollama.
const DEFAULT_ADDRESS: &str = "http://127.0.0.1:11434";

/// Request fields; all other parameters are options of the model.
const FIELDS: [&str; 8] = ["format", "images", "keep_alive", "raw", "suffix", "template", "think", "tools"];

/// The client.
#[derive(Debug)]
pub(super) struct Ollama {
    connection: Connection,
    target: Target,
    model: String,
    endpoint: Endpoint,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endpoint {
    Chat,
    Generate,
}

impl Ollama {
    pub(super) fn new(spec: &ClientSpec) -> Result<Self, ClientError> {
        spec.check(&INFO)?;
        let endpoint = match spec.parameter("endpoint") {
            None | Some("chat") => Endpoint::Chat,
            Some("generate") => Endpoint::Generate,
            Some(other) => {
                let text = format!("the client parameter endpoint is {other}, but must be chat or generate");
                return Err(ClientError::Parameter(Message::new(text)));
            }
        };
        let mut spec = spec.clone();
        // The documentation of Ollama writes the address with `/api`.
        let bare = spec.base_url.as_deref().map(|url| url.trim_end_matches('/').trim_end_matches("/api").to_owned());
        spec.base_url = bare;
        let connection = spec.connection(DEFAULT_ADDRESS)?;
        let url = connection.base().path(match endpoint {
            Endpoint::Chat => "api/chat",
            Endpoint::Generate => "api/generate",
        });
        let target = connection.target(&url).map_err(|error| ClientError::Parameter(error.to_message()))?;
        Ok(Self { connection, target, model: spec.model.clone(), endpoint })
    }

    fn body(&self, request: &Request<'_>) -> Vec<u8> {
        let mut body = Map::new();
        body.insert(String::from("model"), Value::String(self.model.clone()));
        let system = request.common.system_prompt.as_deref();
        match self.endpoint {
            Endpoint::Chat => {
                body.insert(String::from("messages"), messages(request));
            }
            Endpoint::Generate => {
                body.insert(String::from("prompt"), Value::String(request.plain()));
                if let Some(system) = system {
                    body.insert(String::from("system"), Value::String(system.to_owned()));
                }
            }
        }
        body.insert(String::from("stream"), Value::Bool(true));
        let mut options = Map::new();
        if let Some(most) = request.max_tokens() {
            options.insert(String::from("num_predict"), most.into());
        }
        if request.common.seed != 0 {
            options.insert(String::from("seed"), request.common.seed.into());
        }
        for (name, value) in &request.common.parameters {
            let place = if FIELDS.contains(&name.as_str()) { &mut body } else { &mut options };
            place.insert(name.clone(), value.clone());
        }
        if !options.is_empty() {
            body.insert(String::from("options"), Value::Object(options));
        }
        serde_json::to_vec(&body).unwrap_or_default()
    }

    async fn tags(&self) -> Result<Vec<Tag>, RequestError> {
        let body = self.connection.get(&self.connection.base().path("api/tags")).await?;
        let tags: Tags =
            serde_json::from_slice(&body).map_err(|error| {
                RequestError::new(FailureKind::Malformed, format!("the server is not Ollama ({error})"))
                    .with_hint(hint!("use ", option("client").value("openai"), " for other servers"))
            })?;
        Ok(tags.models)
    }

    async fn show(&self) -> Option<Show> {
        let body = json!({"model": self.model});
        let answer = self.connection.ask(&self.connection.base().path("api/show"), &body).await.ok()?;
        serde_json::from_slice(&answer).ok()
    }
}

#[derive(Debug, Deserialize)]
struct Tags {
    models: Vec<Tag>,
}

#[derive(Debug, Deserialize)]
struct Tag {
    name: String,
    #[serde(default)]
    digest: Option<String>,
    #[serde(default)]
    size: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Show {
    #[serde(default)]
    model_info: Map<String, Value>,
}

impl Show {
    /// The number whose name has this ending; names start with the architecture, such as `llama.`.
    fn number(&self, ending: &str) -> Option<u64> {
        self.model_info.iter().find(|(name, _)| name.ends_with(ending)).and_then(|(_, value)| value.as_u64())
    }
}

#[async_trait]
impl Client for Ollama {
    fn id(&self) -> &'static str {
        "ollama"
    }

    fn locality(&self) -> Locality {
        self.connection.base().locality()
    }

    fn base_url(&self) -> Option<&BaseUrl> {
        Some(self.connection.base())
    }

    async fn health(&self) -> Result<(), ClientError> {
        self.tags().await.map(|_| ()).map_err(|error| self.connection.unavailable(error))
    }

    async fn models(&self) -> Result<Vec<String>, ClientError> {
        let tags = self.tags().await.map_err(|error| self.connection.unavailable(error))?;
        check_names(tags.into_iter().map(|tag| tag.name).collect())
    }

    async fn prepare(&self, common: &RequestOptions) -> Result<ModelFacts, ClientError> {
        self.connection.hide_parameters(&common.parameters);
        if common.ignore_eos {
            let hint = hint!(
                "leave out ",
                option("ignore-eos"),
                ", or use another server with ",
                option("client").value("openai")
            );
            let text = "Ollama cannot ignore the end-of-sequence token";
            return Err(ClientError::Parameter(Message::new(text).with_hint(hint)));
        }
        let tags = self.tags().await.map_err(|error| self.connection.unavailable(error))?;
        let latest = format!("{}:latest", self.model);
        let Some(tag) = tags.iter().find(|tag| tag.name == self.model || tag.name == latest) else {
            let tags = check_names(tags.into_iter().map(|tag| tag.name).collect())?;
            let known: Vec<&str> = tags.iter().take(12).map(String::as_str).collect();
            let installed = if known.is_empty() { String::from("none") } else { known.join(", ") };
            let hint = Hint::text(format!("fetch it with `ollama pull {}`; installed models: {installed}", self.model));
            return Err(ClientError::Model(
                Message::new(format!("Ollama has no model `{}`", self.model)).with_hint(hint),
            ));
        };
        let show = self.show().await;
        let number = |ending: &str| show.as_ref().and_then(|show| show.number(ending));
        Ok(ModelFacts {
            parameters: number("general.parameter_count").filter(|&count| count > 0),
            weight_bytes: tag.size.filter(|&size| size > 0),
            context: number(".context_length"),
            fingerprint: tag.digest.clone(),
            computes_on: None,
        })
    }

    async fn stream(
        &self,
        request: &Request<'_>,
        clock: &Clock,
        transcript: &mut Transcript,
    ) -> Result<(), RequestError> {
        let (body, id) = (self.body(request), request.id);
        let ready = Ready { connection: &self.connection, target: &self.target, body, id, clock };
        ready.exchange(|_| OllamaReader::new(), transcript).await
    }

    async fn connect(&self, count: u32) -> ConnectOutcome {
        self.connection.connect(count).await
    }

    fn connections(&self) -> Option<Connections> {
        Some(self.connection.connections())
    }

    fn secrets(&self) -> crate::redact::Secrets {
        self.connection.secrets()
    }

    async fn close(&self) -> Result<(), ClientError> {
        self.connection.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::CommandLine;

    use super::*;
    use crate::EarlierTurn;

    #[test]
    fn model_options_are_separate_from_request_fields() {
        let spec = ClientSpec { id: String::from("ollama"), model: String::from("m:1b"), ..ClientSpec::default() };
        let client = Ollama::new(&spec).unwrap();
        let parameters = json!({"temperature": 0.5, "think": false});
        let common = RequestOptions {
            system_prompt: Some(String::from("s")),
            max_tokens: Some(4),
            ignore_eos: false,
            seed: 3,
            parameters: parameters.as_object().cloned().unwrap(),
        };
        let request = Request { id: None, index: 0, earlier: &[], problem: "p", output_tokens: None, common: &common };
        let body: Value = serde_json::from_slice(&client.body(&request)).unwrap();
        let expected = json!({
            "model": "m:1b", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "p"}],
            "stream": true, "think": false, "options": {"num_predict": 4, "seed": 3, "temperature": 0.5},
        });
        assert_eq!(body, expected);
        let mut spec = spec;
        spec.parameters.insert(String::from("endpoint"), String::from("generate"));
        let body: Value = serde_json::from_slice(&Ollama::new(&spec).unwrap().body(&request)).unwrap();
        assert_eq!((&body["prompt"], &body["system"]), (&json!("p"), &json!("s")));
    }

    #[test]
    fn earlier_turns_come_first() {
        let mut spec = ClientSpec { id: String::from("ollama"), model: String::from("m"), ..ClientSpec::default() };
        let common = RequestOptions::default();
        let before = [EarlierTurn { problem: String::from("a"), answer: String::from("b") }];
        let request =
            Request { id: None, index: 0, earlier: &before, problem: "c", output_tokens: None, common: &common };
        let body =
            |spec: &ClientSpec| serde_json::from_slice::<Value>(&Ollama::new(spec).unwrap().body(&request)).unwrap();
        let expected = json!([
            {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"},
        ]);
        assert_eq!(body(&spec)["messages"], expected);
        spec.parameters.insert(String::from("endpoint"), String::from("generate"));
        assert_eq!(body(&spec)["prompt"], "a\n\nb\n\nc");
    }

    #[tokio::test]
    async fn ignore_eos_is_rejected() {
        let spec = ClientSpec { id: String::from("ollama"), model: String::from("m"), ..ClientSpec::default() };
        let common = RequestOptions { ignore_eos: true, ..RequestOptions::default() };
        let error = Ollama::new(&spec).unwrap().prepare(&common).await.unwrap_err();
        assert!(error.one_line(&CommandLine).contains("hint: leave out --ignore-eos"), "{error}");
    }
}
