//! Reads the Prometheus metrics of an inference server during a run: running and waiting requests, tokens, cache usage.
//!
//! A server that stops answering causes a warning and never ends a run. A missing metric has no readings, not zeros.

mod names;
mod scraper;
mod sensor;
#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::time::Duration;

use ergometer_diagnostics::{Diagnostic, Hint, Message, hint, option};
use url::Url;

use crate::ClientSpec;
use crate::http::{BaseUrl, Connection, Network};
use crate::redact::redact_url;
use names::Dialect;
pub use scraper::Scraper;
pub use sensor::ID_PREFIX;

/// Timeout when the user did not ask for metrics.
const GLANCE: Duration = Duration::from_secs(2);

/// Timeout when the user asked for metrics: the server may be busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// The value instead of an address that turns metrics off.
const OFF: &str = "off";

/// The metrics that the user asked for cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no server metrics at {url}: {}", .why.text)]
pub struct MetricsError {
    /// The address of the metrics, with secrets redacted.
    pub url: String,
    /// What went wrong.
    pub why: Message,
}

impl MetricsError {
    fn new(url: &str, why: Message) -> Self {
        Self { url: redact_url(url), why }
    }
}

impl Diagnostic for MetricsError {
    fn hint(&self) -> Option<Hint> {
        let default = || {
            hint!(
                "vLLM serves metrics at /metrics, trtllm-serve at /prometheus/metrics; SGLang needs --enable-metrics, \
                 llama.cpp --metrics. To run without metrics, pass ",
                option("server-metrics").value(OFF)
            )
        };
        self.why.hint().or_else(|| Some(default()))
    }
}

/// The metrics of a server.
#[derive(Debug, Clone)]
pub struct ServerMetrics {
    connection: Connection,
    url: String,
    dialect: &'static Dialect,
}

impl ServerMetrics {
    /// Looks for metrics at the address `asked`, or else under `/metrics` of the server at `base`. If `asked` is
    /// `None`, a server without metrics is no error.
    pub async fn find(
        spec: &ClientSpec,
        base: Option<&BaseUrl>,
        asked: Option<&str>,
    ) -> Result<Option<Self>, MetricsError> {
        match (asked, base) {
            (Some(OFF), _) | (None, None) => Ok(None),
            (Some(url), _) => {
                let url = address(url).map_err(|why| MetricsError::new(url, why))?;
                let found = Self::look(spec, base, &url, PATIENCE).await;
                found.map(Some).map_err(|why| MetricsError::new(url.as_str(), why))
            }
            (None, Some(base)) => match Url::parse(&base.path("metrics")) {
                Ok(url) => Ok(Self::look(spec, Some(base), &url, GLANCE).await.ok()),
                Err(_) => Ok(None),
            },
        }
    }

    async fn look(spec: &ClientSpec, base: Option<&BaseUrl>, url: &Url, limit: Duration) -> Result<Self, Message> {
        let connection = connection(spec, base, url)?;
        let dialect = read(&connection, url.as_str(), limit, Dialect::detect).await?;
        Ok(Self { connection, url: url.to_string(), dialect })
    }

    /// The address of the metrics, with secrets redacted.
    #[must_use]
    pub fn url(&self) -> String {
        redact_url(&self.url)
    }

    /// The server software, detected by its metric names: `vLLM`.
    #[must_use]
    pub fn software(&self) -> &'static str {
        self.dialect.name
    }

    /// Reads the current value of each signal of the dialect.
    async fn ask(&self, limit: Duration) -> Result<Vec<Option<f64>>, Message> {
        read(&self.connection, &self.url, limit, |text| self.dialect.read(text)).await
    }
}

/// Parses an address as people write it: with or without a scheme, with or without the path.
fn address(text: &str) -> Result<Url, Message> {
    let text = text.trim();
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let mut url = Url::parse(&with_scheme).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Message::new("the scheme is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Message::new("it contains a user name or a password, which would appear in every log"));
    }
    if url.path() == "/" {
        url.set_path("metrics");
    }
    url.set_fragment(None);
    Ok(url)
}

/// A connection to the address of the metrics. The client's headers and key are sent only to the client's own server.
fn connection(spec: &ClientSpec, base: Option<&BaseUrl>, url: &Url) -> Result<Connection, Message> {
    let server = base.and_then(|base| Url::parse(base.root()).ok());
    let is_same = server.is_some_and(|server| server.origin() == url.origin());
    let headers: &[String] = if is_same { &spec.headers } else { &[] };
    let key = if is_same { spec.network.api_key_env.clone() } else { None };
    let network = Network { api_key_env: key, ..spec.network.clone() };
    Connection::new(&url.origin().ascii_serialization(), headers, &network).map_err(|error| error.to_message())
}

/// Parses the current text of the metrics. Errors have their secrets redacted.
async fn read<T, E: Display>(
    connection: &Connection,
    url: &str,
    limit: Duration,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, Message> {
    let body = tokio::time::timeout(limit, connection.get(url))
        .await
        .map_err(|_| Message::new(format!("no answer within {} s", limit.as_secs())))?
        .map_err(|error| connection.without_secrets(error).to_message())?;
    let text = String::from_utf8_lossy(&body);
    parse(&text).map_err(|error| Message::new(connection.redacted(error.to_string())))
}
