//! Whom to trust on an encrypted line: the certificates of the system, and those the user names.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::{HttpError, Network};

/// How encryption is agreed on, whichever way a request goes.
pub(super) fn config(network: &Network, is_encrypted: bool) -> Result<ClientConfig, HttpError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut trusted = RootCertStore::empty();
    if let Some(path) = &network.ca {
        add(path, &mut trusted)?;
    }
    if is_encrypted && !network.insecure {
        let system = rustls_native_certs::load_native_certs().certs;
        trusted.add_parsable_certificates(system);
        if trusted.is_empty() {
            return Err(HttpError::Tls(String::from(
                "this system has no certificates to trust. hint: install ca-certificates, or name a file with --ca",
            )));
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| HttpError::Tls(format!("no version of TLS can be used: {error}")))?;
    if network.insecure {
        let anyone = Arc::new(Anyone(provider));
        return Ok(builder.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth());
    }
    Ok(builder.with_root_certificates(trusted).with_no_client_auth())
}

/// Trusts the certificates of a PEM file.
fn add(path: &Path, trusted: &mut RootCertStore) -> Result<(), HttpError> {
    let wrong = |why: String| HttpError::Tls(format!("--ca {}: {why}", path.display()));
    let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        trusted.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if trusted.is_empty() {
        return Err(wrong(String::from("no certificate in it. hint: it should be a PEM file")));
    }
    Ok(())
}

/// Accepts any certificate, as the user asked for, those included that cannot be read.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
