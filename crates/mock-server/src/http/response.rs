//! Encodes response heads and chunks.

use std::fmt::Write as _;

/// The end of a chunked body.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The status line and the headers.
pub(crate) fn head(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in headers {
        // A request id comes from the client and must not end the line.
        let value: String = value.chars().filter(|character| !character.is_control()).collect();
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// One chunk of a chunked body.
pub(crate) fn chunk(data: &[u8]) -> Vec<u8> {
    let mut chunk = Vec::with_capacity(data.len() + 20);
    add_chunk(&mut chunk, &[data]);
    chunk
}

/// Appends one chunk, made of these pieces.
pub(crate) fn add_chunk(bytes: &mut Vec<u8>, pieces: &[&[u8]]) {
    let size: usize = pieces.iter().map(|piece| piece.len()).sum();
    // Hand-written hexadecimal: a stream has many chunks, and `format!` costs more than copying a chunk.
    let digits = (usize::BITS - size.leading_zeros()).div_ceil(4).max(1);
    bytes.extend((0..digits).rev().map(|place| b"0123456789abcdef"[(size >> (4 * place)) & 0xf]));
    bytes.extend_from_slice(b"\r\n");
    for piece in pieces {
        bytes.extend_from_slice(piece);
    }
    bytes.extend_from_slice(b"\r\n");
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
    fn heads_and_chunks_are_encoded() {
        let head = head(200, &[("content-type", "text/plain"), ("x-request-id", "a\r\nevil: b")]);
        assert_eq!(head, b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nx-request-id: aevil: b\r\n\r\n");
        assert_eq!(chunk(b"0123456789abcdef!"), b"11\r\n0123456789abcdef!\r\n");
    }

    #[test]
    fn the_size_of_a_chunk_is_hexadecimal() {
        for size in [0, 1, 9, 15, 16, 255, 256, 4095, 65_536, 70_000] {
            let data = vec![b'x'; size];
            let mut bytes = b"before".to_vec();
            add_chunk(&mut bytes, &[&data[..size / 3], &data[size / 3..]]);
            let wanted = format!("before{size:x}\r\n{}\r\n", "x".repeat(size));
            assert!(bytes == wanted.as_bytes(), "{size}");
        }
    }
}
