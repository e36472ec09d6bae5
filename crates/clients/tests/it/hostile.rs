//! Servers that do not follow the protocol: floods of interim responses, broken framing, and answers without text.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ergometer_clients::http::{Network, Timeouts};
use ergometer_clients::{
    ChunkKind, Client, ClientSpec, Dialect, FailureKind, Protocol, Request, RequestError, RequestOptions, Transcript,
    open, replay,
};
use ergometer_diagnostics::{CommandLine, Diagnostic as _};
use ergometer_telemetry::Clock;
use ergometer_units::Timestamp;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// A server that writes `bytes` to every connection, over and over if `repeats`.
async fn serve(bytes: &'static [u8], repeats: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = socket.read(&mut [0; 1 << 14]).await;
                let many = bytes.repeat(if repeats { 1000 } else { 1 });
                while socket.write_all(&many).await.is_ok() && repeats {}
                // The connection stays open until the client closes it.
                let _ = socket.read(&mut [0; 1]).await;
            });
        }
    });
    address
}

fn client(address: SocketAddr, timeouts: Timeouts) -> Box<dyn Client> {
    let network = Network { timeouts, ..Network::default() };
    let (id, model) = (String::from("openai"), String::from("m"));
    open(&ClientSpec { id, model, base_url: Some(format!("http://{address}")), network, ..ClientSpec::default() })
        .unwrap()
}

async fn ask(client: &dyn Client) -> RequestError {
    let (clock, mut transcript, common) = (Clock::start(), Transcript::default(), RequestOptions::default());
    let request = Request { id: None, index: 0, earlier: &[], problem: "2+2?", output_tokens: None, common: &common };
    client.stream(&request, &clock, &mut transcript).await.unwrap_err()
}

#[tokio::test]
async fn a_flood_of_interim_responses_is_an_error() {
    let address = serve(b"HTTP/1.1 102 Processing\r\n\r\n", true).await;
    let error = ask(&*client(address, Timeouts::default())).await;
    assert_eq!(error.kind, FailureKind::Malformed, "{error:?}");
    assert!(error.one_line(&CommandLine).contains("more than 100 interim (1xx) responses"), "{error:?}");
}

#[tokio::test]
async fn a_few_interim_responses_are_fine() {
    const ANSWER: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 500 X\r\n\
                            content-length: 0\r\n\r\n";
    let error = ask(&*client(serve(ANSWER, false).await, Timeouts::default())).await;
    assert_eq!(error.kind, FailureKind::HttpStatus(500));
}

/// An HTTP/2 connection of settings, and of interim responses to its first request.
#[tokio::test]
async fn a_deadline_passes_while_interim_responses_arrive_over_http2() {
    /// The frames SETTINGS, and HEADERS of stream 1 with `:status: 103`.
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    const EARLY_HINTS: &[u8] = b"\0\0\x05\x01\x04\0\0\0\x01\x08\x03103";
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut socket, _) = listener.accept().unwrap();
        let _ = socket.read(&mut [0; 1 << 14]);
        let _ = socket.write_all(SETTINGS);
        // The request may follow the preface of the client.
        std::thread::sleep(Duration::from_millis(100));
        while socket.write_all(&EARLY_HINTS.repeat(100)).is_ok() {
            std::thread::sleep(Duration::from_micros(200));
        }
    });
    let timeouts = Timeouts { first_token_s: 1.0, ..Timeouts::default() };
    let network = Network { timeouts, protocol: Protocol::Http2, ..Network::default() };
    let (id, model) = (String::from("openai"), String::from("m"));
    let base_url = Some(format!("http://{address}"));
    let client = open(&ClientSpec { id, model, base_url, network, ..ClientSpec::default() }).unwrap();
    let started = Instant::now();
    let error = ask(&*client).await;
    assert_eq!(error.kind, FailureKind::TimeoutFirstToken, "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
}

