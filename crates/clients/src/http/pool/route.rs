//! Connects to a server: name resolution, an optional proxy and optional TLS.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ergometer_diagnostics::{Hint, Message, hint, option};
use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV4, SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::wire::Wire;
use crate::http::{BaseUrl, HttpError, Stage, failure, timed_out};
use crate::{FailureKind, Locality, Protocol, RequestError};

type Cause = Box<dyn Error + Send + Sync>;

/// The route to a server.
pub(super) struct Route {
    destination: Uri,
    via: Via,
    dialer: Dialer,
    /// The TLS connector and the server name, if the server uses TLS.
    tls: Option<(TlsConnector, ServerName<'static>)>,
    limit: Duration,
}

/// The proxy of a route.
enum Via {
    /// No proxy.
    Direct,
    /// A proxy that forwards requests and needs the whole URL in each of them.
    Forwarding(Uri, Option<HeaderValue>),
    /// A proxy that opens a tunnel with `CONNECT`.
    Tunnel(Uri, Option<HeaderValue>),
    Socks5 {
        proxy: Uri,
        auth: Option<(String, String)>,
        resolves_locally: bool,
    },
    Socks4 {
        proxy: Uri,
        resolves_locally: bool,
    },
}

impl Route {
    pub(super) fn new(
        base: &BaseUrl,
        protocol: Protocol,
        tls: &ClientConfig,
        limit: Duration,
    ) -> Result<Self, HttpError> {
        let destination: Uri = base.root().parse().map_err(|error: http::uri::InvalidUri| {
            HttpError::Setup(Message::new(format!("`{}` is not a request address: {error}", base.root())))
        })?;
        let proxy = proxy(base, &destination, &Matcher::from_env());
        let forwards = !base.is_encrypted() && protocol == Protocol::Http1;
        let via = proxy.map_or(Ok(Via::Direct), |proxy| via(&proxy, forwards))?;
        let encrypted = base.is_encrypted().then(|| {
            let mut config = tls.clone();
            let version: &[u8] = if protocol == Protocol::Http2 { b"h2" } else { b"http/1.1" };
            config.alpn_protocols = vec![version.to_vec()];
            let host = destination.host().unwrap_or_default();
            let name = ServerName::try_from(bare(host)).map(|name| name.to_owned());
            name.map(|name| (TlsConnector::from(Arc::new(config)), name))
        });
        let tls_to_server = encrypted.transpose().map_err(|error| {
            HttpError::Tls(
                format!("the host {} is not a valid name for a TLS certificate: {error}", base.host()).into(),
            )
        })?;
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(limit));
        let dialer = Dialer { connector, tls: TlsConnector::from(Arc::new(tls.clone())) };
        Ok(Self { destination, via, dialer, tls: tls_to_server, limit })
    }

    /// Whether a forwarding proxy needs the whole URL in each request.
    pub(super) fn is_forwarded(&self) -> bool {
        matches!(self.via, Via::Forwarding(..))
    }

    /// The credentials that a forwarding proxy needs in each request.
    pub(super) fn proxy_authorization(&self) -> Option<&HeaderValue> {
        match &self.via {
            Via::Forwarding(_, auth) => auth.as_ref(),
            _ => None,
        }
    }

    /// Connects, including proxy and TLS handshake, within the connect timeout.
    pub(super) async fn connect(&self) -> Result<Wire, RequestError> {
        match tokio::time::timeout(self.limit, self.dial()).await {
            Ok(Ok(wire)) => Ok(wire),
            Ok(Err(error)) => Err(failure(&*error, Stage::Connect)),
            Err(_) => Err(timed_out()),
        }
    }

    async fn dial(&self) -> Result<Wire, Cause> {
        let mut dialer = self.dialer.clone();
        let there = self.destination.clone();
        let wire = match &self.via {
            Via::Direct => return self.encrypted(dialer.plain(there).await?).await,
            Via::Forwarding(proxy, _) => return Ok(dialer.call(proxy.clone()).await?.into_inner()),
            Via::Tunnel(proxy, auth) => {
                let mut tunnel = Tunnel::new(proxy.clone(), dialer);
                if let Some(auth) = auth {
                    tunnel = tunnel.with_auth(auth.clone());
                }
                tunnel.call(there).await?
            }
            Via::Socks5 { proxy, auth, resolves_locally } => {
                let mut socks = SocksV5::new(proxy.clone(), dialer).local_dns(*resolves_locally);
                if let Some((name, password)) = auth {
                    socks = socks.with_auth(name.clone(), password.clone());
                }
                socks.call(there).await?
            }
            Via::Socks4 { proxy, resolves_locally } => {
                SocksV4::new(proxy.clone(), dialer).local_dns(*resolves_locally).call(there).await?
            }
        };
        self.encrypted(wire.into_inner()).await
    }

    /// Encrypts the wire if the server uses TLS.
    async fn encrypted(&self, wire: Wire) -> Result<Wire, Cause> {
        match &self.tls {
            Some((connector, name)) => Ok(Wire::Tls(Box::new(connector.connect(name.clone(), wire).await?))),
            None => Ok(wire),
        }
    }

