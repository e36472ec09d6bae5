//! Sends requests to one server, with one connection pool and one set of headers.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use ergometer_diagnostics::{Diagnostic, Hint, Message, command, hint, option};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, PROXY_AUTHORIZATION,
    USER_AGENT,
};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::Full;
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::{Position, Url};

use super::pool::{self, Answer, ConnectionPool};
use super::{AddressError, BaseUrl, Stage, request_error, secrets, status_error, tls};
use crate::redact::{Secrets, redact_url, secrets_of_parameters};
use crate::{ClientError, ConnectOutcome, ConnectionUse, Connections, FailureKind, Locality, Protocol, RequestError};

/// Maximum size of a response that is not a stream: a list of models, token counts, metrics.
const LONGEST_BODY: usize = 64 << 20;

/// Maximum number of redirects of a request.
const MOST_REDIRECTS: usize = 5;

/// The header with the request id.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Timeout for a response that is not a stream.
const ASK_TIMEOUT: Duration = Duration::from_secs(30);

/// Keys, certificates, connections and timeouts of a client.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Network {
    /// The environment variable with the API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// A PEM file with certificates to trust, in addition to the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Whether to accept any certificate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// The HTTP version of requests.
    #[serde(skip_serializing_if = "is_first")]
    pub protocol: Protocol,
    /// Maximum number of open connections. The default is one per request in flight, and one in total with HTTP/2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Timeouts of requests.
    pub timeouts: Timeouts,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_first(protocol: &Protocol) -> bool {
    *protocol == Protocol::Http1
}

impl Network {
    /// Whether every setting has its default.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Timeouts of requests, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timeouts {
    /// Connect timeout.
    pub connect_s: f64,
    /// Time to the first content after sending.
    pub first_token_s: f64,
    /// Time between two pieces of content.
    pub between_tokens_s: f64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect_s: 10.0, first_token_s: 600.0, between_tokens_s: 120.0 }
    }
}

impl Timeouts {
    /// Seconds as a duration, at most one year.
    pub(crate) fn duration(seconds: f64) -> Duration {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        Duration::try_from_secs_f64(seconds).map_or(YEAR, |length| length.min(YEAR))
    }
}

/// Invalid settings of a connection. Nothing has been sent yet.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address is invalid.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A header is invalid.
    #[error("{0}")]
    Header(Message),
    /// The API key is missing or would be sent in plain text.
    #[error("{0}")]
    Key(Message),
    /// Certificates cannot be used.
    #[error("{0}")]
    Tls(Message),
    /// Another setting is invalid.
    #[error("cannot set up HTTP: {0}")]
    Setup(Message),
}

impl Diagnostic for HttpError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Address(error) => error.hint(),
            Self::Header(message) | Self::Key(message) | Self::Tls(message) | Self::Setup(message) => message.hint(),
        }
    }
}

/// A server that requests are sent to.
#[derive(Clone)]
pub struct Connection {
    base: BaseUrl,
    /// Values that must not appear in errors: those of all headers.
    sent: Secrets,
    /// Values that must not appear in any file.
    secrets: Secrets,
    /// Secrets among the request parameters, after [`hide_parameters`](Self::hide_parameters).
    parameter_secrets: OnceLock<Secrets>,
    /// Connections of timed requests.
    pool: Arc<ConnectionPool>,
    /// Headers of timed requests, without the request id.
    headers: HeaderMap,
    /// The client of requests that are not timed. Each opens a new connection.
    asking: Client,
    timeouts: Timeouts,
}

impl fmt::Debug for Connection {
    /// Leaves out the headers, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("base", &self.base).finish_non_exhaustive()
    }
}

/// The URL of an endpoint, prepared for many requests.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    url: Url,
    /// The request target: the path, or the whole URL for a proxy or HTTP/2.
    uri: Uri,
}

#[cfg(test)]
impl Target {
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }
}