/// The answer never ends and never has content, so only the deadline ends it.
#[tokio::test]
async fn a_deadline_passes_while_bytes_arrive() {
    const COMMENTS: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: nothing\n\n: nothing\n\n";
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::from_std(listener.into_std().unwrap()).unwrap();
            let (mut socket, _) = listener.accept().await.unwrap();
            let _ = socket.read(&mut [0; 1 << 14]).await;
            let _ = socket.write_all(COMMENTS).await;
            // Slow enough to stay below the size limit of an answer, and never empty for the client.
            while socket.write_all(&b": nothing\n\n".repeat(20)).await.is_ok() {
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        });
    });
    let timeouts = Timeouts { first_token_s: 0.5, ..Timeouts::default() };
    let started = Instant::now();
    let error = ask(&*client(address, timeouts)).await;
    assert_eq!(error.kind, FailureKind::TimeoutFirstToken, "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
}

/// One read contains thousands of chunks, so a read is rarely waited for.
#[tokio::test]
async fn a_request_can_be_cancelled_while_tiny_chunks_arrive() {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    for chunk in ["1\r\n\n\r\n", "5\r\n: x\n\n\r\n", "a\r\ndata: {}\n\n\r\n"] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            use std::io::{Read as _, Write as _};
            let (mut socket, _) = listener.accept().unwrap();
            let _ = socket.read(&mut [0; 1 << 14]);
            let _ = socket.write_all(HEAD);
            let many = chunk.repeat(20_000);
            while socket.write_all(many.as_bytes()).is_ok() {}
        });
        let (client, started) = (client(address, Timeouts::default()), Instant::now());
        let ended = tokio::time::timeout(Duration::from_millis(500), ask(&*client)).await;
        assert!(ended.is_err(), "{ended:?}");
        assert!(started.elapsed() < Duration::from_secs(2), "{chunk:?}: {:?}", started.elapsed());
    }
}

#[tokio::test]
async fn broken_chunk_lengths_are_malformed_and_a_cut_answer_is_truncated() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    for (body, kind) in [
        ("zz\r\ndata: x\r\n", FailureKind::Malformed),
        ("5\r\nhello world\r\n", FailureKind::Malformed),
        ("fffffffffffffffff\r\n", FailureKind::Malformed),
    ] {
        let answer = format!("{HEAD}{body}").leak();
        let error = ask(&*client(serve(answer.as_bytes(), false).await, Timeouts::default())).await;
        assert_eq!(error.kind, kind, "{body:?}: {error:?}");
    }
    // The server closes the connection in the middle of a chunk.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = socket.read(&mut [0; 1 << 14]).await;
        let _ = socket.write_all(format!("{HEAD}ff\r\ndata: ").as_bytes()).await;
    });
    let error = ask(&*client(address, Timeouts::default())).await;
    assert_eq!(error.kind, FailureKind::Truncated, "{error:?}");
}

/// The transcript of events that arrive every 10 ms.
fn stream(events: &[&str]) -> (Transcript, Result<(), RequestError>) {
    let pieces: Vec<String> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let at = |place: i64| Timestamp::from_nanos_since_epoch(place * 10_000_000);
    replay(Dialect::OpenAi(Some("text/event-stream")), (1..).map(at).zip(pieces.iter().map(String::as_bytes)))
}

fn times_ms(transcript: &Transcript) -> Vec<i64> {
    transcript.chunks.iter().map(|chunk| chunk.at.nanos_since_epoch() / 1_000_000).collect()
}

const ROLE: &str = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
const DONE: &str = "[DONE]";

fn text(text: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":null}}]}}"#)
}

fn stop(reason: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{"content":""}},"finish_reason":"{reason}"}}]}}"#)
}

