//! Tests the connection pool: reuse, limits, opening in advance and redirects.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use ergometer_clients::http::Network;
use ergometer_clients::{
    Client, ClientSpec, ConnectOutcome, Connections, FailureKind, Protocol, Request, RequestError, RequestOptions,
    Transcript, open,
};
use ergometer_diagnostics::CommandLine;
use ergometer_mock_server::{MockServer, Script};
use ergometer_telemetry::Clock;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::{Barrier, mpsc};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

pub(crate) const ANSWER: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"4\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// An HTTP/1.1 response, with extra headers such as `connection: close`.
pub(crate) fn answer(extra: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{extra}content-length: {}\r\n\r\n{ANSWER}",
        ANSWER.len()
    )
}

pub(crate) fn client(address: SocketAddr, network: Network) -> Box<dyn Client> {
    let base_url = Some(format!("http://{address}"));
    open(&ClientSpec {
        id: String::from("openai"),
        model: String::from("m"),
        base_url,
        network,
        ..ClientSpec::default()
    })
    .unwrap()
}

/// A client that uses TLS and accepts any certificate.
pub(crate) fn encrypted(address: SocketAddr, network: Network) -> Box<dyn Client> {
    let network = Network { insecure: true, ..network };
    let base_url = Some(format!("https://{address}"));
    let (id, model) = (String::from("openai"), String::from("m"));
    open(&ClientSpec { id, model, base_url, network, ..ClientSpec::default() }).unwrap()
}

pub(crate) async fn ask(client: &dyn Client) -> (Transcript, Result<(), RequestError>) {
    let (clock, mut transcript, common) = (Clock::start(), Transcript::default(), RequestOptions::default());
    let request =
        Request { id: Some("r-7"), index: 0, earlier: &[], problem: "2+2?", output_tokens: None, common: &common };
    let result = client.stream(&request, &clock, &mut transcript).await;
    (transcript, result)
}

/// Sends a request that must succeed, and returns whether it opened a connection.
pub(crate) async fn is_new(client: &dyn Client) -> bool {
    let (transcript, result) = ask(client).await;
    assert_eq!((result, transcript.text.as_str()), (Ok(()), "4"));
    transcript.connection_use.unwrap().connect.is_some()
}

/// Serves each connection in a thread. `reply` gets the head of a request and returns the response, and whether to
/// close the connection after it.
pub(crate) fn serve(
    reply: impl Fn(&str) -> (String, bool) + Send + Sync + 'static,
) -> (SocketAddr, mpsc::UnboundedReceiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (closed, is_closed) = mpsc::unbounded_channel();
    let reply = Arc::new(reply);
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let (reply, closed) = (Arc::clone(&reply), closed.clone());
            std::thread::spawn(move || {
                converse(socket, &*reply);
                let _ = closed.send(());
            });
        }
    });
    (address, is_closed)
}

fn converse(socket: TcpStream, reply: &impl Fn(&str) -> (String, bool)) {
    let mut reader = BufReader::new(socket);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let start = head.len();
            if reader.read_line(&mut head).is_ok_and(|read| read == 0) {
                return;
            }
            let line = head[start..].trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        reader.read_exact(&mut vec![0; length]).unwrap();
        let (answer, ends) = reply(&head);
        if reader.get_mut().write_all(answer.as_bytes()).is_err() || ends {
            return;
        }
    }
}

#[tokio::test]
async fn connections_are_reused_and_counted() {
    let (address, _) = serve(|_| (answer(""), false));
    let client = client(address, Network::default());
    assert_eq!([is_new(&*client).await, is_new(&*client).await, is_new(&*client).await], [true, false, false]);
    let expected = Connections { protocol: Protocol::Http1, opened: 1, reused: 2, most_open: 1 };
    assert_eq!(client.connections(), Some(expected));
    client.close().await.unwrap();
    assert!(is_new(&*client).await, "the idle connection was closed");
}

