//! The answer to one request: every chunk with its time of arrival, texts and token counts.
//!
//! A client fills the transcript while it reads, so data that arrived before a failure or a stop is never lost.

use ergometer_units::{Seconds, Timestamp};
use serde::{Deserialize, Serialize};

use super::ConnectionUse;

/// Larger token counts are ignored: sums of them could overflow.
const MOST_TOKENS: u64 = 1 << 40;

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transcript {
    /// When the request was ready and handed to the network; `None` if the client does not record it.
    pub sent: Option<Timestamp>,
    /// The connection that the request used, if the client has connections.
    pub connection_use: Option<ConnectionUse>,
    /// When the last byte arrived, if the client then waited for more without result. Otherwise the request ends when
    /// the client returns.
    pub ended: Option<Timestamp>,
    /// When the first byte of the response arrived.
    pub first_byte: Option<Timestamp>,
    /// The chunks with content, in order of arrival.
    pub chunks: Vec<Chunk>,
    /// Whether the answer arrived in one piece, so that the time of its first token is unknown.
    pub is_whole: bool,
    /// The answer so far.
    pub text: String,
    /// The reasoning so far; empty if there is none.
    pub reasoning: String,
    /// The tool calls of the answer, each a line with name and arguments; empty if there are none.
    pub tool_calls: String,
    /// The token counts from the best source.
    pub usage: Option<Usage>,
    /// Token counts from a second source, for comparison.
    pub also_counted: Option<Usage>,
    /// Durations that the server reports.
    pub server_times: ServerTimes,
    /// The finish reason that the server reports: `stop`, `length`.
    pub finish: Option<String>,
    /// The CPU time of the answer, if the model ran in this process.
    pub processor_time: Option<Seconds>,
}

/// One chunk with content. A chunk is not a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// When it arrived.
    pub at: Timestamp,
    /// The kind of its content.
    pub kind: ChunkKind,
}

/// The kind of content of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkKind {
    /// Part of the answer.
    Content,
    /// Part of the reasoning before the answer.
    Reasoning,
    /// Part of a tool call.
    ToolCall,
}

impl ChunkKind {
    /// All kinds, each with its letter in the journal.
    const LETTERS: [(Self, char); 3] = [(Self::Content, 'c'), (Self::Reasoning, 'r'), (Self::ToolCall, 't')];

    /// Its letter in the journal.
    #[must_use]
    pub fn letter(self) -> char {
        Self::LETTERS.iter().find(|(kind, _)| *kind == self).map_or('c', |(_, letter)| *letter)
    }

    /// The kind with this letter; content for an unknown letter.
    #[must_use]
    pub fn from_letter(letter: u8) -> Self {
        Self::LETTERS.iter().find(|(_, known)| *known == char::from(letter)).map_or(Self::Content, |(kind, _)| *kind)
    }
}

/// Durations that a server reports, measured by its own clock and with its own definition of each part.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ServerTimes {
    /// Loading the model.
    pub load: Option<Seconds>,
    /// Processing the prompt (prefill).
    pub prompt: Option<Seconds>,
    /// Generating the answer (decode).
    pub output: Option<Seconds>,
    /// The whole request.
    pub total: Option<Seconds>,
}

impl ServerTimes {
    /// Whether the server reported no duration.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The token counts of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub input: u64,
    /// Tokens of the answer, reasoning included.
    pub output: u64,
    /// The source of the counts.
    pub source: TokenSource,
}

/// The source of token counts, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    /// The model in this process.
    Model,
    /// The server, in the `usage` of its answer.
    Usage,
    /// The server, in fields of its own API: `timings`, `eval_count`.
    Native,
    /// The tokenizer endpoint of the server, called after the run.
    Tokenize,
    /// The tokenizer given by `--tokenizer`.
    Tokenizer,
}

impl TokenSource {
    /// The name in tables and columns.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Usage => "usage",
            Self::Native => "native",
            Self::Tokenize => "tokenize",
            Self::Tokenizer => "tokenizer",
        }
    }
}

impl Transcript {
    /// Adds a piece of content that arrived at this time. An empty piece is not a chunk.
    pub fn push(&mut self, at: Timestamp, kind: ChunkKind, piece: &str) {
        self.first_byte.get_or_insert(at);
        if piece.is_empty() {
            return;
        }
        self.chunks.push(Chunk { at, kind });
        match kind {
            ChunkKind::Content => self.text.push_str(piece),
            ChunkKind::Reasoning => self.reasoning.push_str(piece),
            ChunkKind::ToolCall => self.tool_calls.push_str(piece),
        }
    }

    /// Adds a chunk of another choice, whose content is not part of the answer.
    pub fn push_other_choice(&mut self, at: Timestamp, kind: ChunkKind) {
        self.first_byte.get_or_insert(at);
        self.chunks.push(Chunk { at, kind });
    }

    /// Adds token counts. The counts from the better source become `usage`, and the others `also_counted`.
    pub fn count(&mut self, usage: Usage) {
        // No model can have processed or generated this many tokens.
        if usage.input.max(usage.output) > MOST_TOKENS {
            return;
        }
        match self.usage {
            // A server that reports running counts sends larger numbers each time.
            Some(known) if known.source == usage.source => self.usage = Some(usage),
            Some(known) if known.source < usage.source => self.also_counted = Some(usage),
            Some(known) => {
                self.also_counted = Some(known);
                self.usage = Some(usage);
            }
            None => self.usage = Some(usage),
        }
    }

    /// When the first content arrived, reasoning included; `None` for an answer in one piece.
    #[must_use]
    pub fn first_token(&self) -> Option<Timestamp> {
        self.chunks.first().map(|chunk| chunk.at).filter(|_| !self.is_whole)
    }

    /// When the last content arrived.
    #[must_use]
    pub fn last_token(&self) -> Option<Timestamp> {
        self.chunks.last().map(|chunk| chunk.at)
    }
}
