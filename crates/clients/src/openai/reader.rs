//! Parses the answer of a chat or a completion: bytes into chunks, texts and token counts of a transcript.

use std::collections::BTreeMap;

use ergometer_units::{Seconds, Timestamp};

use super::chunk::{Choice, Chunk, Message, Text, Timings, Word};
use super::pattern::Pattern;
use crate::http::{error_message, message};
use crate::reading::{Progress, Reader, excerpt};
use crate::stream::{Event, EventStream, LONGEST, TooLong};
use crate::{AnswerEnd, Chunk as TokenEvent, ChunkKind, FailureKind, RequestError, TokenSource, Transcript, Usage};

/// Reads an answer with or without streaming.
pub(crate) struct ChatReader {
    form: Form,
    state: State,
}

enum Form {
    /// The first bytes decide.
    Unknown,
    Events(EventStream),
    /// An answer without streaming: one JSON object.
    Whole(Vec<u8>),
}

/// The state of the answer so far.
#[derive(Debug, Default)]
struct State {
    has_done: bool,
    /// One bit per choice: those that have content, and those that have a finish reason.
    begun: u64,
    finished: u64,
    /// The answer arrived in one piece, so it is complete.
    is_whole: bool,
    /// Whether the answer has a tool call.
    has_call: bool,
    /// The last chunk of each choice, if it has no text.
    ends: BTreeMap<u32, AnswerEnd>,
    pattern: Pattern,
}

impl From<TooLong> for RequestError {
    fn from(error: TooLong) -> Self {
        Self::new(FailureKind::Malformed, error.to_string())
    }
}

impl ChatReader {
    /// A reader for an answer with this content type.
    pub(crate) fn new(content_type: Option<&str>) -> Self {
        let content_type = content_type.unwrap_or_default().to_ascii_lowercase();
        let form = if content_type.starts_with("text/event-stream") {
            Form::Events(EventStream::new(LONGEST))
        } else if content_type.starts_with("application/json") {
            Form::Whole(Vec::new())
        } else {
            Form::Unknown
        };
        Self { form, state: State::default() }
    }
}

impl Reader for ChatReader {
    fn take(&mut self, bytes: &[u8], at: Timestamp, transcript: &mut Transcript) -> Result<(), RequestError> {
        if matches!(self.form, Form::Unknown) {
            // White space before the answer is skipped, even if a read ends within it.
            let bytes = bytes.trim_ascii_start();
            match bytes.first() {
                None => return Ok(()),
                Some(b'{') => self.form = Form::Whole(Vec::new()),
                Some(b'<') => return Err(malformed("the answer is an HTML page, not a stream", bytes)),
                Some(_) => self.form = Form::Events(EventStream::new(LONGEST)),
            }
            return self.take(bytes, at, transcript);
        }
        match &mut self.form {
            Form::Events(events) => events.push(bytes, &mut |event| self.state.event(event, at, transcript)),
            Form::Whole(body) => {
                if body.len() + bytes.len() > LONGEST {
                    return Err(TooLong { limit: LONGEST }.into());
                }
                body.extend_from_slice(bytes);
                Ok(())
            }
            Form::Unknown => Ok(()),
        }
    }

    fn progress(&self) -> Progress {
        if self.state.has_done {
            Progress::Done
        } else if self.state.has_finish() {
            Progress::Ended
        } else {
            Progress::Going
        }
    }

    fn finish(mut self, at: Timestamp, transcript: &mut Transcript) -> Result<(), RequestError> {
        match self.form {
            Form::Unknown => return Ok(()),
            Form::Events(events) => {
                let last = events.finish(&mut |event| self.state.event(event, at, transcript));
                last.map_err(cut_off)?;
            }
            Form::Whole(body) => {
                self.state.is_whole = true;
                transcript.is_whole = true;
                let object = self.state.object(&body, at, transcript);
                let is_cut = serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_err_and(|error| error.is_eof());
                object.map_err(|error| if is_cut { cut_off(error) } else { error })?;
            }
        }
        if self.state.has_done || self.state.has_finish() || self.state.is_whole {
            settle_cached(transcript);
            transcript.settle_ends(&self.state.ends());
            return Ok(());
        }
        Err(RequestError::new(FailureKind::Truncated, "the stream ended without a finish reason and without [DONE]"))
    }
}

impl State {
    /// Whether every choice has a finish reason.
    const fn has_finish(&self) -> bool {
        self.finished != 0 && self.finished == self.begun
    }

    /// The ends of the choices, in order of arrival.
    fn ends(&self) -> Vec<AnswerEnd> {
        let mut ends: Vec<AnswerEnd> = self.ends.values().copied().collect();
        ends.sort_by_key(|end| end.at);
        ends
    }

    fn event(&mut self, event: Event<'_>, at: Timestamp, transcript: &mut Transcript) -> Result<(), RequestError> {
        let data = event.data.trim_ascii();
        if event.kind == b"error" {
            return Err(RequestError::new(FailureKind::MidStream, error_message(data)));
        }
        match data {
            // Events after the end are not part of the answer.
            _ if self.has_done => Ok(()),
            b"" => Ok(()),
            b"[DONE]" => {
                self.has_done = true;
                Ok(())
            }
            _ => self.object(data, at, transcript),
        }
    }

