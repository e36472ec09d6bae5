//! As much of HTTP/1.1 as a mock needs, with the socket in our hands: a request is read, heads and chunks are written.

mod request;
mod response;

pub(crate) use request::{ReadError, Request, read};
pub(crate) use response::{LAST_CHUNK, add_chunk, chunk, head};
