//! The sensors there are, one module each.

pub mod host;
pub mod modelled;
pub mod nvidia;
mod processor_time;
pub mod rapl;
pub mod replay;
