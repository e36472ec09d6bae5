//! A server that requests are sent to: one pool of connections, one set of headers, one origin.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use serde::{Deserialize, Serialize};

use super::{AddressError, BaseUrl, Stage, request_error, secrets, status_error, tls};
use crate::client::{ClientError, FailureKind, Place, Protocol, RequestError};
use crate::redact::REDACTED;

/// What an answer that is not a stream may have at most: a list of models, counts, metrics.
const LONGEST_BODY: usize = 64 << 20;

/// A connection that was just being closed tells so within a way there and back.
const STALE_WITHIN: Duration = Duration::from_millis(500);

/// How long such an answer may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(30);

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Network {
    /// The environment variable with the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// A file with certificates to trust, besides the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Whether any certificate is accepted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// The version of HTTP that requests are sent with.
    #[serde(skip_serializing_if = "is_first")]
    pub protocol: Protocol,
    /// How many connections are open at most; as many as there are requests in flight where it is not said, and one with HTTP/2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// How long to wait for what.
    pub timeouts: Timeouts,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_first(protocol: &Protocol) -> bool {
    *protocol == Protocol::Http1
}

impl Network {
    /// Whether nothing was asked for.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How long to wait for what, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timeouts {
    /// A connection.
    pub connect_s: f64,
    /// The first content, from sending.
    pub first_token_s: f64,
    /// Further content, from the last.
    pub between_tokens_s: f64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect_s: 10.0, first_token_s: 600.0, between_tokens_s: 120.0 }
    }
}

impl Timeouts {
    /// Seconds as a duration; what is too long to count is a year.
    pub(crate) fn duration(seconds: f64) -> Duration {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        Duration::try_from_secs_f64(seconds).map_or(YEAR, |length| length.min(YEAR))
    }
}

/// What is wrong with how a server is to be reached. Nothing has been sent yet.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A header.
    #[error("{0}")]
    Header(String),
    /// The key.
    #[error("{0}")]
    Key(String),
    /// Certificates.
    #[error("{0}")]
    Tls(String),
    /// The rest.
    #[error("cannot set up HTTP: {0}")]
    Setup(#[from] reqwest::Error),
}

/// A server that requests are sent to.
#[derive(Clone)]
pub struct Connection {
    base: BaseUrl,
    /// What is sent and must not be told.
    secrets: Arc<[String]>,
    /// Uses connections again.
    kept: Client,
    /// Makes a new one for each request.
    fresh: Client,
    /// Whether connections are used again.
    keeps: Arc<AtomicBool>,
    /// Whether anything was answered yet, so that there may be a connection to use again.
    was_answered: Arc<AtomicBool>,
    timeouts: Timeouts,
}

