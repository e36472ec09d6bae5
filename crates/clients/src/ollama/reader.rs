//! Parses lines of JSON, one object each; the last has `done`, durations and token counts.

use ergometer_units::{Seconds, Timestamp};
use serde::Deserialize;

use crate::http::message;
use crate::reading::{Progress, Reader, excerpt, whole_number};
use crate::stream::{LONGEST, Lines};
use crate::{AnswerEnd, Chunk, ChunkKind, FailureKind, RequestError, ServerTimes, TokenSource, Transcript, Usage};

/// Reads an answer of Ollama.
pub(crate) struct OllamaReader {
    lines: Lines,
    is_done: bool,
}

#[derive(Debug, Deserialize)]
struct Line {
    #[serde(default)]
    message: Option<Message>,
    #[serde(default)]
    response: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default)]
    done: bool,
    #[serde(default)]
    done_reason: Option<String>,
    #[serde(default)]
    error: Option<serde_json::Value>,
    #[serde(default)]
    total_duration: Option<i64>,
    #[serde(default)]
    load_duration: Option<i64>,
    #[serde(default)]
    prompt_eval_count: Option<u64>,
    /// The part of `prompt_eval_count` that was in the cache. Older versions do not report it, and some of them leave it
    /// out of `prompt_eval_count`.
    #[serde(default, deserialize_with = "whole_number")]
    prompt_eval_cached_count: Option<u64>,
    #[serde(default)]
    prompt_eval_duration: Option<i64>,
    #[serde(default)]
    eval_count: Option<u64>,
    #[serde(default)]
    eval_duration: Option<i64>,
}

#[derive(Debug, Deserialize)]
struct Message {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<ToolCall>>,
}

#[derive(Debug, Deserialize)]
struct ToolCall {
    function: Function,
}

#[derive(Debug, Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: serde_json::Value,
}

impl OllamaReader {
    pub(crate) const fn new() -> Self {
        Self { lines: Lines::new(LONGEST), is_done: false }
    }
}

impl Reader for OllamaReader {
    fn take(&mut self, bytes: &[u8], at: Timestamp, transcript: &mut Transcript) -> Result<(), RequestError> {
        let Self { lines, is_done } = self;
        lines.push(bytes, &mut |line| {
            *is_done |= take_line(line, at, transcript)?;
            Ok(())
        })
    }

    fn progress(&self) -> Progress {
        if self.is_done { Progress::Done } else { Progress::Going }
    }

    fn finish(mut self, at: Timestamp, transcript: &mut Transcript) -> Result<(), RequestError> {
        // The last line of an answer may have no line break.
        self.is_done |= take_line(self.lines.rest(), at, transcript).map_err(|error| match error.kind {
            FailureKind::Malformed => RequestError::new(FailureKind::Truncated, error.cause),
            _ => error,
        })?;
        if self.is_done {
            return Ok(());
        }
        Err(RequestError::new(FailureKind::Truncated, "the stream ended without `done`"))
    }
}

