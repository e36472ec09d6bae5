//! The journal of a run: raw events go in as they happen; after a kill they come out again.

mod exchange;

pub use exchange::Exchange;
