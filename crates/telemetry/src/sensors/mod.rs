//! The sensors there are, one module each.

pub mod host;
mod processor_time;
pub mod rapl;