    fn object(&mut self, data: &[u8], at: Timestamp, transcript: &mut Transcript) -> Result<(), RequestError> {
        if let Some((kind, text)) = self.pattern.read(data) {
            self.begun |= 1;
            transcript.push_event(TokenEvent { at, kind, choice: 0 });
            transcript.append(kind, text);
            return Ok(());
        }
        let chunk: Chunk<'_> = serde_json::from_slice(data)
            .map_err(|error| malformed(&format!("a part of the answer cannot be parsed ({error})"), data))?;
        if let Some(error) = chunk.error.as_ref().filter(|error| !error.is_null()) {
            return Err(RequestError::new(FailureKind::MidStream, message(error).unwrap_or_else(|| error.to_string())));
        }
        if chunk.object.as_ref().map(Word::as_str) == Some("error") {
            let cause = chunk.message.unwrap_or_default().0.into_owned();
            return Err(RequestError::new(FailureKind::MidStream, cause));
        }
        self.pattern.learn(&chunk, data);
        for choice in chunk.choices.iter().flatten() {
            self.choice(choice, at, transcript)?;
        }
        if let Some(usage) = chunk.usage
            && let (Some(input), Some(output)) = (usage.prompt_tokens, usage.completion_tokens)
        {
            let cached = usage.cached;
            transcript.count(Usage { input, output, cached, source: TokenSource::Usage });
        }
        if let Some(timings) = chunk.timings {
            native(timings, transcript);
        }
        Ok(())
    }

    /// Adds the content of a choice: one token event per chunk, with or without text. The first chunk with a role and without
    /// text is not an event, and of the last chunk it is decided at the end ([`Transcript::settle_ends`]).
    fn choice(&mut self, choice: &Choice<'_>, at: Timestamp, transcript: &mut Transcript) -> Result<(), RequestError> {
        let index = choice.index;
        let mut kind = None;
        let mut add = |new: ChunkKind, text: &str| {
            if !text.is_empty() {
                kind.get_or_insert(new);
                if index == 0 {
                    transcript.append(new, text);
                }
            }
        };
        add(ChunkKind::Content, choice.text.as_ref().map_or("", |Text(text)| text));
        let messages = || choice.delta.iter().chain(&choice.message);
        for Message { content, reasoning_content, reasoning, refusal, .. } in messages() {
            // Some servers send both fields with the same text.
            let has_content = reasoning_content.as_ref().is_some_and(|Text(text)| !text.is_empty());
            for (new, text) in [
                (ChunkKind::Reasoning, if has_content { reasoning_content } else { reasoning }),
                (ChunkKind::Content, content),
                (ChunkKind::Content, refusal),
            ] {
                add(new, text.as_ref().map_or("", |Text(text)| text));
            }
        }
        let calls = messages().flat_map(|message| message.tool_calls.iter().flatten());
        for function in calls.filter_map(|call| call.function.as_ref()) {
            let name = function.name.as_ref().map_or("", Word::as_str);
            let is_next = index == 0 && !name.is_empty() && self.has_call;
            self.has_call |= index == 0 && !name.is_empty();
            let arguments = function.arguments.as_ref().map_or("", |Text(text)| text);
            add(ChunkKind::ToolCall, &format!("{}{name}{arguments}", if is_next { "\n" } else { "" }));
        }
        let bit = 1_u64.checked_shl(index).unwrap_or(0);
        let is_first = self.begun & bit == 0;
        self.begun |= bit;
        let reason = choice.finish_reason.as_ref().map(Word::as_str).filter(|reason| !reason.is_empty());
        let has_role = messages().any(|message| message.role.is_some());
        match (kind, reason) {
            (Some(kind), _) => transcript.push_event(TokenEvent { at, kind, choice: index }),
            (None, Some(reason)) => {
                // Of several chunks with a finish reason, the last one is the end.
                self.ends.insert(index, AnswerEnd { at, choice: index, is_length: reason == "length" });
            }
            (None, None) if is_first && has_role => {}
            (None, None) => transcript.push_event(TokenEvent { at, kind: ChunkKind::Silent, choice: index }),
        }
        if let Some(reason) = reason {
            if reason == "error" {
                return Err(RequestError::new(FailureKind::MidStream, "the server ended the answer with an error"));
            }
            self.finished |= bit;
            if index == 0 {
                transcript.finish = Some(reason.to_owned());
            }
        }
        Ok(())
    }
}

/// Adds the counts and durations of llama.cpp.
fn native(timings: Timings, transcript: &mut Transcript) {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count; a cast of a float saturates")]
    let count = |number: f64| number.max(0.0) as u64;
    if let (Some(read), Some(made)) = (timings.prompt_n, timings.predicted_n) {
        let input = count(read).saturating_add(timings.cache_n.unwrap_or(0));
        transcript.count(Usage { input, output: count(made), cached: timings.cache_n, source: TokenSource::Native });
    }
    let seconds = |milliseconds: f64| Seconds::new(milliseconds / 1e3);
    transcript.server_times.prompt = timings.prompt_ms.map(seconds).or(transcript.server_times.prompt);
    transcript.server_times.output = timings.predicted_ms.map(seconds).or(transcript.server_times.output);
}

/// Computes the cached tokens of llama.cpp versions without `cache_n`: `usage` counts the whole prompt, and `timings` the
/// tokens that were evaluated. At least one token of every prompt is evaluated.
fn settle_cached(transcript: &mut Transcript) {
    let native = transcript.also_counted.filter(|other| other.source == TokenSource::Native && other.input > 0);
    if let (Some(usage), Some(native)) = (&mut transcript.usage, native)
        && usage.source == TokenSource::Usage
        && usage.cached.is_none()
    {
        usage.cached = usage.input.checked_sub(native.input);
    }
}

/// Turns a parse error at the end of the answer into a truncated answer.
fn cut_off(error: RequestError) -> RequestError {
    match error.kind {
        FailureKind::Malformed => {
            RequestError::new(FailureKind::Truncated, format!("the answer is incomplete: {}", error.cause))
        }
        _ => error,
    }
}

fn malformed(what: &str, bytes: &[u8]) -> RequestError {
    RequestError::new(FailureKind::Malformed, format!("{what}: {}", excerpt(bytes)))
}
