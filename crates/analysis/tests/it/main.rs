//! The tests of the crate as others use it.

mod analyses;
mod found;
mod saved;
