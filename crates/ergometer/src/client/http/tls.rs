//! Whom to trust on an encrypted line: the certificates of the system, and those the user names.

use std::path::Path;
use std::sync::Once;

use reqwest::{Certificate, ClientBuilder};

use super::{HttpError, Network};

/// Sets up TLS on a client.
pub(super) fn apply(builder: ClientBuilder, network: &Network, is_encrypted: bool) -> Result<ClientBuilder, HttpError> {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Where somebody else has chosen already, theirs is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let mut trusted = match &network.ca {
        Some(path) => named(path)?,
        None => Vec::new(),
    };
    if is_encrypted && !network.insecure {
        let system = rustls_native_certs::load_native_certs().certs;
        trusted.extend(system.iter().filter_map(|certificate| Certificate::from_der(certificate).ok()));
        if trusted.is_empty() {
            return Err(HttpError::Tls(String::from(
                "this system has no certificates to trust. hint: install ca-certificates, or name a file with --ca",
            )));
        }
    }
    Ok(builder.tls_certs_only(trusted).tls_danger_accept_invalid_certs(network.insecure))
}

/// The certificates of a PEM file.
fn named(path: &Path) -> Result<Vec<Certificate>, HttpError> {
    let wrong = |why: String| HttpError::Tls(format!("--ca {}: {why}", path.display()));
    let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| wrong(error.to_string()))?;
    if certificates.is_empty() {
        return Err(wrong(String::from("no certificate in it. hint: it should be a PEM file")));
    }
    Ok(certificates)
}