impl Connection {
    /// Prepares connections to a server. It sends nothing.
    pub fn new(base_url: &str, headers: &[String], network: &Network) -> Result<Self, HttpError> {
        let base = BaseUrl::parse(base_url)?;
        let mut headers = secrets::headers(&base, headers, network.api_key_env.as_deref())?;
        let given = headers.clone();
        // A compressed stream is held back until a block is full, which would falsify arrival times.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("ergometer/", env!("CARGO_PKG_VERSION"))));
        let tls = tls::config(network, pool::is_encrypted(&base))?;
        let mut builder = Client::builder()
            .default_headers(headers.clone())
            .connect_timeout(Timeouts::duration(network.timeouts.connect_s))
            .redirect(same_origin())
            .pool_max_idle_per_host(0)
            .tcp_nodelay(true)
            .http1_only()
            .tls_backend_preconfigured(tls.clone());
        if base.locality() == Locality::ThisMachine {
            // A proxy in the environment must not come between this machine and its own server.
            builder = builder.no_proxy();
        }
        let asking = builder.build().map_err(|error| HttpError::Setup(error.to_string().into()))?;
        let pool = ConnectionPool::new(&base, network, &tls)?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let accepted = HeaderValue::from_static("text/event-stream, application/json, application/x-ndjson");
        headers.insert(ACCEPT, accepted);
        let sent = secrets::values(given.values().chain(pool.proxy_authorization()));
        let keys = given.values().filter(|value| secrets::is_secret(value));
        let secrets = secrets::values(keys.chain(pool.proxy_authorization()));
        if let Some(auth) = pool.proxy_authorization() {
            headers.insert(PROXY_AUTHORIZATION, auth.clone());
        }
        if network.protocol == Protocol::Http1 {
            let host = base.authority();
            let invalid = |_| HttpError::Setup(Message::new(format!("`{host}` is not a host name")));
            let host = HeaderValue::from_str(&host).map_err(invalid)?;
            headers.insert(HOST, host);
        }
        Ok(Self {
            base,
            sent,
            secrets,
            parameter_secrets: OnceLock::new(),
            pool: Arc::new(pool),
            headers,
            asking,
            timeouts: network.timeouts,
        })
    }

    /// The address.
    #[must_use]
    pub fn base(&self) -> &BaseUrl {
        &self.base
    }

    /// Timeouts of requests.
    #[must_use]
    pub fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// The value of the header with the request id; `None` if the user set that header, which is sent instead.
    pub(crate) fn request_id(&self, id: &str) -> Option<HeaderValue> {
        HeaderValue::from_str(id).ok().filter(|_| !self.headers.contains_key(REQUEST_ID))
    }

    /// Opens connections for `count` requests that are about to be sent together.
    pub(crate) async fn connect(&self, count: u32) -> ConnectOutcome {
        self.pool.connect(count as usize).await
    }

    /// Counts of the connections of timed requests so far.
    #[must_use]
    pub fn connections(&self) -> Connections {
        self.pool.connections()
    }

    /// Closes idle connections.
    pub(crate) fn close(&self) {
        self.pool.close();
    }

    /// Prepares a URL for many requests.
    pub(crate) fn target(&self, url: &str) -> Result<Target, HttpError> {
        let wrong = |why: String| {
            HttpError::Setup(Message::new(format!("`{}` is not a request address: {why}", redact_url(url))))
        };
        let url = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
        // A forwarding proxy needs the whole URL, and so does hyper for HTTP/2.
        let is_whole = self.pool.is_forwarded() || !self.headers.contains_key(HOST);
        let text =
            if is_whole { &url[..Position::AfterQuery] } else { &url[Position::BeforePath..Position::AfterQuery] };
        let uri = text.parse().map_err(|error: http::uri::InvalidUri| wrong(error.to_string()))?;
        Ok(Target { url, uri })
    }

    /// Sends a JSON body and returns when the response head has arrived. `connection_use` receives the connection used.
    /// `id` is sent as the request id.
    pub(crate) async fn post(
        &self,
        target: &Target,
        body: Vec<u8>,
        id: Option<HeaderValue>,
        connection_use: &mut Option<ConnectionUse>,
    ) -> Result<Answer, RequestError> {
        let body = Bytes::from(body);
        let mut headers = self.headers.clone();
        if let Some(id) = id {
            headers.insert(REQUEST_ID, id);
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
            let answer = self.pool.send(request(there, headers.clone(), body.clone()), connection_use).await?;
            match self.moved(there, &answer) {
                Some(next) => moved = Some(next),
                None => return Ok(answer),
            }
        }
        let there = moved.as_ref().unwrap_or(target);
        self.pool.send(request(there, headers, body), connection_use).await
    }

