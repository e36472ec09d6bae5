//! What came back on one request, as it came: every chunk with its time of arrival.
//!
//! A client writes into it while it reads, so what arrived before a failure or a stop is never lost.

use ergometer_units::{Seconds, Timestamp};
use serde::{Deserialize, Serialize};

use super::ConnectionUse;

/// More tokens than this are no count: sums of them would not fit any more.
const MOST_TOKENS: u64 = 1 << 40;

/// What came back on one request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transcript {
    /// When the request was ready and handed to the network; `None` where the client does not say.
    pub sent: Option<Timestamp>,
    /// What it travelled on, where the client says.
    pub connection_use: Option<ConnectionUse>,
    /// When its last byte came, where the client then waited for more in vain; else the request ends when the client says so.
    pub ended: Option<Timestamp>,
    /// When anything at all came back.
    pub first_byte: Option<Timestamp>,
    /// The chunks with content, in the order of their arrival.
    pub chunks: Vec<Chunk>,
    /// Whether the answer came in one piece: then nobody knows when its first token was there.
    pub is_whole: bool,
    /// The answer so far.
    pub text: String,
    /// The reasoning so far; empty where there is none.
    pub reasoning: String,
    /// The calls of tools it asks for, as `name` and arguments, one a line; empty where there is none.
    pub tool_calls: String,
    /// What was counted, and by whom.
    pub usage: Option<Usage>,
    /// What someone else counted, to compare.
    pub also_counted: Option<Usage>,
    /// What the server says its parts took.
    pub server_times: ServerTimes,
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
    /// A piece of a call of a tool.
    ToolCall,
}

impl ChunkKind {
    /// All of them, each with its letter in the journal.
    const LETTERS: [(Self, char); 3] = [(Self::Content, 'c'), (Self::Reasoning, 'r'), (Self::ToolCall, 't')];

    /// Its letter in the journal.
    #[must_use]
    pub fn letter(self) -> char {
        Self::LETTERS.iter().find(|(kind, _)| *kind == self).map_or('c', |(_, letter)| *letter)
    }

    /// That of a letter; content where it is none of them.
    #[must_use]
    pub fn from_letter(letter: u8) -> Self {
        Self::LETTERS.iter().find(|(_, known)| *known == char::from(letter)).map_or(Self::Content, |(kind, _)| *kind)
    }
}

/// What a server says its parts took. Its own clock, its own idea of where one part ends.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ServerTimes {
    /// Loading the model.
    pub load: Option<Seconds>,
    /// Reading the prompt.
    pub prompt: Option<Seconds>,
    /// Making the answer.
    pub output: Option<Seconds>,
    /// All of it.
    pub total: Option<Seconds>,
}

impl ServerTimes {
    /// Whether the server said nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
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

/// Who counted the tokens, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    /// The model itself, in this process.
    Model,
    /// The server, in the `usage` of its answer.
    Usage,
    /// The server, in a form of its own: `timings`, `eval_count`.
    Native,
    /// The server's tokenizer, asked after the run.
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
            ChunkKind::ToolCall => self.tool_calls.push_str(piece),
        }
    }

    /// Takes in content that is no part of the answer: that of a second choice.
    pub fn push_beside(&mut self, at: Timestamp, kind: ChunkKind) {
        self.first_byte.get_or_insert(at);
        self.chunks.push(Chunk { at, kind });
    }

    /// Takes in a count. Of two, the better source is kept and the other stands beside it.
    pub fn count(&mut self, usage: Usage) {
        // A number that no model can have read or made is no count.
        if usage.input.max(usage.output) > MOST_TOKENS {
            return;
        }
        match self.usage {
            // A server that counts as it goes says more each time.
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
