//! Tests of the crate as others use it.

mod compatibility;
mod metrics;
mod saved;
