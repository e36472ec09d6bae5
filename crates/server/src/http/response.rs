//! Heads and chunks of answers, as bytes.

use std::fmt::Write as _;

/// The end of a chunked body.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The first lines of an answer, up to its body.
pub(crate) fn head(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in headers {
        // What an outsider sent, as its request id, must not end a line.
        let value: String = value.chars().filter(|character| !character.is_control()).collect();
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// One chunk of a chunked body.
pub(crate) fn chunk(data: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", data.len()).into_bytes();
    chunk.extend_from_slice(data);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_chunks_are_framed() {
        let head = head(200, &[("content-type", "text/plain"), ("x-request-id", "a\r\nevil: b")]);
        assert_eq!(head, b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nx-request-id: aevil: b\r\n\r\n");
        assert_eq!(chunk(b"0123456789abcdef!"), b"11\r\n0123456789abcdef!\r\n");
    }
}
