//! Parses the address of a server as people write it: with or without a scheme, a trailing slash, `/v1` or an endpoint.

use std::net::IpAddr;

use ergometer_diagnostics::{Diagnostic, Hint, hint, option};
use url::{Host, Position, Url};

use crate::Locality;
use crate::redact::redact_url;

/// An invalid server address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{address}` is not a server address: {why}")]
pub struct AddressError {
    /// The address, with secrets redacted.
    pub address: String,
    /// Why it is invalid.
    pub why: String,
    hint: Hint,
}

impl Diagnostic for AddressError {
    fn hint(&self) -> Option<Hint> {
        Some(self.hint.clone())
    }
}

/// The address of a server: its root, and the base of its OpenAI-compatible API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    root: Url,
    versioned: Url,
}

/// Endpoints that people paste after the base address.
const ENDPOINTS: [&str; 4] = ["/chat/completions", "/completions", "/models", "/embeddings"];

impl BaseUrl {
    /// Parses an address.
    ///
    /// ```
    /// use ergometer_clients::http::BaseUrl;
    /// let base = BaseUrl::parse("localhost:8000")?;
    /// assert_eq!(base.endpoint("models"), "http://localhost:8000/v1/models");
    /// assert_eq!(base.path("metrics"), "http://localhost:8000/metrics");
    /// # Ok::<(), ergometer_clients::http::AddressError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let wrong = |why: &str| AddressError {
            address: redact_url(text),
            why: why.to_owned(),
            hint: Hint::text("write it as http://127.0.0.1:8000"),
        };
        let text = text.trim();
        let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let mut url = Url::parse(&with_scheme).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("the scheme is neither http nor https"));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(wrong("it has no host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            let error = wrong("it contains a user name or a password, which would appear in every log");
            return Err(AddressError { hint: hint!("pass a key with ", option("api-key-env").value("NAME")), ..error });
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("it has a query or a fragment"));
        }
        let path = url.path().trim_end_matches('/').to_owned();
        let path = ENDPOINTS.iter().find_map(|endpoint| path.strip_suffix(endpoint)).unwrap_or(&path).to_owned();
        let before_version = version_start(&path);
        let mut root = url.clone();
        root.set_path(&path[..before_version.unwrap_or(path.len())]);
        let versioned = if before_version.is_some() { path } else { format!("{path}/v1") };
        url.set_path(&versioned);
        Ok(Self { root, versioned: url })
    }

    /// The URL of an endpoint of the OpenAI-compatible interface.
    #[must_use]
    pub fn endpoint(&self, name: &str) -> String {
        join(&self.versioned, name)
    }

    /// The URL of a path from the server's root.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        join(&self.root, name)
    }

    /// The root, without a trailing slash.
    #[must_use]
    pub fn root(&self) -> &str {
        self.root.as_str().trim_end_matches('/')
    }

    /// The host alone.
    #[must_use]
    pub fn host(&self) -> String {
        self.root.host_str().unwrap_or_default().to_owned()
    }

    /// The value of the `Host` header: the host, and the port unless it is the default.
    pub(super) fn authority(&self) -> String {
        self.root[Position::BeforeHost..Position::AfterPort].to_owned()
    }

    /// Whether requests are encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.root.scheme() == "https"
    }

    /// Whether the address is a loopback address, so that no other machine can read the traffic.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self.root.host() {
            Some(Host::Domain(name)) => {
                // A name such as `a.localhost` may be resolved by DNS to any address.
                name.trim_end_matches('.').eq_ignore_ascii_case("localhost")
            }
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => {
                address.is_loopback() || address.to_ipv4_mapped().is_some_and(|address| address.is_loopback())
            }
            None => false,
        }
    }

    /// Whether the server runs on this machine. An address of one of its network interfaces counts as this machine.
    #[must_use]
    pub fn locality(&self) -> Locality {
        if self.is_loopback() || self.is_own_address() {
            Locality::ThisMachine
        } else {
            Locality::Elsewhere { host: self.host() }
        }
    }

    /// Whether this machine can bind the address, which succeeds only for its own addresses.
    fn is_own_address(&self) -> bool {
        let address = match self.root.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            Some(Host::Domain(_)) | None => return false,
        };
        address.is_unspecified() || std::net::UdpSocket::bind((address, 0)).is_ok()
    }
}

/// The position of the version segment in a path: `/v1`, `/openai/v1`, `/v1beta/openai`.
fn version_start(path: &str) -> Option<usize> {
    let mut start = 0;
    for segment in path.split('/') {
        let is_version = segment.strip_prefix('v').is_some_and(|rest| {
            rest.starts_with(|first: char| first.is_ascii_digit())
                && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
        if is_version {
            return Some(start - 1);
        }
        start += segment.len() + 1;
    }
    None
}

fn join(base: &Url, name: &str) -> String {
    format!("{}/{}", base.as_str().trim_end_matches('/'), name.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_an_address_are_equal() {
        let ways = [
            "http://h:8000",
            "http://h:8000/",
            "http://h:8000/v1",
            "http://h:8000/v1/",
            "h:8000",
            "h:8000/v1",
            "http://h:8000/v1/chat/completions",
            "http://h:8000/v1/completions",
        ];
        for way in ways {
            let base = BaseUrl::parse(way).unwrap();
            assert_eq!(base.endpoint("models"), "http://h:8000/v1/models", "{way}");
            assert_eq!(base.path("metrics"), "http://h:8000/metrics", "{way}");
        }
    }

    #[test]
    fn a_version_anywhere_in_the_path_stays() {
        let endpoint = |text: &str| BaseUrl::parse(text).unwrap().endpoint("chat/completions");
        assert_eq!(endpoint("https://h/openai/v1"), "https://h/openai/v1/chat/completions");
        assert_eq!(endpoint("https://h/v1beta/openai/"), "https://h/v1beta/openai/chat/completions");
        assert_eq!(endpoint("https://h/v100-cluster"), "https://h/v100-cluster/v1/chat/completions");
        assert_eq!(endpoint("https://h/proxy/vllm"), "https://h/proxy/vllm/v1/chat/completions");
        assert_eq!(BaseUrl::parse("https://h/openai/v1").unwrap().path("metrics"), "https://h/openai/metrics");
    }

    #[test]
    fn invalid_addresses_are_rejected_without_their_secrets() {
        for wrong in ["", "ftp://h", "http://", "http://me:pw@h", "http://h?key=1", "http://h:99999", "http://[::1"] {
            let error = BaseUrl::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("is not a server address") && !error.contains("pw"), "{error}");
        }
    }

    #[test]
    fn own_addresses_are_local() {
        for here in
            ["localhost:1", "http://127.8.9.1", "http://[::1]:80", "http://[::ffff:127.0.0.1]", "http://0.0.0.0:8"]
        {
            assert_eq!(BaseUrl::parse(here).unwrap().locality(), Locality::ThisMachine, "{here}");
        }
        for there in ["http://192.0.2.1", "http://example.com", "http://localhost.example.com"] {
            let base = BaseUrl::parse(there).unwrap();
            assert!(matches!(base.locality(), Locality::Elsewhere { .. }) && !base.is_loopback(), "{there}");
        }
        assert!(!BaseUrl::parse("http://0.0.0.0").unwrap().is_loopback());
    }
}