fn usage(output: u64) -> String {
    format!(r#"{{"choices":[],"usage":{{"prompt_tokens":5,"completion_tokens":{output}}}}}"#)
}

#[test]
fn the_end_of_sequence_token_is_an_event() {
    // 4 tokens with text and the end-of-sequence token, every 10 ms, as vLLM sends them.
    let [a, end, five] = [text("a"), stop("stop"), usage(5)];
    let (transcript, result) = stream(&[ROLE, &a, &a, &a, &a, &end, &five, DONE]);
    assert_eq!((result, times_ms(&transcript)), (Ok(()), vec![20, 30, 40, 50, 60]));
    assert_eq!(transcript.text, "aaaa");
    // A server that sends the finish reason in a chunk of its own, and does not count it.
    let (transcript, _) = stream(&[ROLE, &a, &a, &a, &a, &end, &usage(4), DONE]);
    assert_eq!(times_ms(&transcript), [20, 30, 40, 50]);
}

#[test]
fn the_last_of_two_finish_chunks_is_the_end_of_a_choice() {
    let [a, end, five] = [text("a"), stop("stop"), usage(5)];
    let (transcript, result) = stream(&[ROLE, &a, &a, &a, &a, &end, &end, &five, DONE]);
    assert_eq!((result, times_ms(&transcript)), (Ok(()), vec![20, 30, 40, 50, 70]));
}

#[test]
fn tokens_that_decode_to_nothing_are_events() {
    let (a, silent) = (text("a"), text(""));
    let mut events: Vec<&str> = vec![ROLE];
    for _ in 0..16 {
        events.extend([a.as_str(), silent.as_str()]);
    }
    let (end, count) = (stop("length"), usage(32));
    events.extend([end.as_str(), count.as_str(), DONE]);
    let (transcript, result) = stream(&events);
    assert_eq!((result, transcript.chunks.len()), (Ok(()), 32));
    assert!(transcript.gaps_ns().all(|gap| gap == 10_000_000));
    // The first token may have no text.
    let (transcript, _) = stream(&[ROLE, &silent, &a, &stop("stop"), &usage(2), DONE]);
    assert_eq!(times_ms(&transcript), [20, 30]);
    assert_eq!(
        (transcript.chunks[0].kind, transcript.first_output()),
        (ChunkKind::Silent, Some(transcript.chunks[1].at))
    );
}

#[test]
fn an_answer_of_tokens_without_text_is_complete() {
    let (silent, end) = (text(""), stop("length"));
    let (transcript, result) = stream(&[ROLE, &silent, &silent, &end, &usage(3), DONE]);
    assert_eq!((result, transcript.chunks.len(), transcript.has_text()), (Ok(()), 3, false));
    let (_, result) = stream(&[ROLE, &stop("stop"), &usage(16), DONE]);
    assert_eq!(result, Ok(()), "the server counted tokens");
    let (_, result) = stream(&[ROLE, &stop("stop"), &usage(0), DONE]);
    assert_eq!(result.unwrap_err().kind, FailureKind::Empty);
}

#[test]
fn choices_have_their_own_gaps() {
    let choice =
        |index: u32| format!(r#"{{"choices":[{{"index":{index},"delta":{{"content":"x"}},"finish_reason":null}}]}}"#);
    let (one, two) = (choice(0), choice(1));
    let end = |index: u32| format!(r#"{{"choices":[{{"index":{index},"delta":{{}},"finish_reason":"stop"}}]}}"#);
    let (transcript, result) = stream(&[&one, &two, &one, &two, &one, &two, &end(0), &end(1), &usage(6), DONE]);
    assert_eq!(result, Ok(()));
    assert_eq!((transcript.text.as_str(), transcript.chunks.len()), ("xxx", 6));
    assert_eq!(transcript.gaps_ns().collect::<Vec<_>>(), [20_000_000; 4]);
}

#[test]
fn an_answer_that_ends_with_an_error_failed() {
    let (_, result) = stream(&[ROLE, &text("a"), &stop("error"), &usage(2), DONE]);
    assert_eq!(result.unwrap_err().kind, FailureKind::MidStream);
}

#[test]
fn a_chunk_with_reasoning_and_content_is_one_event() {
    let both = r#"{"choices":[{"index":0,"delta":{"reasoning_content":"hm","content":"4"},"finish_reason":"stop"}]}"#;
    let (transcript, result) = stream(&[both, DONE]);
    assert_eq!((result, transcript.chunks.len()), (Ok(()), 1));
    assert_eq!((transcript.reasoning.as_str(), transcript.text.as_str()), ("hm", "4"));
}
