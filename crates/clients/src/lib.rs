//! Clients: a request goes in, a transcript and an outcome come out.
//!
//! A client is asked whether it is healthy, prepared, then sent requests, several at a time, and closed on every path
//! out. What a request brought in before it failed, timed out or was dropped is in its transcript.

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

pub use connections::{Connected, Connections, Line, Protocol};
pub use error::{ClientError, RequestError};
pub use outcome::{FailureKind, Outcome, ParseFailureKindError};
pub use registry::{ClientInfo, ClientSpec, only_model, open, registry};
pub use replay::{Dialect, replay};
pub use transcript::{Chunk, ChunkKind, ServerTimes, TokenSource, Transcript, Usage};

/// Something that answers requests.
#[async_trait]
pub trait Client: Send + Sync {
    /// The id in the registry.
    fn id(&self) -> &'static str;

    /// Where the work is done: whose energy it is.
    fn place(&self) -> Place;

    /// The address of its server, where it has one.
    fn base_url(&self) -> Option<&http::BaseUrl> {
        None
    }

    /// Whether it can be reached at all.
    async fn health(&self) -> Result<(), ClientError>;

    /// The models it has.
    async fn models(&self) -> Result<Vec<String>, ClientError>;

    /// Loads the model and checks what every request will ask for.
    async fn prepare(&self, common: &RequestOptions) -> Result<ModelFacts, ClientError>;

    /// Sends one request and takes in what comes back, as it comes. Dropping the future gives the request up.
    async fn stream(
        &self,
        request: &Request<'_>,
        clock: &Clock,
        transcript: &mut Transcript,
    ) -> Result<(), RequestError>;

    /// Counts the tokens of a request and of the parts of its answer with the server's own tokenizer, where it has one.
    /// Called after the run, never while something is measured.
    async fn count(&self, _request: &Request<'_>, _answer: &[&str]) -> Option<Usage> {
        None
    }

    /// Opens connections for so many requests that are about to be sent together, where it has any: what it takes to connect
    /// is then not in their times. Says whether it opened any.
    async fn connect(&self, _count: u32) -> Connected {
        Connected::Already
    }

    /// What its connections came to so far, where it has any.
    fn connections(&self) -> Option<Connections> {
        None
    }

    /// Lets go of what it holds.
    async fn close(&self) -> Result<(), ClientError>;
}

/// Where a client's work is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Place {
    /// In this process.
    ThisProcess,
    /// On this machine.
    ThisMachine,
    /// On another machine: what is measured here is not what it uses.
    Elsewhere {
        /// Its name.
        host: String,
    },
}

/// What every request of a run asks for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RequestOptions {
    /// Said before the problem.
    pub system_prompt: Option<String>,
    /// The most tokens an answer may have.
    pub max_tokens: Option<u64>,
    /// Whether answers are to have all tokens they may have, wherever the model would end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_eos: bool,
    /// Sampling and other parameters, by name.
    #[serde(default)]
    pub parameters: Map<String, Value>,
    /// What random choices start from.
    pub seed: u64,
}

/// What was said in an earlier turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// By the human.
    pub problem: String,
    /// By the model.
    pub answer: String,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Its number in the run, where it is one of its requests; a server that takes ids is told it, so that its log can be
    /// joined with ours.
    pub number: Option<u64>,
    /// The query's place in the dataset: with the seed it makes random choices the same whatever the order.
    pub index: u64,
    /// What was said before, where it is a further turn of a conversation.
    pub before: &'a [Said],
    /// What is asked.
    pub problem: &'a str,
    /// The most tokens this answer may have, where its query says so.
    pub output_tokens: Option<u64>,
    /// What all requests ask for.
    pub common: &'a RequestOptions,
}

impl Request<'_> {
    /// The most tokens the answer may have: what its query says, and no more than the run says.
    #[must_use]
    pub fn max_tokens(&self) -> Option<u64> {
        fewest(self.output_tokens, self.common.max_tokens)
    }

    /// What was said before and what is asked, as one text for a model that takes no messages: an empty line between any
    /// two.
    #[must_use]
    pub fn plain(&self) -> String {
        let before = self.before.iter().flat_map(|said| [said.problem.as_str(), said.answer.as_str()]);
        before.chain([self.problem]).collect::<Vec<_>>().join("\n\n")
    }
}

/// The lower one of two limits, where there are any.
#[must_use]
pub fn fewest(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

/// What is known about a model; `None` where the client cannot tell.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ModelFacts {
    /// How many parameters it has.
    pub parameters: Option<u64>,
    /// The bytes its weights take where they are computed with.
    pub weight_bytes: Option<u64>,
    /// How many tokens it can look at.
    pub context: Option<u64>,
    /// A hash of its files.
    #[serde(default)]
    pub fingerprint: Option<String>,
    /// What kind of device computes, where that is known.
    #[serde(default)]
    pub computes_on: Option<DeviceKind>,
}
