//! The crate as its users see it: a model in, answers out.

mod accuracy;
mod answers;
mod folders;
