//! Bytes of an answer go in as they are read; lines and events come out, whole and once.
//!
//! However the bytes are cut, the same comes out. Nothing is held but the line or event that is not whole yet, and that
//! has a limit.

mod events;
mod lines;

pub use events::{Event, EventStream};
pub use lines::{Lines, TooLong};

/// A line, or the data of an event, may have this many bytes: an answer in one piece with all its probabilities.
pub const LONGEST: usize = 16 << 20;
