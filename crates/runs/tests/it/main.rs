//! Tests of the public interface.

mod compatibility;
mod metrics;
mod saved;