impl fmt::Debug for Connection {
    /// Its clients know the headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Connection {
    /// Sets up what is needed; nothing is sent.
    pub fn new(base_url: &str, headers: &[String], network: &Network) -> Result<Self, HttpError> {
        let base = BaseUrl::parse(base_url)?;
        let mut headers = secrets::headers(&base, headers, network.api_key_env.as_deref())?;
        let secrets = secrets::values(&headers);
        // What is compressed is held back until a block is full: no arrival time would be true.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let client = |most_idle: usize| -> Result<Client, HttpError> {
            let mut builder = Client::builder()
                .default_headers(headers.clone())
                .user_agent(concat!("ergometer/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(Timeouts::duration(network.timeouts.connect_s))
                .redirect(same_origin())
                .pool_max_idle_per_host(most_idle)
                .tcp_nodelay(true)
                .http1_only();
            if base.place() == Place::ThisMachine {
                // What happens on this machine is measured here, whatever the environment says of proxies.
                builder = builder.no_proxy();
            }
            Ok(tls::apply(builder, network, base.is_encrypted())?.build()?)
        };
        Ok(Self {
            kept: client(usize::MAX)?,
            fresh: client(0)?,
            keeps: Arc::new(AtomicBool::new(true)),
            was_answered: Arc::default(),
            timeouts: network.timeouts,
            secrets,
            base,
        })
    }

    /// The address.
    #[must_use]
    pub fn base(&self) -> &BaseUrl {
        &self.base
    }

    /// How long to wait for what.
    #[must_use]
    pub fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// Sends a JSON body and returns once the head of the answer is there. `id` lets the server's log be joined with ours.
    ///
    /// Some servers close a connection that they promised to keep (llama.cpp after every stream), and a request that is
    /// just then sent on it is lost, though nothing is wrong with either. Such a failure is marked as stale, and from then
    /// on every request has a connection of its own.
    pub(crate) async fn post(&self, url: &str, body: Vec<u8>, id: Option<u64>) -> Result<Response, RequestError> {
        let keeps = self.keeps.load(Ordering::Relaxed);
        let may_be_stale = keeps && self.was_answered.load(Ordering::Relaxed);
        let client = if keeps { &self.kept } else { &self.fresh };
        let mut request = client.post(url).header(CONTENT_TYPE, "application/json").body(body);
        request = request.header(ACCEPT, "text/event-stream, application/json, application/x-ndjson");
        if let Some(id) = id {
            request = request.header("x-request-id", format!("ergometer-{id}"));
        }
        let sent = Instant::now();
        match request.send().await {
            Ok(response) => {
                self.was_answered.store(true, Ordering::Relaxed);
                Ok(response)
            }
            Err(error) => {
                let error = request_error(&error, Stage::Head);
                // A server that took longer has worked on it.
                let is_stale = may_be_stale && error.kind == FailureKind::Disconnected && sent.elapsed() < STALE_WITHIN;
                if is_stale {
                    self.keeps.store(false, Ordering::Relaxed);
                }
                Err(RequestError { is_stale, ..error })
            }
        }
    }

    /// That nobody answers, as a person needs it.
    pub(crate) fn unavailable(&self, error: RequestError) -> ClientError {
        let error = self.without_secrets(error);
        let root = self.base.root();
        ClientError::Unavailable(match error.kind {
            FailureKind::Connect | FailureKind::TimeoutConnect | FailureKind::Disconnected => format!(
                "no server answers at {root} ({}). hint: is it running? `ergo mock-server` starts one to try with; `--client embedded` needs none",
                error.cause.strip_prefix("no connection: ").unwrap_or(&error.cause)
            ),
            FailureKind::Tls => format!(
                "{root}: {}. hint: --ca FILE trusts the certificates in it; --insecure trusts any; http:// uses none",
                error.cause
            ),
            _ => format!("{root}: {}", error.cause),
        })
    }

    /// A failure without the secrets that were sent: a server may repeat what it was told.
    pub(crate) fn without_secrets(&self, mut error: RequestError) -> RequestError {
        for secret in self.secrets.iter() {
            error.cause = error.cause.replace(secret, REDACTED);
        }
        error
    }

    /// Asks for a small answer and returns it whole.
    pub async fn get(&self, url: &str) -> Result<Vec<u8>, RequestError> {
        let sent = async {
            let response = self.fresh.get(url).send().await.map_err(|error| request_error(&error, Stage::Head))?;
            whole(checked(response).await?).await
        };
        within(ASK_TIMEOUT, sent).await
    }

    /// Sends a JSON body and returns a small answer whole.
    pub async fn ask(&self, url: &str, body: &serde_json::Value) -> Result<Vec<u8>, RequestError> {
        let body = serde_json::to_vec(body).unwrap_or_default();
        let sent = async {
            let request = self.fresh.post(url).header(CONTENT_TYPE, "application/json").body(body);
            let response = request.send().await.map_err(|error| request_error(&error, Stage::Head))?;
            whole(checked(response).await?).await
        };
        within(ASK_TIMEOUT, sent).await
    }
}

/// Follows a redirect within one origin only: another must not see the key, nor what is asked.
fn same_origin() -> Policy {
    Policy::custom(|attempt| {
        let is_same = attempt.previous().last().is_some_and(|before| before.origin() == attempt.url().origin());
        if is_same && attempt.previous().len() < 5 { attempt.follow() } else { attempt.stop() }
    })
}

/// The answer, where its status is success.
pub(crate) async fn checked(response: Response) -> Result<Response, RequestError> {
    if response.status().is_success() { Ok(response) } else { Err(status_error(response).await) }
}

/// All of an answer that is not a stream.
pub(crate) async fn whole(mut response: Response) -> Result<Vec<u8>, RequestError> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(|error| request_error(&error, Stage::Body))? {
        if body.len() + bytes.len() > LONGEST_BODY {
            let cause = format!("the answer is longer than {} MiB", LONGEST_BODY >> 20);
            return Err(RequestError::new(FailureKind::Malformed, cause));
        }
        body.extend_from_slice(&bytes);
    }
    Ok(body)
}

async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, RequestError>>) -> Result<T, RequestError> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let cause = format!("no answer within {} s", limit.as_secs());
        Err(RequestError::new(FailureKind::TimeoutTotal, cause))
    })
}
