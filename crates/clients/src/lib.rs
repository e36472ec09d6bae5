//! Clients that send requests to inference servers and record when each part of an answer arrived.
//!
//! The caller checks a client's health, prepares it, streams requests through it, several at a time, and closes it. A
//! [`Transcript`] keeps what a request received even when the request fails, times out or is dropped.
//!
//! ```
//! use ergometer_clients::{ClientSpec, Request, RequestOptions, Transcript, open};
//! use ergometer_mock_server::{MockServer, Script};
//! use ergometer_telemetry::Clock;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = MockServer::start(Script::instant()).await?;
//! let client = open(&ClientSpec {
//!     id: String::from("openai"),
//!     model: String::from("mock"),
//!     base_url: Some(server.base_url()),
//!     ..ClientSpec::default()
//! })?;
//!
//! let common = RequestOptions { max_tokens: Some(8), ..RequestOptions::default() };
//! let request =
//!     Request { id: None, index: 0, earlier: &[], problem: "2+2?", output_tokens: None, common: &common };
//! let mut transcript = Transcript::default();
//! client.stream(&request, &Clock::start(), &mut transcript).await?;
//! assert!(transcript.sent < transcript.first_token());
//! assert!(!transcript.text.is_empty());
//!
//! client.close().await?;
//! # Ok(())
//! # }
//! ```

mod connections;
#[cfg(feature = "embedded")]
mod embedded;
mod error;
pub mod http;
mod ollama;
mod openai;
mod outcome;
mod reading;
pub mod redact;
mod registry;
mod replay;
pub mod server_metrics;
pub mod stream;
mod transcript;

use async_trait::async_trait;
use ergometer_telemetry::{Clock, DeviceKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use connections::{ConnectOutcome, ConnectionUse, Connections, Protocol};
pub use error::{ClientError, RequestError};
pub use outcome::{FailureKind, Outcome, ParseFailureKindError};
pub use registry::{ClientInfo, ClientSpec, only_model, open, registry};
pub use replay::{Dialect, replay};
pub use transcript::{AnswerEnd, Chunk, ChunkKind, ServerTimes, TokenSource, Transcript, Usage};

/// Sends requests to a model and reads its answers.
#[async_trait]
pub trait Client: Send + Sync {
    /// The id in the registry.
    fn id(&self) -> &'static str;

    /// Where inference runs, which decides whether the sensors of this machine measure its energy.
    fn locality(&self) -> Locality;

    /// The address of the server; `None` for a client without a server.
    fn base_url(&self) -> Option<&http::BaseUrl> {
        None
    }

    /// Checks that the server can be reached.
    async fn health(&self) -> Result<(), ClientError>;

    /// The models that the server offers.
    async fn models(&self) -> Result<Vec<String>, ClientError>;

    /// Loads the model and checks the options shared by all requests.
    async fn prepare(&self, common: &RequestOptions) -> Result<ModelFacts, ClientError>;

    /// Sends one request and writes the answer into `transcript` as it arrives. Dropping the future cancels the
    /// request.
    async fn stream(
        &self,
        request: &Request<'_>,
        clock: &Clock,
        transcript: &mut Transcript,
    ) -> Result<(), RequestError>;

    /// Counts the tokens of a request and of the parts of its answer with the server's tokenizer; `None` when the
    /// server has no tokenizer endpoint. Called after the run, never during a measurement.
    async fn count(&self, _request: &Request<'_>, _answer: &[&str]) -> Option<Usage> {
        None
    }

    /// Opens connections for `count` requests that are about to be sent together, so that their times do not include
    /// connecting. A client without connections does nothing.
    async fn connect(&self, _count: u32) -> ConnectOutcome {
        ConnectOutcome::AlreadyOpen
    }

    /// Counts of opened and reused connections so far; `None` for a client without connections.
    fn connections(&self) -> Option<Connections> {
        None
    }

    /// Values that must not appear in any file, such as the API key: a server may repeat them in its answers.
    fn secrets(&self) -> redact::Secrets {
        redact::Secrets::default()
    }

    /// Closes connections and frees the model.
    async fn close(&self) -> Result<(), ClientError>;
}

/// Where a client's inference runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Locality {
    /// In this process.
    ThisProcess,
    /// On this machine.
    ThisMachine,
    /// On another machine, whose energy the sensors here do not measure.
    Elsewhere {
        /// The name of that machine.
        host: String,
    },
}

/// Options shared by all requests of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RequestOptions {
    /// System prompt, sent before the problem.
    pub system_prompt: Option<String>,
    /// Maximum tokens per answer.
    pub max_tokens: Option<u64>,
    /// Whether the server ignores the model's end-of-sequence token, so that every answer has `max_tokens` tokens.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_eos: bool,
    /// Sampling and other parameters, by name.
    #[serde(default)]
    pub parameters: Map<String, Value>,
    /// Random seed.
    pub seed: u64,
}

/// An earlier turn of the same conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierTurn {
    /// The user's message.
    pub problem: String,
    /// The model's answer.
    pub answer: String,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The request id, sent in the header `x-request-id`, so that server logs can be joined with the run; `None` for a
    /// request outside the run.
    pub id: Option<&'a str>,
    /// The query's index in the dataset. Seed and index together decide random choices, so the order of requests does
    /// not matter.
    pub index: u64,
    /// The earlier turns of the conversation; empty for its first turn.
    pub earlier: &'a [EarlierTurn],
    /// The user's message.
    pub problem: &'a str,
    /// Maximum tokens of this answer according to the dataset.
    pub output_tokens: Option<u64>,
    /// Options shared by all requests of the run.
    pub common: &'a RequestOptions,
}

impl Request<'_> {
    /// Maximum tokens of the answer: the lower of the dataset's limit and the run's.
    #[must_use]
    pub fn max_tokens(&self) -> Option<u64> {
        lower_limit(self.output_tokens, self.common.max_tokens)
    }

    /// The conversation as plain text, for a model without a chat template: messages separated by an empty line.
    #[must_use]
    pub fn plain(&self) -> String {
        let earlier = self.earlier.iter().flat_map(|turn| [turn.problem.as_str(), turn.answer.as_str()]);
        earlier.chain([self.problem]).collect::<Vec<_>>().join("\n\n")
    }
}

/// The lower of two optional limits.
#[must_use]
pub fn lower_limit(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

/// What a client knows about its model; unknown values are `None`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ModelFacts {
    /// Number of parameters.
    pub parameters: Option<u64>,
    /// Size of the weights in memory, in bytes.
    pub weight_bytes: Option<u64>,
    /// Context length in tokens.
    pub context: Option<u64>,
    /// A hash of the model files.
    #[serde(default)]
    pub fingerprint: Option<String>,
    /// The kind of device that runs the model.
    #[serde(default)]
    pub computes_on: Option<DeviceKind>,
}
