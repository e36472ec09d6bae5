//! The client for OpenAI-compatible servers: vLLM, SGLang, llama.cpp, TGI, LM Studio, Ollama, and clouds.

mod chunk;
mod counting;
mod pattern;
mod reader;

use async_trait::async_trait;
use ergometer_diagnostics::{Diagnostic as _, Message, hint, option};
use ergometer_telemetry::Clock;
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(super) use self::reader::ChatReader;
use super::http::{BaseUrl, Connection, Target};
use super::reading::{Ready, messages};
use super::registry::check_names;
use super::{
    Client, ClientError, ClientInfo, ClientSpec, ConnectOutcome, Connections, FailureKind, Locality, ModelFacts,
    Request, RequestError, RequestOptions, Transcript, Usage,
};

const PARAMETERS: &[(&str, &str)] = &[
    ("endpoint", "chat (default) or completions"),
    ("stream", "on (default), or off to get the answer in one piece"),
    ("usage", "on (default) requests token counts in the stream; off for servers that reject `stream_options`"),
    (
        "max_tokens_field",
        "request field of the token limit [default: max_completion_tokens for api.openai.com, max_tokens elsewhere]",
    ),
];

pub(super) const INFO: ClientInfo = ClientInfo {
    id: "openai",
    description: "any OpenAI-compatible server: vLLM, SGLang, llama.cpp, TGI, LM Studio, clouds",
    parameters: PARAMETERS,
    request_parameters: &[
        ("temperature", "sampling temperature; the default depends on the server"),
        ("top_p", "nucleus sampling; the default depends on the server"),
        ("NAME", "any other field of the request; null removes a field that the client sets"),
    ],
};

/// The default address of vLLM.
const DEFAULT_ADDRESS: &str = "http://127.0.0.1:8000";

/// The client.
#[derive(Debug)]
pub(super) struct OpenAi {
    connection: Connection,
    target: Target,
    model: String,
    endpoint: Endpoint,
    streams: bool,
    asks_for_usage: bool,
    max_tokens_field: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endpoint {
    Chat,
    Completions,
}

impl OpenAi {
    pub(super) fn new(spec: &ClientSpec) -> Result<Self, ClientError> {
        spec.check(&INFO)?;
        let connection = spec.connection(DEFAULT_ADDRESS)?;
        let wrong = |name: &str, value: &str, known: &str| {
            ClientError::Parameter(Message::new(format!("the client parameter {name} is {value}, but must be {known}")))
        };
        let is_on = |name: &str| match spec.parameter(name) {
            None | Some("on" | "true") => Ok(true),
            Some("off" | "false") => Ok(false),
            Some(other) => Err(wrong(name, other, "on or off")),
        };
        let endpoint = match spec.parameter("endpoint") {
            None | Some("chat") => Endpoint::Chat,
            Some("completions") => Endpoint::Completions,
            Some(other) => return Err(wrong("endpoint", other, "chat or completions")),
        };
        // Newer models of OpenAI accept only the new name; other servers may accept only the old one.
        let is_openai = connection.base().host() == "api.openai.com";
        let field = if is_openai { "max_completion_tokens" } else { "max_tokens" };
        let url = connection.base().endpoint(match endpoint {
            Endpoint::Chat => "chat/completions",
            Endpoint::Completions => "completions",
        });
        Ok(Self {
            target: connection.target(&url).map_err(|error| ClientError::Parameter(error.to_message()))?,
            model: spec.model.clone(),
            endpoint,
            streams: is_on("stream")?,
            asks_for_usage: is_on("usage")?,
            max_tokens_field: spec.parameter("max_tokens_field").unwrap_or(field).to_owned(),
            connection,
        })
    }

    /// The conversation in the form of the endpoint: the name of the field and its value.
    fn conversation(&self, request: &Request<'_>) -> (&'static str, Value) {
        match self.endpoint {
            Endpoint::Chat => ("messages", messages(request)),
            Endpoint::Completions => {
                let system = request.common.system_prompt.as_ref();
                let before = system.map(|text| format!("{text}\n\n")).unwrap_or_default();
                ("prompt", Value::String(before + &request.plain()))
            }
        }
    }