#[tokio::test]
async fn requests_have_the_expected_headers() {
    let (heads, mut seen) = mpsc::unbounded_channel();
    let (address, _) = serve(move |head| {
        heads.send(head.to_owned()).unwrap();
        (answer(""), false)
    });
    is_new(&*client(address, Network::default())).await;
    let head = seen.recv().await.unwrap();
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
    let head = head.to_ascii_lowercase();
    for line in [
        &format!("host: {address}"),
        "accept-encoding: identity",
        "content-type: application/json",
        "x-request-id: r-7",
        "user-agent: ergometer/",
    ] {
        assert!(head.contains(&format!("\r\n{line}")), "{line}: {head}");
    }
}

#[tokio::test]
async fn a_server_that_closes_idle_connections_loses_no_request() {
    let (address, mut closed) = serve(|_| (answer(""), true));
    let client = client(address, Network::default());
    for _ in 0..3 {
        assert!(is_new(&*client).await);
        closed.recv().await.unwrap();
    }
    assert_eq!(client.connections().map(|all| (all.opened, all.reused, all.most_open)), Some((3, 0, 1)));
    // A connection with `connection: close` is not kept.
    let (address, _) = serve(|_| (answer("connection: close\r\n"), false));
    let client = self::client(address, Network::default());
    assert!(is_new(&*client).await && is_new(&*client).await);
}

#[tokio::test]
async fn after_repeated_losses_every_request_opens_a_connection() {
    // Every second request is lost.
    let count = AtomicUsize::new(0);
    let (address, _) = serve(move |_| {
        if count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) { (answer(""), false) } else { (String::new(), true) }
    });
    let client = client(address, Network::default());
    let mut stale = Vec::new();
    for _ in 0..4 {
        assert!(is_new(&*client).await);
        let error = ask(&*client).await.1.unwrap_err();
        assert_eq!(error.kind, FailureKind::Disconnected, "{error}");
        stale.push(error.is_stale);
    }
    assert_eq!(stale, [true, true, true, false], "the last request opened a connection");
    assert_eq!(client.connections().map(|all| (all.opened, all.reused)), Some((5, 3)));
}

#[tokio::test]
async fn a_request_lost_on_a_connection_opened_in_advance_is_not_stale() {
    let (address, _) = serve(|_| (String::new(), true));
    let client = client(address, Network::default());
    assert_eq!(client.connect(1).await, ConnectOutcome::Opened);
    let (transcript, result) = ask(&*client).await;
    let error = result.unwrap_err();
    assert_eq!(
        (error.kind, error.is_stale),
        (FailureKind::Disconnected, false),
        "no request was answered on this connection"
    );
    assert_eq!(transcript.connection_use.unwrap().connect, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connection_limit_is_never_exceeded() {
    let server = MockServer::start(Script::instant()).await.unwrap();
    let address = server.base_url().trim_start_matches("http://").trim_end_matches("/v1").parse().unwrap();
    let client: Arc<dyn Client> = Arc::from(client(address, Network { connections: Some(2), ..Network::default() }));
    let tasks: Vec<_> = (0..12)
        .map(|_| {
            let client = Arc::clone(&client);
            tokio::spawn(async move { ask(&*client).await })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().1, Ok(()));
    }
    let all = client.connections().unwrap();
    assert!(all.most_open <= 2 && all.opened + all.reused == 12, "{all:?}");
    server.stop().await;
}

#[tokio::test]
async fn waiting_for_a_connection_is_recorded() {
    let (arrived, mut is_there) = mpsc::unbounded_channel();
    let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
    let may_go_on = std::sync::Mutex::new(may_go_on);
    let (address, _) = serve(move |_| {
        arrived.send(()).unwrap();
        may_go_on.lock().unwrap().recv().unwrap();
        (answer(""), false)
    });
    let client = client(address, Network { connections: Some(1), ..Network::default() });
    let first = ask(&*client);
    let second = async {
        is_there.recv().await.unwrap();
        // The only connection is in use now; this request waits for it before the server continues.
        let second = ask(&*client);
        let let_go = async { (0..2).for_each(|_| go_on.send(()).unwrap()) };
        tokio::join!(biased; second, let_go).0
    };
    let ((first, _), (second, result)) = tokio::join!(first, second);
    assert_eq!((first.connection_use.unwrap().waited, result), (None, Ok(())));
    let used = second.connection_use.unwrap();
    assert!(used.connect.is_none() && used.waited.is_some(), "{used:?}");
}

/// Sends `count` requests together, and returns how many of them opened or waited for a connection.
pub(crate) async fn count_new(client: &Arc<dyn Client>, count: u32) -> usize {
    let mut asking = JoinSet::new();
    for _ in 0..count {
        let client = Arc::clone(client);
        asking.spawn(async move { is_new(&*client).await });
    }
    asking.join_all().await.into_iter().filter(|is_new| *is_new).count()
}

#[tokio::test]
async fn connections_opened_in_advance_serve_the_first_requests() {
    let all_there = std::sync::Barrier::new(3);
    let (address, _) = serve(move |_| {
        all_there.wait();
        (answer(""), false)
    });
    let client: Arc<dyn Client> = Arc::from(client(address, Network::default()));
    assert_eq!(
        (client.connect(3).await, client.connect(3).await),
        (ConnectOutcome::Opened, ConnectOutcome::AlreadyOpen)
    );
    assert_eq!(count_new(&client, 3).await, 0);
    let expected = Connections { protocol: Protocol::Http1, opened: 3, reused: 3, most_open: 3 };
    assert_eq!(client.connections(), Some(expected));
}

#[tokio::test]
async fn tls_connections_opened_in_advance_survive_session_tickets() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (agreed, mut is_agreed) = mpsc::unbounded_channel();
    let (tls, all_there) = (acceptor(&[b"http/1.1"]), Arc::new(Barrier::new(3)));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            // The server sends session tickets at the end of the handshake.
            let socket = tls.accept(socket).await.unwrap();
            agreed.send(()).unwrap();
            let all_there = Arc::clone(&all_there);
            let service = service_fn(move |_: hyper::Request<hyper::body::Incoming>| {
                let all_there = Arc::clone(&all_there);
                async move {
                    all_there.wait().await;
                    let response = hyper::Response::builder().header("content-type", "text/event-stream");
                    response.body(Full::new(Bytes::from_static(ANSWER.as_bytes())))
                }
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service));
        }
    });
    let client: Arc<dyn Client> = Arc::from(encrypted(address, Network::default()));
    assert_eq!(client.connect(3).await, ConnectOutcome::Opened);
    for _ in 0..3 {
        is_agreed.recv().await.unwrap();
    }
    assert_eq!(count_new(&client, 3).await, 0);
    assert_eq!(client.connections().map(|all| (all.opened, all.reused)), Some((3, 3)));
    // No data followed the answers, so the connections can be reused.
    assert_eq!(count_new(&client, 3).await, 0);
}

