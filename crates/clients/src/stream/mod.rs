//! Splits the bytes of an answer into lines and server-sent events.
//!
//! The result does not depend on how the bytes are split into reads. Only the incomplete line or event is buffered, up
//! to a limit.

mod events;
mod lines;

pub use events::{Event, EventStream};
pub use lines::{Lines, TooLong};

/// Maximum length of a line or event in bytes: enough for a whole answer with log probabilities.
pub const LONGEST: usize = 16 << 20;
