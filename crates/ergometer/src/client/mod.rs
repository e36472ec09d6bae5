//! Clients: a request goes in, a transcript and an outcome come out.

mod outcome;
mod transcript;

pub use outcome::{FailureKind, Outcome};
pub use transcript::{Chunk, ChunkKind, TokenSource, Transcript, Usage};
