//! What a server tells of itself: the address of its metrics goes in; requests running and waiting, tokens and the use of
//! its cache come out, on the run's timeline.
//!
//! A server that does not answer, or no more, costs a warning and never a run. What is not there is not shown as zero.

mod names;
mod scraper;
mod sensor;
#[cfg(test)]
mod tests;

use std::time::Duration;

use url::Url;

use crate::ClientSpec;
use crate::http::{BaseUrl, Connection, Network};
use crate::redact::redact_url;
use names::Dialect;
pub use scraper::Scraper;
pub use sensor::ID_PREFIX;

/// What is asked for by nobody may take this long to answer.
const GLANCE: Duration = Duration::from_secs(2);

/// What is asked for by name may take this long: a server may be busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// The value of `--server-metrics` that leaves them out.
const OFF: &str = "off";

/// Metrics that were asked for and are not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no metrics of a server at {url}: {why}. hint: {hint}")]
pub struct MetricsError {
    /// Where they were looked for, without its secrets.
    pub url: String,
    /// What is wrong.
    pub why: String,
    /// What to do about it.
    pub hint: String,
}

impl MetricsError {
    fn new(url: &str, why: &str) -> Self {
        let default = "vLLM tells them at /metrics, SGLang with --enable-metrics, llama.cpp with --metrics, \
                       trtllm-serve at /prometheus/metrics; `--server-metrics off` leaves them out";
        // What went wrong may come with a hint of its own, which knows more.
        let (why, hint) = why.split_once(". hint: ").unwrap_or((why, default));
        Self { url: redact_url(url), why: why.to_owned(), hint: hint.to_owned() }
    }
}

/// The metrics of a server that answered.
#[derive(Debug, Clone)]
pub struct ServerMetrics {
    connection: Connection,
    url: String,
    dialect: &'static Dialect,
}

impl ServerMetrics {
    /// Looks for the metrics of a client's server: at the address that is asked for, else under `/metrics` of the server at
    /// `base`. Where nobody asked, there may be none.
    pub async fn find(
        spec: &ClientSpec,
        base: Option<&BaseUrl>,
        asked: Option<&str>,
    ) -> Result<Option<Self>, MetricsError> {
        match (asked, base) {
            (Some(OFF), _) | (None, None) => Ok(None),
            (Some(url), _) => {
                let url = address(url).map_err(|why| MetricsError::new(url, &why))?;
                let found = Self::look(spec, base, &url, PATIENCE).await;
                found.map(Some).map_err(|why| MetricsError::new(url.as_str(), &why))
            }
            (None, Some(base)) => match Url::parse(&base.path("metrics")) {
                Ok(url) => Ok(Self::look(spec, Some(base), &url, GLANCE).await.ok()),
                Err(_) => Ok(None),
            },
        }
    }

    async fn look(spec: &ClientSpec, base: Option<&BaseUrl>, url: &Url, limit: Duration) -> Result<Self, String> {
        let connection = connection(spec, base, url)?;
        let text = text(&connection, url.as_str(), limit).await?;
        let dialect = Dialect::of(&text).map_err(|error| error.to_string())?;
        Ok(Self { connection, url: url.to_string(), dialect })
    }

    /// Where they are, without secrets.
    #[must_use]
    pub fn url(&self) -> String {
        redact_url(&self.url)
    }

    /// What the server is, by its names: `vLLM`.
    #[must_use]
    pub fn software(&self) -> &'static str {
        self.dialect.name
    }

    /// One answer: the value of each signal of the dialect.
    async fn ask(&self, limit: Duration) -> Result<Vec<Option<f64>>, String> {
        let text = text(&self.connection, &self.url, limit).await?;
        self.dialect.read(&text).map_err(|error| error.to_string())
    }
}

/// An address as people write it: with or without a scheme, with or without the path.
fn address(text: &str) -> Result<Url, String> {
    let text = text.trim();
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let mut url = Url::parse(&with_scheme).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(String::from("its scheme is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(String::from("it holds a user name or a password, which would be in every log"));
    }
    if url.path() == "/" {
        url.set_path("metrics");
    }
    url.set_fragment(None);
    Ok(url)
}

/// A connection to where metrics are. The client's headers and key go to the client's server and to no other.
fn connection(spec: &ClientSpec, base: Option<&BaseUrl>, url: &Url) -> Result<Connection, String> {
    let of_client = base.and_then(|base| Url::parse(base.root()).ok());
    let is_same = of_client.is_some_and(|of_client| of_client.origin() == url.origin());
    let headers: &[String] = if is_same { &spec.headers } else { &[] };
    let key = if is_same { spec.network.api_key_env.clone() } else { None };
    let network = Network { api_key_env: key, ..spec.network.clone() };
    Connection::new(&url.origin().ascii_serialization(), headers, &network).map_err(|error| error.to_string())
}

/// The text that is there now.
async fn text(connection: &Connection, url: &str, limit: Duration) -> Result<String, String> {
    match tokio::time::timeout(limit, connection.get(url)).await {
        Ok(Ok(body)) => Ok(String::from_utf8_lossy(&body).into_owned()),
        Ok(Err(error)) => Err(error.cause),
        Err(_) => Err(format!("no answer within {} s", limit.as_secs())),
    }
}
