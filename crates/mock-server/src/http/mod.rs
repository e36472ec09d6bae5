//! The part of HTTP/1.1 that the mock needs: reads requests, and writes heads and chunks directly to the socket.

mod request;
mod response;

pub(crate) use request::{ReadError, Request, read};
pub(crate) use response::{LAST_CHUNK, add_chunk, chunk, head};
