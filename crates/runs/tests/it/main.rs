//! Tests of the public interface.

mod compatibility;
mod damaged;
mod metrics;
mod saved;
