//! Tests clients against local servers and against recorded answers of real servers.

mod hostile;
mod pool;
mod streams;
mod tls;