    /// Checks that a server with TLS selected HTTP/2 during the handshake.
    pub(super) fn check_http2(&self, wire: &Wire) -> Result<(), RequestError> {
        if self.tls.is_none() || wire.has_chosen_http2() {
            return Ok(());
        }
        Err(no_http2("it did not choose `h2` during the TLS handshake (ALPN)"))
    }
}

/// The failure for a server that does not support HTTP/2.
pub(super) fn no_http2(why: &str) -> RequestError {
    RequestError::new(FailureKind::Malformed, format!("the server does not support HTTP/2: {why}"))
        .with_hint(hint!("use ", option("http").value("1.1")))
}

/// The proxy for a server according to the environment.
fn proxy(base: &BaseUrl, destination: &Uri, environment: &Matcher) -> Option<Intercept> {
    // A server on this machine is always contacted directly, whatever the environment says about proxies.
    (base.locality() != Locality::ThisMachine).then(|| environment.intercept(destination)).flatten()
}

/// Whether the server or a proxy on the way needs a certificate.
pub(in crate::http) fn is_encrypted(base: &BaseUrl) -> bool {
    is_encrypted_in(base, &Matcher::from_env())
}

fn is_encrypted_in(base: &BaseUrl, environment: &Matcher) -> bool {
    let is_https = |proxy: Intercept| proxy.uri().scheme_str() == Some("https");
    base.is_encrypted() || base.root().parse().is_ok_and(|there| proxy(base, &there, environment).is_some_and(is_https))
}

fn via(proxy: &Intercept, forwards: bool) -> Result<Via, HttpError> {
    let (uri, mut auth) = (proxy.uri().clone(), proxy.basic_auth().cloned());
    if let Some(auth) = &mut auth {
        auth.set_sensitive(true);
    }
    Ok(match uri.scheme_str() {
        Some("http" | "https") if forwards => Via::Forwarding(uri, auth),
        Some("http" | "https") => Via::Tunnel(uri, auth),
        Some(scheme @ ("socks5" | "socks5h")) => {
            let resolves_locally = scheme == "socks5";
            let auth = proxy.raw_auth().map(|(name, password)| (name.to_owned(), password.to_owned()));
            Via::Socks5 { proxy: uri, auth, resolves_locally }
        }
        Some(scheme @ ("socks4" | "socks4a")) => Via::Socks4 { resolves_locally: scheme == "socks4", proxy: uri },
        other => {
            let scheme = other.unwrap_or("none");
            let hint = Hint::text("use a proxy with http, https, socks4, socks4a, socks5 or socks5h");
            let text = format!("the proxy scheme {scheme} is not supported");
            return Err(HttpError::Setup(Message::new(text).with_hint(hint)));
        }
    })
}

/// A host without the brackets of an IPv6 address.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Opens TCP connections, with TLS for `https` addresses, such as the address of a proxy.
#[derive(Clone)]
struct Dialer {
    connector: HttpConnector,
    tls: TlsConnector,
}

impl Dialer {
    async fn plain(&mut self, there: Uri) -> Result<Wire, Cause> {
        std::future::poll_fn(|cx| self.connector.poll_ready(cx)).await?;
        Ok(Wire::Plain(self.connector.call(there).await?.into_inner()))
    }
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<Wire>;
    type Error = Cause;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<Wire>, Cause>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cause>> {
        self.connector.poll_ready(cx).map_err(Cause::from)
    }

    fn call(&mut self, there: Uri) -> Self::Future {
        let mut this = self.clone();
        Box::pin(async move {
            let encrypted = there.scheme_str() == Some("https");
            let name = ServerName::try_from(bare(there.host().unwrap_or_default())).map(|name| name.to_owned());
            let wire = this.plain(there).await?;
            if !encrypted {
                return Ok(TokioIo::new(wire));
            }
            Ok(TokioIo::new(Wire::Tls(Box::new(this.tls.connect(name?, wire).await?))))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_https_proxy_needs_a_certificate_too() {
        let is_encrypted = |base: &str, proxy: &str| {
            is_encrypted_in(&BaseUrl::parse(base).unwrap(), &Matcher::builder().all(proxy).build())
        };
        assert!(is_encrypted("http://192.0.2.1", "https://proxy:3128"));
        assert!(!is_encrypted("http://192.0.2.1", "http://proxy:3128"));
        assert!(is_encrypted("https://192.0.2.1", "http://proxy:3128"));
        assert!(
            !is_encrypted("http://127.0.0.1", "https://proxy:3128"),
            "a server on this machine is contacted directly"
        );
    }

    #[test]
    fn proxy_credentials_are_marked_as_secrets() {
        let matcher = Matcher::builder().all("http://me:hunter2@proxy:3128").build();
        let proxy = matcher.intercept(&Uri::from_static("http://192.0.2.1/")).unwrap();
        let Ok(Via::Forwarding(uri, Some(auth))) = via(&proxy, true) else { panic!("no name and password") };
        assert!(auth.is_sensitive() && !uri.to_string().contains("hunter2"), "{uri}");
    }
}
