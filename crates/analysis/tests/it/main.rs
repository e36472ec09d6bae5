//! The tests of the crate as others use it.

mod found;
mod saved;
