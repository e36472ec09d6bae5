//! Reads one request from a connection, with limits on its head and body.
//!
//! Bytes of the next request stay in the buffer. No input causes a panic or unbounded memory.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::head;
use crate::clock::Clock;

/// The limits of a head.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;

/// The limit of a body: a prompt of a million tokens fits.
const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;

/// A complete request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// When the head was read.
    pub(crate) received_ns: i64,
}

impl Request {
    /// The value of the first header with this lower-case name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether the client asks to close the connection after the answer.
    pub(crate) fn wants_close(&self) -> bool {
        self.header("connection").is_some_and(|value| has_token(value, "close"))
    }

    /// A value of the query string, without decoding.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }
}

/// Why no request could be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The client closed the connection.
    Closed,
    /// The request is invalid: a status and a message.
    Rejected(u16, String),
}

impl From<io::Error> for ReadError {
    fn from(_: io::Error) -> Self {
        Self::Closed
    }
}

/// Reads the next request.
pub(crate) async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>, clock: &Clock) -> Result<Request, ReadError> {
    let mut request = loop {
        if let Some((request, used)) = parse_head(buffer, clock)? {
            buffer.drain(..used);
            break request;
        }
        if buffer.len() >= MAX_HEAD_BYTES {
            return Err(ReadError::Rejected(431, format!("the request head is larger than {MAX_HEAD_BYTES} bytes")));
        }
        fill(stream, buffer).await?;
    };
    if request.header("expect").is_some_and(|value| has_token(value, "100-continue")) {
        stream.write_all(&head(100, &[])).await?;
    }
    let is_chunked = request.header("transfer-encoding").is_some_and(|value| has_token(value, "chunked"));
    request.body =
        if is_chunked { read_chunks(stream, buffer).await? } else { read_sized(&request, stream, buffer).await? };
    Ok(request)
}

async fn fill(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<(), ReadError> {
    buffer.reserve(16 * 1024);
    if stream.read_buf(buffer).await? == 0 { Err(ReadError::Closed) } else { Ok(()) }
}

async fn read_sized(request: &Request, stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<Vec<u8>, ReadError> {
    let Some(length) = request.header("content-length") else { return Ok(Vec::new()) };
    let length: usize = length.trim().parse().map_err(|_| malformed("content-length is not a number"))?;
    if length > MAX_BODY_BYTES {
        return Err(too_large());
    }
    while buffer.len() < length {
        fill(stream, buffer).await?;
    }
    Ok(buffer.drain(..length).collect())
}

async fn read_chunks(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<Vec<u8>, ReadError> {
    let mut body = Vec::new();
    loop {
        let (used, size) = loop {
            match httparse::parse_chunk_size(buffer) {
                Ok(httparse::Status::Complete(found)) => break found,
                Ok(httparse::Status::Partial) if buffer.len() < MAX_HEAD_BYTES => fill(stream, buffer).await?,
                _ => return Err(malformed("a chunk has no size")),
            }
        };
        buffer.drain(..used);
        let size = usize::try_from(size)
            .ok()
            .filter(|size| size.saturating_add(body.len()) <= MAX_BODY_BYTES)
            .ok_or_else(too_large)?;
        if size == 0 {
            return skip_trailer(stream, buffer).await.map(|()| body);
        }
        while buffer.len() < size + 2 {
            fill(stream, buffer).await?;
        }
        body.extend(buffer.drain(..size));
        if buffer.drain(..2).as_slice() != b"\r\n" {
            return Err(malformed("a chunk is longer than its size"));
        }
    }
}

/// Reads up to the empty line after the last chunk.
async fn skip_trailer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<(), ReadError> {
    loop {
        match buffer.windows(2).position(|window| window == b"\r\n") {
            Some(0) => {
                buffer.drain(..2);
                return Ok(());
            }
            Some(end) => drop(buffer.drain(..end + 2)),
            None if buffer.len() < MAX_HEAD_BYTES => fill(stream, buffer).await?,
            None => return Err(malformed("the trailer is too long")),
        }
    }
}

/// The head and its length, once it is complete.
fn parse_head(buffer: &[u8], clock: &Clock) -> Result<Option<(Request, usize)>, ReadError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let used = match parsed.parse(buffer) {
        Ok(httparse::Status::Complete(used)) => used,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(ReadError::Rejected(431, format!("the request has more than {MAX_HEADERS} headers")));
        }
        Err(error) => return Err(malformed(&error.to_string())),
    };
    let received_ns = clock.now_ns();
    if parsed.version != Some(1) {
        return Err(ReadError::Rejected(505, String::from("this server speaks HTTP/1.1 only")));
    }
    let target = parsed.path.unwrap_or("/");
    // Proxies send the full URL.
    let target = target.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..])).unwrap_or(target);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers = parsed
        .headers
        .iter()
        .map(|header| (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).into_owned()));
    let request = Request {
        method: parsed.method.unwrap_or("").to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        headers: headers.collect(),
        body: Vec::new(),
        received_ns,
    };
    Ok(Some((request, used)))
}

fn has_token(value: &str, token: &str) -> bool {
    value.split(',').any(|part| part.trim().eq_ignore_ascii_case(token))
}

fn malformed(what: &str) -> ReadError {
    ReadError::Rejected(400, format!("the request is not valid HTTP: {what}"))
}

fn too_large() -> ReadError {
    ReadError::Rejected(413, format!("the body is larger than {MAX_BODY_BYTES} bytes"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn heads_are_parsed_once_complete() {
        let bytes =
            b"POST http://host:1/v1/x?last=3&id=a HTTP/1.1\r\nX-Request-Id: 7\r\nConnection: foo, Close\r\n\r\nbody";
        let clock = Clock::start();
        for end in 0..bytes.len() - 4 {
            assert!(matches!(parse_head(&bytes[..end], &clock), Ok(None)), "{end}");
        }
        let (request, used) = parse_head(bytes, &clock).unwrap().unwrap();
        assert_eq!((request.method.as_str(), request.path.as_str(), used), ("POST", "/v1/x", bytes.len() - 4));
        assert_eq!((request.query("last"), request.query("id"), request.query("x")), (Some("3"), Some("a"), None));
        assert_eq!(request.header("x-request-id"), Some("7"));
        assert!(request.wants_close());
    }

    #[test]
    fn invalid_requests_are_rejected() {
        let status = |bytes: &[u8]| match parse_head(bytes, &Clock::start()) {
            Err(ReadError::Rejected(status, _)) => status,
            other => panic!("{other:?}"),
        };
        assert_eq!(status(b"GET / HTTP/1.0\r\n\r\n"), 505);
        assert_eq!(status(b"\x00\x01\x02 nonsense\r\n\r\n"), 400);
        let many = "a: b\r\n".repeat(MAX_HEADERS + 1);
        assert_eq!(status(format!("GET / HTTP/1.1\r\n{many}\r\n").as_bytes()), 431);
    }

    proptest! {
        #[test]
        fn no_input_causes_a_panic(bytes: Vec<u8>) {
            let _ = parse_head(&bytes, &Clock::start());
        }
    }
}
