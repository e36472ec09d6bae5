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
    /// The request id that the client sent; `None` if it sent none, or the user's own.
    pub request_id: Option<String>,
    /// When the request was ready and handed to the network; `None` if the client does not record it.
    pub sent: Option<Timestamp>,
    /// The connection that the request used, if the client has connections.
    pub connection_use: Option<ConnectionUse>,
    /// When the last byte arrived, if the client then waited for more without result. Otherwise the request ends when
    /// the client returns.
    pub ended: Option<Timestamp>,
    /// When the first byte of the response arrived.
    pub first_byte: Option<Timestamp>,
    /// The token events, in order of arrival: every chunk of the stream that stands for at least one token.
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

/// A token event: a chunk of a stream with one or more tokens. Its text may be empty, because some tokens decode to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// When it arrived.
    pub at: Timestamp,
    /// The kind of its content.
    pub kind: ChunkKind,
    /// The index of its choice, if the request asked for several answers; 0 is the answer that is kept.
    pub choice: u32,
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
    /// No text: a special token, the end of the sequence, or part of a character.
    Silent,
}

impl ChunkKind {
    /// All kinds, each with its letter in the journal.
    const LETTERS: [(Self, char); 4] =
        [(Self::Content, 'c'), (Self::Reasoning, 'r'), (Self::ToolCall, 't'), (Self::Silent, 's')];

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
    /// Tokens of the prompt that the server took from its cache, at most `input`; `None` if it does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
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
    /// Adds a token event with its text. An empty text is not an event.
    pub fn push(&mut self, at: Timestamp, kind: ChunkKind, piece: &str) {
        self.first_byte.get_or_insert(at);
        if !piece.is_empty() {
            self.push_event(Chunk { at, kind, choice: 0 });
            self.append(kind, piece);
        }
    }

    /// Adds text to the answer without a token event.
    pub fn append(&mut self, kind: ChunkKind, piece: &str) {
        match kind {
            ChunkKind::Content => self.text.push_str(piece),
            ChunkKind::Reasoning => self.reasoning.push_str(piece),
            ChunkKind::ToolCall => self.tool_calls.push_str(piece),
            ChunkKind::Silent => {}
        }
    }

    /// Adds a token event without text.
    pub fn push_event(&mut self, event: Chunk) {
        self.first_byte.get_or_insert(event.at);
        self.chunks.push(event);
    }

    /// Decides at the end of the answer which chunks without text are tokens, from the number of tokens that the server
    /// counted. `ends` are the last chunks of the choices, if they have no text.
    ///
    /// - If the server counted fewer tokens than there are events, the events without text are not tokens.
    /// - If it counted exactly the missing ones, the last chunks are the events of the last tokens: usage includes the
    ///   end-of-sequence token.
    /// - An answer with tokens but without any event has one event, at its end.
    pub fn settle_ends(&mut self, ends: &[AnswerEnd]) {
        let Some(output) = self.usage.map(|usage| usage.output) else { return };
        let count = |chunks: &[Chunk]| chunks.len() as u64;
        if output < count(&self.chunks) && self.has_text() {
            self.chunks.retain(|chunk| chunk.kind != ChunkKind::Silent);
        }
        let missing = output.saturating_sub(count(&self.chunks));
        let stopped = ends.iter().filter(|end| !end.is_length).count() as u64;
        let is_token =
            |end: &&AnswerEnd| missing > 0 && (missing == ends.len() as u64 || (missing == stopped && !end.is_length));
        let event = |end: &AnswerEnd| Chunk { at: end.at, kind: ChunkKind::Silent, choice: end.choice };
        let mut last: Vec<Chunk> = ends.iter().filter(is_token).map(event).collect();
        if self.chunks.is_empty() && last.is_empty() && output > 0 {
            last.extend(ends.last().map(event));
        }
        if !last.is_empty() {
            self.chunks.extend(last);
            self.chunks.sort_by_key(|chunk| chunk.at);
        }
    }

    /// Whether the answer has any text.
    #[must_use]
    pub fn has_text(&self) -> bool {
        !(self.text.is_empty() && self.reasoning.is_empty() && self.tool_calls.is_empty())
    }

