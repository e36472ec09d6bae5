//! A server that requests are sent to: one pool of connections, one set of headers, one origin.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, PROXY_AUTHORIZATION,
    USER_AGENT,
};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::Full;
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use serde::{Deserialize, Serialize};
use url::{Position, Url};

use super::lanes::{self, Answer, Lanes};
use super::{AddressError, BaseUrl, Stage, request_error, secrets, status_error, tls};
use crate::redact::{REDACTED, redact_url};
use crate::{ClientError, ConnectOutcome, ConnectionUse, Connections, FailureKind, Locality, Protocol, RequestError};

/// What an answer that is not a stream may have at most: a list of models, counts, metrics.
const LONGEST_BODY: usize = 64 << 20;

/// How often a request may be sent somewhere else.
const MOST_REDIRECTS: usize = 5;

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
    Setup(String),
}

/// A server that requests are sent to.
#[derive(Clone)]
pub struct Connection {
    base: BaseUrl,
    /// What is sent and must not be told.
    secrets: Arc<[String]>,
    /// What is timed goes this way.
    lanes: Arc<Lanes>,
    /// What every request that is timed carries.
    headers: HeaderMap,
    /// What is not timed goes this way, each request on a connection of its own.
    asking: Client,
    timeouts: Timeouts,
}

impl fmt::Debug for Connection {
    /// Its clients know the headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("base", &self.base).finish_non_exhaustive()
    }
}

/// Where requests are sent: a path of the server.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    url: Url,
    /// The same, as a request says it.
    uri: Uri,
}

#[cfg(test)]
impl Target {
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }
}