    fn body(&self, request: &Request<'_>) -> Vec<u8> {
        let mut body = Map::new();
        let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
        let (name, conversation) = self.conversation(request);
        set("model", Value::String(self.model.clone()));
        set(name, conversation);
        if self.streams {
            set("stream", Value::Bool(true));
            if self.asks_for_usage {
                set("stream_options", json!({"include_usage": true}));
            }
        }
        if let Some(most) = request.max_tokens() {
            set(&self.max_tokens_field, most.into());
        }
        // Supported by vLLM, SGLang and llama.cpp.
        if request.common.ignore_eos {
            set("ignore_eos", Value::Bool(true));
        }
        if request.common.seed != 0 {
            set("seed", request.common.seed.into());
        }
        for (name, value) in &request.common.parameters {
            if value.is_null() {
                body.shift_remove(name);
            } else {
                body.insert(name.clone(), value.clone());
            }
        }
        serde_json::to_vec(&body).unwrap_or_default()
    }

    async fn listed(&self) -> Result<Vec<Listed>, RequestError> {
        let body = self.connection.get(&self.connection.base().endpoint("models")).await?;
        let list: ModelList = serde_json::from_slice(&body).map_err(|error| {
            RequestError::new(FailureKind::Malformed, format!("the server's list of models cannot be parsed: {error}"))
        })?;
        Ok(list.data.or(list.models).unwrap_or_default())
    }
}

/// The response of `/v1/models`, with the additional fields of vLLM and llama.cpp.
#[derive(Debug, Deserialize)]
struct ModelList {
    #[serde(default)]
    data: Option<Vec<Listed>>,
    #[serde(default)]
    models: Option<Vec<Listed>>,
}

#[derive(Debug, Deserialize)]
struct Listed {
    #[serde(default)]
    id: Option<String>,
    /// The name in a second list of llama.cpp.
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    max_model_len: Option<u64>,
    #[serde(default)]
    meta: Option<Meta>,
}

impl Listed {
    fn name(&self) -> Option<&str> {
        self.id.as_deref().or(self.name.as_deref())
    }
}

#[derive(Debug, Default, Deserialize)]
struct Meta {
    #[serde(default)]
    n_params: Option<u64>,
    #[serde(default)]
    size: Option<u64>,
    #[serde(default)]
    n_ctx: Option<u64>,
    #[serde(default)]
    n_ctx_train: Option<u64>,
}

#[async_trait]
impl Client for OpenAi {
    fn id(&self) -> &'static str {
        "openai"
    }

    fn locality(&self) -> Locality {
        self.connection.base().locality()
    }

    fn base_url(&self) -> Option<&BaseUrl> {
        Some(self.connection.base())
    }

    async fn health(&self) -> Result<(), ClientError> {
        match self.listed().await {
            Ok(_) => Ok(()),
            Err(error) => match error.kind {
                // A redirect, a missing key, or a server that is not ready yet.
                FailureKind::HttpStatus(300..=399 | 401 | 403 | 503) => Err(self.connection.unavailable(error)),
                // The server answers; not every server has a list of models.
                FailureKind::HttpStatus(_) | FailureKind::Malformed => Ok(()),
                _ => Err(self.connection.unavailable(error)),
            },
        }
    }

    async fn models(&self) -> Result<Vec<String>, ClientError> {
        let listed = self.listed().await.map_err(|error| match error.kind {
            FailureKind::HttpStatus(300..=399 | 401 | 403 | 503) => self.connection.unavailable(error),
            FailureKind::HttpStatus(_) | FailureKind::Malformed => {
                let hint = hint!("name the model with ", option("model"), "; then the list of models is not needed");
                let error = self.connection.without_secrets(error);
                let path = self.connection.base().endpoint("models");
                ClientError::Unavailable(Message::new(format!("{path}: {}", error.cause)).with_hint(hint))
            }
            _ => self.connection.unavailable(error),
        })?;
        check_names(listed.iter().filter_map(Listed::name).map(str::to_owned).collect())
    }

    async fn prepare(&self, common: &RequestOptions) -> Result<ModelFacts, ClientError> {
        self.connection.hide_parameters(&common.parameters);
        // The run folder names the model and the dataset, so a request parameter must not replace them.
        let reserved = [("model", "model"), ("messages", "dataset"), ("prompt", "dataset")];
        if let Some(&(name, instead)) = reserved.iter().find(|(name, _)| common.parameters.contains_key(*name)) {
            let message = Message::new(format!("the request field `{name}` cannot be set as a request parameter"));
            return Err(ClientError::Parameter(message.with_hint(hint!("use ", option(instead)))));
        }
        let listed = self.listed().await.unwrap_or_default();
        let found = listed
            .iter()
            .find(|model| model.name() == Some(&self.model))
            .or(listed.first().filter(|_| listed.len() == 1));
        let meta = found.and_then(|model| model.meta.as_ref());
        Ok(ModelFacts {
            parameters: meta.and_then(|meta| meta.n_params),
            weight_bytes: meta.and_then(|meta| meta.size),
            context: found
                .and_then(|model| model.max_model_len)
                .or(meta.and_then(|meta| meta.n_ctx.or(meta.n_ctx_train))),
            fingerprint: None,
            computes_on: None,
        })
    }

