//! Configures TLS: trusts the certificates of the system and those that the user names.

use std::path::Path;
use std::sync::Arc;

use ergometer_diagnostics::{Message, hint, option};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::{HttpError, Network};

/// The TLS configuration of all requests.
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
            let hint = hint!("install ca-certificates, or pass ", option("ca").value("FILE"));
            return Err(HttpError::Tls(Message::new("this system has no trusted certificates").with_hint(hint)));
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| HttpError::Tls(Message::new(format!("no TLS version can be used: {error}"))))?;
    if network.insecure {
        let verifier = Arc::new(AcceptAny(provider));
        return Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth());
    }
    Ok(builder.with_root_certificates(trusted).with_no_client_auth())
}

/// Adds the certificates of a PEM file to the trusted ones.
fn add(path: &Path, trusted: &mut RootCertStore) -> Result<(), HttpError> {
    let wrong =
        |why: String| HttpError::Tls(Message::new(format!("cannot use certificates of {}: {why}", path.display())));
    let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        trusted.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if trusted.is_empty() {
        let message = Message::new(format!("{} has no certificates", path.display()));
        return Err(HttpError::Tls(message.with_hint(hint!("pass a PEM file with ", option("ca")))));
    }
    Ok(())
}

/// Accepts any certificate, even one that cannot be parsed.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
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
