//! What came back on one request, as it came: every chunk with its time of arrival.
//!
//! A client writes into it while it reads, so what arrived before a failure or a stop is never lost.

use ergometer_units::{Seconds, Timestamp};
use serde::{Deserialize, Serialize};

/// What came back on one request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transcript {
    /// When anything at all came back.
    pub first_byte: Option<Timestamp>,
    /// The chunks with content, in the order of their arrival.
    pub chunks: Vec<Chunk>,
    /// The answer so far.
    pub text: String,
    /// The reasoning so far; empty where there is none.
    pub reasoning: String,
    /// What was counted, and by whom.
    pub usage: Option<Usage>,
    /// Why the answer ended, in the server's word: `stop`, `length`.
    pub finish: Option<String>,
    /// The processor time the answer took, where it was made in this process.
    pub processor_time: Option<Seconds>,
}

/// One chunk with content. A chunk is not a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// When it arrived.
    pub at: Timestamp,
    /// What it carries.
    pub kind: ChunkKind,
}

/// What a chunk carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkKind {
    /// A piece of the answer.
    Content,
    /// A piece of the reasoning before it.
    Reasoning,
}

/// Tokens of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub input: u64,
    /// Tokens of the answer, reasoning included.
    pub output: u64,
    /// Who counted.
    pub source: TokenSource,
}

/// Who counted the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    /// The model itself, in this process.
    Model,
}

impl TokenSource {
    /// The name in tables and columns.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
        }
    }
}

impl Transcript {
    /// Takes in a piece of content that arrived at this time. An empty piece is not a chunk.
    pub fn push(&mut self, at: Timestamp, kind: ChunkKind, piece: &str) {
        self.first_byte.get_or_insert(at);
        if piece.is_empty() {
            return;
        }
        self.chunks.push(Chunk { at, kind });
        match kind {
            ChunkKind::Content => self.text.push_str(piece),
            ChunkKind::Reasoning => self.reasoning.push_str(piece),
        }
    }

    /// When the first content arrived, reasoning included.
    #[must_use]
    pub fn first_token(&self) -> Option<Timestamp> {
        self.chunks.first().map(|chunk| chunk.at)
    }

    /// When the last content arrived.
    #[must_use]
    pub fn last_token(&self) -> Option<Timestamp> {
        self.chunks.last().map(|chunk| chunk.at)
    }
}
