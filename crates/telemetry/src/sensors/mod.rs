//! The sensors there are, one module each.