/// Adds one object to the transcript, and returns whether it is the last.
fn take_line(line: &[u8], at: Timestamp, transcript: &mut Transcript) -> Result<bool, RequestError> {
    if line.trim_ascii().is_empty() {
        return Ok(false);
    }
    let line: Line = serde_json::from_slice(line).map_err(|error| {
        let cause = format!("a line of the answer cannot be parsed ({error}): {}", excerpt(line));
        RequestError::new(FailureKind::Malformed, cause)
    })?;
    if let Some(error) = line.error {
        return Err(RequestError::new(FailureKind::MidStream, message(&error).unwrap_or_else(|| error.to_string())));
    }
    // A line is one token event, whatever it contains.
    let mut kind = None;
    let mut add = |new: ChunkKind, text: Option<&str>| {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            kind.get_or_insert(new);
            transcript.append(new, text);
        }
    };
    add(ChunkKind::Reasoning, line.thinking.as_deref());
    add(ChunkKind::Content, line.response.as_deref());
    if let Some(message) = &line.message {
        add(ChunkKind::Reasoning, message.thinking.as_deref());
        add(ChunkKind::Content, message.content.as_deref());
    }
    for ToolCall { function } in line.message.iter().flat_map(|message| message.tool_calls.iter().flatten()) {
        let before = if transcript.tool_calls.is_empty() { "" } else { "\n" };
        kind.get_or_insert(ChunkKind::ToolCall);
        transcript.append(ChunkKind::ToolCall, &format!("{before}{}{}", function.name, function.arguments));
    }
    match kind {
        Some(kind) => transcript.push_event(Chunk { at, kind, choice: 0 }),
        None if !line.done => transcript.push_event(Chunk { at, kind: ChunkKind::Silent, choice: 0 }),
        None => {}
    }
    if line.done {
        transcript.finish = line.done_reason.or_else(|| Some(String::from("stop")));
        let time = |nanos: Option<i64>| nanos.map(Seconds::from_nanos);
        transcript.server_times = ServerTimes {
            load: time(line.load_duration),
            prompt: time(line.prompt_eval_duration),
            output: time(line.eval_duration),
            total: time(line.total_duration),
        };
        // Some versions omit the count of a cached prompt; then there is no usage.
        if let (Some(input), Some(output)) = (line.prompt_eval_count, line.eval_count) {
            let cached = line.prompt_eval_cached_count;
            transcript.count(Usage { input, output, cached, source: TokenSource::Native });
        }
        let is_length = transcript.finish.as_deref() == Some("length");
        let end = kind.is_none().then_some(AnswerEnd { at, choice: 0, is_length });
        transcript.settle_ends(end.as_slice());
    }
    Ok(line.done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&str]) -> (Result<(), RequestError>, Transcript) {
        let (mut reader, mut transcript) = (OllamaReader::new(), Transcript::default());
        for (place, piece) in (1_i64..).zip(pieces) {
            let at = Timestamp::from_nanos_since_epoch(place);
            if let Err(error) = reader.take(piece.as_bytes(), at, &mut transcript) {
                return (Err(error), transcript);
            }
        }
        let at = Timestamp::from_nanos_since_epoch(99);
        (reader.finish(at, &mut transcript), transcript)
    }

    #[test]
    fn chat_and_generate_with_their_own_counts_and_durations() {
        let (result, transcript) = read(&[
            "{\"message\":{\"content\":\"\",\"thinking\":\"hm\"},\"done\":false}\n{\"message\":{\"con",
            "tent\":\"fo\"},\"done\":false}\r\n",
            "{\"response\":\"ur\",\"done\":false}\n",
            "{\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":\"length\",\"total_duration\":9000,\"load_duration\":1,\"prompt_eval_count\":5,\"prompt_eval_duration\":3,\"eval_count\":4,\"eval_duration\":2}",
        ]);
        assert_eq!(result, Ok(()));
        assert_eq!((transcript.text.as_str(), transcript.reasoning.as_str()), ("four", "hm"));
        let times: Vec<i64> = transcript.chunks.iter().map(|chunk| chunk.at.nanos_since_epoch()).collect();
        assert_eq!(
            times,
            [1, 2, 3, 99],
            "each chunk has the time of the read that completed it; the last is the fourth token"
        );
        assert_eq!(transcript.usage, Some(Usage { input: 5, output: 4, cached: None, source: TokenSource::Native }));
        assert_eq!(transcript.server_times.total, Some(Seconds::from_nanos(9000)));
        assert_eq!(transcript.finish.as_deref(), Some("length"));
    }

    #[test]
    fn failures_have_their_kind() {
        let kind = |pieces: &[&str]| read(pieces).0.unwrap_err().kind;
        assert_eq!(kind(&["{\"error\":\"out of memory\"}\n"]), FailureKind::MidStream);
        assert_eq!(kind(&["{\"response\":\"a\",\"done\":false}\n"]), FailureKind::Truncated);
        assert_eq!(kind(&["{\"response\":\"a\",\"do"]), FailureKind::Truncated);
        assert_eq!(kind(&["<html>\n"]), FailureKind::Malformed);
        let (result, transcript) = read(&[
            "{\"message\":{\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}}]},\"done\":true}\n",
        ]);
        assert_eq!((result, transcript.tool_calls.as_str()), (Ok(()), "f{\"a\":1}"));
    }
}
