//! Tests clients against local servers and against recorded answers of real servers.

mod lanes;
mod streams;
mod tls;