    /// Adds token counts. The counts from the better source become `usage`, and the others `also_counted`. Cached tokens
    /// that only one of them reports become part of `usage`.
    pub fn count(&mut self, usage: Usage) {
        // No model can have processed or generated this many tokens.
        if usage.input.max(usage.output) > MOST_TOKENS {
            return;
        }
        match self.usage {
            // A server that reports running counts sends larger numbers each time.
            Some(known) if known.source == usage.source => {
                self.usage = Some(Usage { cached: usage.cached.or(known.cached), ..usage });
            }
            Some(known) if known.source < usage.source => self.also_counted = Some(usage),
            Some(known) => {
                self.also_counted = Some(known);
                self.usage = Some(usage);
            }
            None => self.usage = Some(usage),
        }
        if let Some(usage) = &mut self.usage {
            let cached = usage.cached.or_else(|| self.also_counted?.cached);
            usage.cached = cached.map(|cached| cached.min(usage.input));
        }
    }

    /// When the first token event arrived, reasoning included; `None` for an answer in one piece.
    #[must_use]
    pub fn first_token(&self) -> Option<Timestamp> {
        self.chunks.first().map(|chunk| chunk.at).filter(|_| !self.is_whole)
    }

    /// When the last token event arrived.
    #[must_use]
    pub fn last_token(&self) -> Option<Timestamp> {
        self.chunks.last().map(|chunk| chunk.at)
    }

    /// When the first text of the answer arrived that is not reasoning; `None` for an answer in one piece.
    #[must_use]
    pub fn first_output(&self) -> Option<Timestamp> {
        let is_output = |chunk: &&Chunk| matches!(chunk.kind, ChunkKind::Content | ChunkKind::ToolCall);
        self.chunks.iter().find(is_output).map(|chunk| chunk.at).filter(|_| !self.is_whole)
    }

    /// The times between consecutive token events of the same choice, in nanoseconds; none for an answer in one piece.
    pub fn gaps_ns(&self) -> impl Iterator<Item = u64> {
        let chunks = if self.is_whole { &[] } else { self.chunks.as_slice() };
        // The last event of each choice; nearly always there is one choice.
        let mut last: Vec<(u32, Timestamp)> = Vec::new();
        chunks.iter().filter_map(move |chunk| {
            let Some((_, before)) = last.iter_mut().find(|(choice, _)| *choice == chunk.choice) else {
                last.push((chunk.choice, chunk.at));
                return None;
            };
            let before = std::mem::replace(before, chunk.at);
            let gap = chunk.at.nanos_since_epoch().saturating_sub(before.nanos_since_epoch());
            Some(u64::try_from(gap).unwrap_or(0))
        })
    }
}