    /// The target of a redirect, if it has the same origin: another origin must not see the key or the prompt. Other
    /// redirects than 307 and 308 drop the body and are not followed.
    fn moved(&self, from: &Target, answer: &Answer) -> Option<Target> {
        if !matches!(answer.head.status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
            return None;
        }
        let next = from.url.join(answer.head.headers.get(LOCATION)?.to_str().ok()?).ok()?;
        let is_same = next.origin() == from.url.origin();
        is_same.then(|| self.target(next.as_str()).ok()).flatten()
    }

    /// The error of a client whose server cannot be used.
    pub(crate) fn unavailable(&self, error: RequestError) -> ClientError {
        let error = self.without_secrets(error);
        let root = self.base.root();
        match error.kind {
            FailureKind::Connect | FailureKind::TimeoutConnect | FailureKind::Disconnected => {
                let hint = hint!(
                    "check that the server is running; ",
                    command("mock-server"),
                    " starts a server for tests, and ",
                    option("client").value("embedded"),
                    " needs no server"
                );
                let text = format!("no server answers at {root} ({})", error.cause);
                ClientError::Unreachable(Message::new(text).with_hint(hint))
            }
            _ => ClientError::Unavailable(error.to_message().at(root)),
        }
    }

    /// The failure with all secrets redacted, because a server may repeat what it received.
    pub(crate) fn without_secrets(&self, mut error: RequestError) -> RequestError {
        error.cause = self.redacted(error.cause);
        error
    }

    /// A text of an error with all secrets redacted.
    pub(crate) fn redacted(&self, mut text: String) -> String {
        self.sent.redact_in(&mut text);
        if let Some(secrets) = self.parameter_secrets.get() {
            secrets.redact_in(&mut text);
        }
        text
    }

    /// Adds the request parameters with names of secrets to the values that must not appear in errors and files. They are
    /// the same for all requests, so only the first call counts.
    pub(crate) fn hide_parameters(&self, parameters: &Map<String, Value>) {
        self.parameter_secrets.get_or_init(|| secrets_of_parameters(parameters));
    }

    /// Values that must not appear in any file.
    pub(crate) fn secrets(&self) -> Secrets {
        self.parameter_secrets.get().map_or_else(|| self.secrets.clone(), |more| self.secrets.and(more))
    }

    /// Sends a GET request and returns the whole body.
    pub async fn get(&self, url: &str) -> Result<Vec<u8>, RequestError> {
        let sent = async {
            let response = self.asking.get(url).send().await.map_err(|error| request_error(&error, Stage::Head))?;
            whole(checked(response).await?).await
        };
        within(ASK_TIMEOUT, sent).await
    }

    /// Sends a POST request with a JSON body and returns the whole body of the response.
    pub async fn ask(&self, url: &str, body: &Value) -> Result<Vec<u8>, RequestError> {
        let body = serde_json::to_vec(body).unwrap_or_default();
        let sent = async {
            let request = self.asking.post(url).header(CONTENT_TYPE, "application/json").body(body);
            let response = request.send().await.map_err(|error| request_error(&error, Stage::Head))?;
            whole(checked(response).await?).await
        };
        within(ASK_TIMEOUT, sent).await
    }
}

/// Follows redirects within one origin only: another origin must not see the key or the prompt.
fn same_origin() -> Policy {
    Policy::custom(|attempt| {
        let is_same = attempt.previous().last().is_some_and(|previous| previous.origin() == attempt.url().origin());
        if is_same && attempt.previous().len() <= MOST_REDIRECTS { attempt.follow() } else { attempt.stop() }
    })
}

/// The response, or the failure that its status means.
async fn checked(mut response: Response) -> Result<Response, RequestError> {
    if response.status().is_success() {
        return Ok(response);
    }
    let (status, headers) = (response.status(), response.headers().clone());
    Err(status_error(status, &headers, async move || response.chunk().await.ok().flatten()).await)
}

/// The whole body of a response.
async fn whole(mut response: Response) -> Result<Vec<u8>, RequestError> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(|error| request_error(&error, Stage::Body))? {
        if body.len() + bytes.len() > LONGEST_BODY {
            let cause = format!("the response is longer than {} MiB", LONGEST_BODY >> 20);
            return Err(RequestError::new(FailureKind::Malformed, cause));
        }
        body.extend_from_slice(&bytes);
    }
    Ok(body)
}

async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, RequestError>>) -> Result<T, RequestError> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let cause = format!("no response within {} s", limit.as_secs());
        Err(RequestError::new(FailureKind::TimeoutTotal, cause))
    })
}