impl Connection {
    /// Sets up what is needed; nothing is sent.
    pub fn new(base_url: &str, headers: &[String], network: &Network) -> Result<Self, HttpError> {
        let base = BaseUrl::parse(base_url)?;
        let mut headers = secrets::headers(&base, headers, network.api_key_env.as_deref())?;
        let given = headers.clone();
        // What is compressed is held back until a block is full: no arrival time would be true.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("ergometer/", env!("CARGO_PKG_VERSION"))));
        let tls = tls::config(network, lanes::is_encrypted(&base))?;
        let mut builder = Client::builder()
            .default_headers(headers.clone())
            .connect_timeout(Timeouts::duration(network.timeouts.connect_s))
            .redirect(same_origin())
            .pool_max_idle_per_host(0)
            .tcp_nodelay(true)
            .http1_only()
            .tls_backend_preconfigured(tls.clone());
        if base.locality() == Locality::ThisMachine {
            // What happens on this machine is measured here, whatever the environment says of proxies.
            builder = builder.no_proxy();
        }
        let asking = builder.build().map_err(|error| HttpError::Setup(error.to_string()))?;
        let lanes = Lanes::new(&base, network, &tls)?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let taken = HeaderValue::from_static("text/event-stream, application/json, application/x-ndjson");
        headers.insert(ACCEPT, taken);
        let secrets = secrets::values(given.values().chain(lanes.proxy_authorization()));
        if let Some(auth) = lanes.proxy_authorization() {
            headers.insert(PROXY_AUTHORIZATION, auth.clone());
        }
        if network.protocol == Protocol::Http1 {
            let host = base.authority();
            let host = HeaderValue::from_str(&host).map_err(|_| HttpError::Setup(format!("{host} is no host")))?;
            headers.insert(HOST, host);
        }
        Ok(Self { lanes: Arc::new(lanes), headers, asking, timeouts: network.timeouts, secrets, base })
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

    /// Opens connections for so many requests that are about to be sent together.
    pub(crate) async fn connect(&self, count: u32) -> ConnectOutcome {
        self.lanes.connect(count as usize).await
    }

    /// What the connections of timed requests came to so far.
    #[must_use]
    pub fn connections(&self) -> Connections {
        self.lanes.connections()
    }

    /// Closes the connections that lie idle.
    pub(crate) fn close(&self) {
        self.lanes.close();
    }

    /// A place to send requests to, put together once for all of them.
    pub(crate) fn target(&self, url: &str) -> Result<Target, HttpError> {
        let wrong = |why: String| HttpError::Setup(format!("`{}` is no address of a request: {why}", redact_url(url)));
        let url = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
        // A proxy is told the whole address, and so is a server over HTTP/2, which takes it apart itself.
        let is_whole = self.lanes.is_forwarded() || !self.headers.contains_key(HOST);
        let text =
            if is_whole { &url[..Position::AfterQuery] } else { &url[Position::BeforePath..Position::AfterQuery] };
        let uri = text.parse().map_err(|error: http::uri::InvalidUri| wrong(error.to_string()))?;
        Ok(Target { url, uri })
    }

    /// Sends a JSON body and returns once the head of the answer is there; `line` is what it travels on. `id` lets the
    /// server's log be joined with ours.
    pub(crate) async fn post(
        &self,
        target: &Target,
        body: Vec<u8>,
        id: Option<u64>,
        line: &mut Option<ConnectionUse>,
    ) -> Result<Answer, RequestError> {
        let body = Bytes::from(body);
        let mut headers = self.headers.clone();
        if let Some(id) = id.and_then(|id| HeaderValue::try_from(format!("ergometer-{id}")).ok()) {
            headers.insert(HeaderName::from_static("x-request-id"), id);
        }
        let request = |target: &Target, headers: HeaderMap, body: Bytes| {
            let mut request = Request::new(Full::new(body));
            *request.method_mut() = Method::POST;
            *request.uri_mut() = target.uri.clone();
            *request.headers_mut() = headers;
            request
        };
        let mut moved: Option<Target> = None;
        for _ in 0..MOST_REDIRECTS {
            let there = moved.as_ref().unwrap_or(target);
            let answer = self.lanes.send(request(there, headers.clone(), body.clone()), line).await?;
            match self.moved(there, &answer) {
                Some(next) => moved = Some(next),
                None => return Ok(answer),
            }
        }
        let there = moved.as_ref().unwrap_or(target);
        self.lanes.send(request(there, headers, body), line).await
    }

    /// Where an answer sends the request to, within one origin only: another must not see the key, nor what is asked. Other
    /// redirects than these two turn a request into one without a body.
    fn moved(&self, from: &Target, answer: &Answer) -> Option<Target> {
        if !matches!(answer.head.status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
            return None;
        }
        let next = from.url.join(answer.head.headers.get(LOCATION)?.to_str().ok()?).ok()?;
        let is_same = next.origin() == from.url.origin();
        is_same.then(|| self.target(next.as_str()).ok()).flatten()
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
            let response = self.asking.get(url).send().await.map_err(|error| request_error(&error, Stage::Head))?;
            whole(checked(response).await?).await
        };
        within(ASK_TIMEOUT, sent).await
    }

    /// Sends a JSON body and returns a small answer whole.
    pub async fn ask(&self, url: &str, body: &serde_json::Value) -> Result<Vec<u8>, RequestError> {
        let body = serde_json::to_vec(body).unwrap_or_default();
        let sent = async {
            let request = self.asking.post(url).header(CONTENT_TYPE, "application/json").body(body);
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
        if is_same && attempt.previous().len() <= MOST_REDIRECTS { attempt.follow() } else { attempt.stop() }
    })
}

/// The answer, where its status is success.
async fn checked(mut response: Response) -> Result<Response, RequestError> {
    if response.status().is_success() {
        return Ok(response);
    }
    let (status, headers) = (response.status(), response.headers().clone());
    Err(status_error(status, &headers, async move || response.chunk().await.ok().flatten()).await)
}

/// All of an answer that is not a stream.
async fn whole(mut response: Response) -> Result<Vec<u8>, RequestError> {
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
