//! The tests of the crate as others use it.

mod analyses;
mod compare;
mod found;
mod pictures;
