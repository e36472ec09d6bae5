//! Tests clients against local servers and against recorded answers of real servers.

mod cached_tokens;
mod hostile;
mod http2;
mod pool;
mod request_id;
mod streams;
mod tls;