#[tokio::test]
async fn redirects_are_followed_only_within_one_origin() {
    let (address, _) = serve(|head| {
        let to = |place: &str| {
            (format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n"), false)
        };
        match head.split(' ').nth(1) {
            Some("/moved") => (answer(""), false),
            Some("/around/v1/chat/completions") => to("/around/v1/chat/completions"),
            Some("/away/v1/chat/completions") => to("http://192.0.2.1/"),
            _ => to("/moved"),
        }
    });
    assert!(is_new(&*client(address, Network::default())).await);
    for path in ["around", "away"] {
        let base_url = Some(format!("http://{address}/{path}"));
        let spec =
            ClientSpec { id: String::from("openai"), model: String::from("m"), base_url, ..ClientSpec::default() };
        let error = ask(&*open(&spec).unwrap()).await.1.unwrap_err();
        assert_eq!(error.kind, FailureKind::HttpStatus(307), "{error}");
    }
}

#[tokio::test]
async fn a_redirect_that_drops_the_body_is_not_followed() {
    let moved = "HTTP/1.1 303 See Other\r\nlocation: /moved\r\ncontent-length: 0\r\n\r\n";
    let (address, _) = serve(move |_| (String::from(moved), false));
    let error = ask(&*client(address, Network::default())).await.1.unwrap_err();
    assert_eq!(error.kind, FailureKind::HttpStatus(303));
    let hint = error.hint.as_ref().unwrap().phrase(&CommandLine);
    assert!(error.cause.ends_with("redirect to /moved") && hint.contains("307 or 308"), "{error}");
}

pub(crate) fn acceptor(protocols: &[&[u8]]) -> TlsAcceptor {
    let fixture = |name: &str| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tls").join(name);
    let certificate = CertificateDer::from_pem_file(fixture("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(fixture("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}
