//! Tests the connection pool over HTTP/2.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ergometer_clients::http::Network;
use ergometer_clients::{Client, ConnectOutcome, Connections, FailureKind, Protocol};
use ergometer_diagnostics::Diagnostic as _;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::pool::{ANSWER, acceptor, answer, ask, client, count_new, encrypted, is_new, serve};

fn http2() -> Network {
    Network { protocol: Protocol::Http2, ..Network::default() }
}

/// An HTTP/2 server. It answers the requests with numbers in `together` only after all of them have arrived.
async fn serve_http2(most_streams: u32, together: std::ops::Range<usize>, tls: Option<TlsAcceptor>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (barrier, count) = (Arc::new(Barrier::new(together.len().max(1))), Arc::new(AtomicUsize::new(0)));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (barrier, count, together, tls) =
                (Arc::clone(&barrier), Arc::clone(&count), together.clone(), tls.clone());
            let service = service_fn(move |_: hyper::Request<hyper::body::Incoming>| {
                let (barrier, count, together) = (Arc::clone(&barrier), Arc::clone(&count), together.clone());
                async move {
                    if together.contains(&count.fetch_add(1, Ordering::SeqCst)) {
                        barrier.wait().await;
                    }
                    let response = hyper::Response::builder().header("content-type", "text/event-stream");
                    response.body(Full::new(Bytes::from_static(ANSWER.as_bytes())))
                }
            });
            tokio::spawn(async move {
                let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                builder.max_concurrent_streams(most_streams);
                match tls {
                    Some(tls) => {
                        let socket = tls.accept(socket).await.unwrap();
                        let _ = builder.serve_connection(TokioIo::new(socket), service).await;
                    }
                    None => {
                        let _ = builder.serve_connection(TokioIo::new(socket), service).await;
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn requests_share_a_connection_over_http2() {
    let client = client(serve_http2(100, 1..3, None).await, http2());
    assert!(is_new(&*client).await);
    let ((first, one), (second, two)) = tokio::join!(ask(&*client), ask(&*client));
    assert_eq!((one, two), (Ok(()), Ok(())));
    for transcript in [first, second] {
        let used = transcript.connection_use.unwrap();
        assert_eq!((used.protocol, used.connect), (Protocol::Http2, None));
    }
    let expected = Connections { protocol: Protocol::Http2, opened: 1, reused: 2, most_open: 1 };
    assert_eq!(client.connections(), Some(expected));
}

#[tokio::test]
async fn a_low_stream_limit_opens_another_connection() {
    // The last two requests are answered only together. The limit of the server is known from the second request on.
    let client = client(serve_http2(1, 2..4, None).await, http2());
    assert!(is_new(&*client).await && !is_new(&*client).await);
    let both = async { tokio::join!(ask(&*client), ask(&*client)) };
    let ((_, one), (_, two)) = tokio::time::timeout(Duration::from_secs(30), both).await.unwrap();
    assert_eq!((one, two), (Ok(()), Ok(())));
    assert_eq!(client.connections().map(|all| (all.opened, all.most_open)), Some((2, 2)));
}

#[tokio::test]
async fn a_server_without_http2_is_an_error_with_a_hint() {
    let (address, _) = serve(|_| (answer(""), false));
    let error = ask(&*client(address, http2())).await.1.unwrap_err();
    assert_eq!(error.kind, FailureKind::Malformed, "{error}");
    assert!(error.cause.contains("does not support HTTP/2"), "{error}");
    assert_eq!(error.to_message().command_line_hint().as_deref(), Some("use --http 1.1"));
}

#[tokio::test]
async fn requests_that_wait_for_a_connection_share_its_result() {
    let together: Arc<dyn Client> = Arc::from(client(serve_http2(100, 0..3, None).await, http2()));
    assert_eq!(count_new(&together, 3).await, 3, "each request waited for the connection");
    assert_eq!(together.connections().map(|all| (all.opened, all.reused)), Some((1, 2)));
    // This server never completes the TLS handshake.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut network = http2();
    network.timeouts.connect_s = 0.2;
    let client: Arc<dyn Client> = Arc::from(encrypted(address, network));
    let mut asking = JoinSet::new();
    for _ in 0..4 {
        let client = Arc::clone(&client);
        asking.spawn(async move { ask(&*client).await.1.unwrap_err().kind });
    }
    assert_eq!(asking.join_all().await, [FailureKind::TimeoutConnect; 4]);
    listener.accept().await.unwrap();
    let another = std::future::poll_fn(|cx| std::task::Poll::Ready(listener.poll_accept(cx).is_ready())).await;
    assert!(!another, "all requests share one attempt");
}

#[tokio::test]
async fn http2_connections_are_opened_in_advance_up_to_the_need() {
    let ahead = async |most_streams, connections, requests: u32| {
        let address = serve_http2(most_streams, 0..requests as usize, None).await;
        let client: Arc<dyn Client> = Arc::from(client(address, Network { connections, ..http2() }));
        assert_eq!(
            (client.connect(requests).await, client.connect(requests).await),
            (ConnectOutcome::Opened, ConnectOutcome::AlreadyOpen)
        );
        assert_eq!(count_new(&client, requests).await, 0);
        client.connections().unwrap().opened
    };
    assert_eq!((ahead(2, None, 5).await, ahead(100, None, 5).await), (3, 1));
    assert_eq!((ahead(100, Some(2), 5).await, ahead(100, Some(8), 5).await), (2, 5));
}

#[tokio::test]
async fn a_lost_http2_server_is_disconnected_not_malformed() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client(listener.local_addr().unwrap(), http2());
    let serving = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let service = service_fn(async |_: hyper::Request<hyper::body::Incoming>| {
            let response = hyper::Response::builder().header("content-type", "text/event-stream");
            response.body(Full::new(Bytes::from_static(ANSWER.as_bytes())))
        });
        let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let connection = builder.serve_connection(TokioIo::new(socket), service);
        let closing = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                drop(socket);
            }
        });
        let _ = tokio::join!(connection, closing);
    });
    assert!(is_new(&*client).await);
    // The connection closes with the server task, and later connections are closed at once.
    serving.abort();
    assert!(serving.await.unwrap_err().is_cancelled());
    let mut stale = 0;
    for _ in 0..4 {
        let error = ask(&*client).await.1.unwrap_err();
        assert_eq!(error.kind, FailureKind::Disconnected, "{error}");
        stale += usize::from(error.is_stale);
    }
    assert!(stale <= 1, "{stale} requests are marked as stale");
}

#[tokio::test]
async fn http2_is_selected_in_the_tls_handshake() {
    let client = encrypted(serve_http2(100, 0..0, Some(acceptor(&[b"h2", b"http/1.1"]))).await, http2());
    assert!(is_new(&*client).await && !is_new(&*client).await);
    // A server that selects no protocol uses HTTP/1.1.
    let client = encrypted(serve_http2(100, 0..0, Some(acceptor(&[]))).await, http2());
    let error = ask(&*client).await.1.unwrap_err();
    assert_eq!(error.kind, FailureKind::Malformed, "{error}");
    assert_eq!(error.to_message().command_line_hint().as_deref(), Some("use --http 1.1"));
}
