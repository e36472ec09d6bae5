//! Tests which certificates a client trusts, and the errors for those that it does not.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use ergometer_clients::http::{Connection, Network};
use ergometer_clients::{FailureKind, RequestError};
use ergometer_diagnostics::{CommandLine, Diagnostic as _};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tls").join(name)
}

/// A server with the certificate of the fixture that answers every request with `ok`.
fn serve() -> SocketAddr {
    let certificate = CertificateDer::from_pem_file(fixture("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(fixture("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), socket);
            let mut line = String::new();
            let mut reader = BufReader::new(&mut stream);
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {}
            let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
            let _ = stream.write_all(answer).and_then(|()| stream.flush());
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    address
}

async fn get(base: &str, network: Network) -> Result<Vec<u8>, RequestError> {
    Connection::new(base, &[], &network).unwrap().get(&format!("{base}/")).await
}

#[tokio::test]
async fn a_self_signed_certificate_is_trusted_only_by_its_file_or_with_insecure() {
    let base = format!("https://{}", serve());
    let trusting = Network { ca: Some(fixture("server.pem")), ..Network::default() };
    assert_eq!(get(&base, trusting.clone()).await, Ok(b"ok".to_vec()));
    let insecure = Network { insecure: true, ..Network::default() };
    assert_eq!(get(&base, insecure).await, Ok(b"ok".to_vec()));
    // On a system without trusted certificates, creating the connection already fails.
    if let Ok(connection) = Connection::new(&base, &[], &Network::default()) {
        let error = connection.get(&format!("{base}/")).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Tls, "{error}");
        assert!(error.cause.contains("not signed by a trusted authority"), "{error}");
    }
}

#[tokio::test]
async fn a_server_without_tls_and_a_file_without_certificates_are_errors() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("https://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let trusting = Network { ca: Some(fixture("server.pem")), ..Network::default() };
    let error = get(&base, trusting).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Tls, "{error}");
    let network = Network { ca: Some(fixture("README.md")), ..Network::default() };
    let error = Connection::new(&base, &[], &network).unwrap_err().one_line(&CommandLine);
    assert!(error.contains("--ca") && error.contains("README.md"), "{error}");
}

#[tokio::test]
async fn a_connect_timeout_has_its_own_kind() {
    // An address reserved for documentation: no server answers, unless the network refuses the connection at once.
    let mut network = Network::default();
    network.timeouts.connect_s = 0.05;
    let error = get("http://192.0.2.1:9", network).await.unwrap_err();
    assert!(matches!(error.kind, FailureKind::TimeoutConnect | FailureKind::Connect), "{error}");
}