    async fn stream(
        &self,
        request: &Request<'_>,
        clock: &Clock,
        transcript: &mut Transcript,
    ) -> Result<(), RequestError> {
        let ready = Ready {
            connection: &self.connection,
            target: &self.target,
            body: self.body(request),
            id: request.id,
            clock,
        };
        ready.exchange(ChatReader::new, transcript).await
    }

    async fn count(&self, request: &Request<'_>, answer: &[&str]) -> Option<Usage> {
        self.count_tokens(request, answer).await
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

    fn client(parameters: &[(&str, &str)]) -> Result<OpenAi, ClientError> {
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        OpenAi::new(&ClientSpec {
            id: String::from("openai"),
            model: String::from("m"),
            parameters,
            ..ClientSpec::default()
        })
    }

    fn body(client: &OpenAi, common: &RequestOptions, output_tokens: Option<u64>) -> Value {
        let request = Request { id: None, index: 0, earlier: &[], problem: "2+2?", output_tokens, common };
        serde_json::from_slice(&client.body(&request)).unwrap()
    }

    #[test]
    fn the_body_has_only_the_requested_fields() {
        let client = client(&[]).unwrap();
        let plain = json!({
            "model": "m", "messages": [{"role": "user", "content": "2+2?"}],
            "stream": true, "stream_options": {"include_usage": true},
        });
        assert_eq!(body(&client, &RequestOptions::default(), None), plain);
        let parameters = json!({"temperature": 0, "stream_options": null, "ignore_eos": true});
        let common = RequestOptions {
            system_prompt: Some(String::from("be brief")),
            max_tokens: Some(5),
            ignore_eos: false,
            seed: 7,
            parameters: parameters.as_object().cloned().unwrap(),
        };
        let all = json!({
            "model": "m",
            "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "2+2?"}],
            "stream": true, "max_tokens": 5, "seed": 7, "temperature": 0, "ignore_eos": true,
        });
        assert_eq!(body(&client, &common, Some(9)), all);
        assert_eq!(body(&client, &common, None)["max_tokens"], 5);
        assert_eq!(body(&client, &common, Some(3))["max_tokens"], 3, "the lower limit applies");
    }

    #[test]
    fn completions_take_a_prompt() {
        let client = client(&[("endpoint", "completions"), ("stream", "off"), ("max_tokens_field", "n")]).unwrap();
        let common =
            RequestOptions { system_prompt: Some(String::from("a")), max_tokens: Some(5), ..RequestOptions::default() };
        assert_eq!(body(&client, &common, None), json!({"model": "m", "prompt": "a\n\n2+2?", "n": 5}));
        assert_eq!(client.target.url().as_str(), "http://127.0.0.1:8000/v1/completions");
    }

    #[test]
    fn earlier_turns_come_first() {
        let before = [EarlierTurn { problem: String::from("1+1?"), answer: String::from("2") }];
        let common = RequestOptions {
            system_prompt: Some(String::from("s")),
            max_tokens: Some(5),
            ignore_eos: true,
            ..RequestOptions::default()
        };
        let request =
            Request { id: None, index: 0, earlier: &before, problem: "2+2?", output_tokens: None, common: &common };
        let body_with =
            |parameters| serde_json::from_slice::<Value>(&client(parameters).unwrap().body(&request)).unwrap();
        let body = body_with(&[]);
        let messages = json!([
            {"role": "system", "content": "s"}, {"role": "user", "content": "1+1?"},
            {"role": "assistant", "content": "2"}, {"role": "user", "content": "2+2?"},
        ]);
        assert_eq!((&body["messages"], &body["ignore_eos"]), (&messages, &json!(true)));
        assert_eq!(body_with(&[("endpoint", "completions")])["prompt"], "s\n\n1+1?\n\n2\n\n2+2?");
    }

    #[test]
    fn an_invalid_parameter_lists_the_valid_ones() {
        let error = |name, value| client(&[(name, value)]).unwrap_err().one_line(&CommandLine);
        assert!(error("endpoint", "responses").contains("chat or completions"));
        assert!(error("usage", "maybe").contains("on or off"));
        assert!(error("colour", "red").contains("its parameters are endpoint, stream, usage, max_tokens_field"));
    }
}
