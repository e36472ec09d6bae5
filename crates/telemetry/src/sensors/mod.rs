//! The sensors there are, one module each.

pub mod replay;
