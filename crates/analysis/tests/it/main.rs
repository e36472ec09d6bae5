//! The tests of the crate as others use it.

mod compare;
mod saved;