/// The last chunk of a choice, if it has no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerEnd {
    /// When it arrived.
    pub at: Timestamp,
    /// The index of the choice.
    pub choice: u32,
    /// Whether the choice ended at its maximum number of tokens.
    pub is_length: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: i64) -> Timestamp {
        Timestamp::from_nanos_since_epoch(nanos)
    }

    fn end(nanos: i64, choice: u32, is_length: bool) -> AnswerEnd {
        AnswerEnd { at: at(nanos), choice, is_length }
    }

    /// The times of the events, after `output` tokens were counted.
    fn settled(events: &[(i64, &str)], ends: &[AnswerEnd], output: u64) -> Vec<i64> {
        let mut transcript = Transcript::default();
        for &(nanos, text) in events {
            if text.is_empty() {
                transcript.push_event(Chunk { at: at(nanos), kind: ChunkKind::Silent, choice: 0 });
            } else {
                transcript.push(at(nanos), ChunkKind::Content, text);
            }
        }
        transcript.count(Usage { input: 1, output, cached: None, source: TokenSource::Usage });
        transcript.settle_ends(ends);
        transcript.chunks.iter().map(|chunk| chunk.at.nanos_since_epoch()).collect()
    }

    #[test]
    fn the_last_chunk_is_a_token_if_the_server_counted_one_more() {
        let texts = [(1, "a"), (2, "b")];
        assert_eq!(settled(&texts, &[end(3, 0, false)], 3), [1, 2, 3]);
        assert_eq!(settled(&texts, &[end(3, 0, true)], 3), [1, 2, 3], "the last token decodes to nothing");
        assert_eq!(settled(&texts, &[end(3, 0, false)], 2), [1, 2], "it only says why the answer ended");
        assert_eq!(settled(&texts, &[end(3, 0, false)], 9), [1, 2], "chunks have several tokens");
        assert_eq!(settled(&texts, &[], 3), [1, 2]);
        assert_eq!(settled(&[], &[end(3, 0, false)], 16), [3], "tokens, but no event");
        assert_eq!(settled(&[], &[end(3, 0, false)], 0), [0; 0]);
    }

    #[test]
    fn chunks_without_text_are_tokens_unless_the_server_counted_fewer() {
        let events = [(1, "a"), (2, ""), (3, "b"), (4, "")];
        assert_eq!(settled(&events, &[], 4), [1, 2, 3, 4]);
        assert_eq!(settled(&events, &[end(5, 0, false)], 5), [1, 2, 3, 4, 5]);
        assert_eq!(settled(&events, &[end(5, 0, false)], 2), [1, 3]);
        assert_eq!(settled(&events, &[end(5, 0, false)], 3), [1, 3, 5]);
        assert_eq!(settled(&[(1, ""), (2, "")], &[], 1), [1, 2], "nothing else is known");
    }

    #[test]
    fn cached_tokens_come_from_any_source_and_are_at_most_the_prompt() {
        let cached = |counts: &[(TokenSource, Option<u64>)]| {
            let mut transcript = Transcript::default();
            for &(source, cached) in counts {
                transcript.count(Usage { input: 10, output: 1, cached, source });
            }
            transcript.usage.unwrap().cached
        };
        let (usage, native, tokenizer) = (TokenSource::Usage, TokenSource::Native, TokenSource::Tokenizer);
        assert_eq!(cached(&[(usage, None)]), None);
        assert_eq!(cached(&[(usage, Some(0)), (native, Some(4))]), Some(0));
        assert_eq!(cached(&[(usage, None), (native, Some(4))]), Some(4));
        assert_eq!(cached(&[(native, Some(4)), (usage, None), (tokenizer, None)]), Some(4));
        assert_eq!(cached(&[(usage, Some(3)), (usage, None)]), Some(3), "running counts");
        assert_eq!(cached(&[(usage, Some(11))]), Some(10));
        assert_eq!(cached(&[(usage, None), (native, Some(u64::MAX))]), Some(10));
    }

    #[test]
    fn counts_without_cached_tokens_are_read() {
        let old = r#"{"input":7,"output":2,"source":"usage"}"#;
        let usage = Usage { input: 7, output: 2, cached: None, source: TokenSource::Usage };
        assert_eq!(serde_json::from_str::<Usage>(old).unwrap(), usage);
        assert_eq!(serde_json::to_string(&usage).unwrap(), old);
        let usage = Usage { cached: Some(5), ..usage };
        let text = serde_json::to_string(&usage).unwrap();
        assert_eq!(serde_json::from_str::<Usage>(&text).unwrap(), usage);
    }

    #[test]
    fn gaps_are_within_a_choice() {
        let mut transcript = Transcript::default();
        for (nanos, choice) in [(10, 0), (11, 1), (20, 0), (21, 1), (31, 1)] {
            transcript.push_event(Chunk { at: at(nanos), kind: ChunkKind::Content, choice });
        }
        assert_eq!(transcript.gaps_ns().collect::<Vec<_>>(), [10, 10, 10]);
        transcript.count(Usage { input: 1, output: 7, cached: None, source: TokenSource::Usage });
        transcript.settle_ends(&[end(30, 0, false), end(41, 1, false)]);
        assert_eq!(transcript.gaps_ns().collect::<Vec<_>>(), [10, 10, 10, 10, 10]);
        transcript.is_whole = true;
        assert_eq!(transcript.gaps_ns().count(), 0);
    }

    #[test]
    fn output_starts_after_the_reasoning() {
        let mut transcript = Transcript::default();
        transcript.push_event(Chunk { at: at(1), kind: ChunkKind::Silent, choice: 0 });
        transcript.push(at(2), ChunkKind::Reasoning, "hm");
        assert_eq!(transcript.first_output(), None);
        transcript.push(at(3), ChunkKind::Content, "4");
        assert_eq!((transcript.first_token(), transcript.first_output()), (Some(at(1)), Some(at(3))));
    }
}
