//! Reads chunks that differ from the previous one only in their text, without parsing them.
//!
//! A chunk with the same bytes before and after a plain text as a parsed chunk can differ only in that text. So a few
//! chunks of an answer are parsed, and the others are compared with the last parsed chunk.

use std::borrow::Cow;

use super::chunk::{Choice, Chunk, Message, Text};
use crate::ChunkKind;

/// The bytes around the text of the last parsed chunk, if the chunk has one text and no other information.
#[derive(Debug, Default)]
pub(super) struct Pattern {
    kind: Option<ChunkKind>,
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Pattern {
    /// The text of a chunk that differs from the last parsed one only in its text.
    pub(super) fn read<'a>(&self, data: &'a [u8]) -> Option<(ChunkKind, &'a str)> {
        let kind = self.kind?;
        let text = data.strip_prefix(self.before.as_slice())?.strip_suffix(self.after.as_slice())?;
        // A quote would end the text, a backslash starts an escape, and JSON allows no control characters.
        let is_plain = text.iter().all(|&byte| byte >= b' ' && byte != b'"' && byte != b'\\');
        let text = if is_plain { std::str::from_utf8(text).ok()? } else { return None };
        Some((if text.is_empty() { ChunkKind::Silent } else { kind }, text))
    }

    /// Stores the bytes around the text of a parsed chunk.
    pub(super) fn learn(&mut self, chunk: &Chunk<'_>, data: &[u8]) {
        self.kind = None;
        let Some((kind, text)) = only_text(chunk) else { return };
        // The position of the text in the data. A text that was unescaped is not in the data.
        let start = (text.as_ptr() as usize).wrapping_sub(data.as_ptr() as usize);
        let Some((before, rest)) = data.split_at_checked(start) else { return };
        let Some(after) = rest.strip_prefix(text.as_bytes()) else { return };
        if before.last() != Some(&b'"') || after.first() != Some(&b'"') {
            return;
        }
        before.clone_into(&mut self.before);
        after.clone_into(&mut self.after);
        self.kind = Some(kind);
    }
}

/// The only text of a chunk of the first choice; `None` if the chunk has other information.
fn only_text<'a>(chunk: &'a Chunk<'a>) -> Option<(ChunkKind, &'a str)> {
    let Chunk { choices, usage: None, timings: None, error: None, .. } = chunk else { return None };
    let [Choice { index: 0, delta, message, text, finish_reason: None }] = choices.as_deref()? else { return None };
    let mut found = None;
    let mut see = |kind: ChunkKind, text: &'a Option<Text<'a>>| match text {
        None | Some(Text(Cow::Borrowed(""))) => true,
        Some(Text(Cow::Borrowed(text))) => found.replace((kind, *text)).is_none(),
        Some(Text(Cow::Owned(_))) => false,
    };
    let mut is_plain = see(ChunkKind::Content, text);
    for Message { content, reasoning_content, reasoning, refusal, tool_calls, .. } in delta.iter().chain(message) {
        is_plain &= tool_calls.is_none()
            && see(ChunkKind::Reasoning, reasoning_content)
            && see(ChunkKind::Reasoning, reasoning)
            && see(ChunkKind::Content, content)
            && see(ChunkKind::Content, refusal);
    }
    found.filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(data: &str) -> Pattern {
        let mut pattern = Pattern::default();
        pattern.learn(&serde_json::from_str(data).unwrap(), data.as_bytes());
        pattern
    }

    #[test]
    fn only_another_plain_text_is_read_without_parsing() {
        let data = |text: &str| {
            format!("{{\"id\":\"a\",\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}")
        };
        let pattern = learned(&data("four"));
        let read = |text: &str| pattern.read(data(text).as_bytes()).map(|(_, text)| text.to_owned());
        assert_eq!(read(" and two é"), Some(String::from(" and two é")));
        assert_eq!(pattern.read(data("").as_bytes()), Some((ChunkKind::Silent, "")), "a token without text");
        for other in ["\\n", "a\\", "\",\"role\":\"x", "\t"] {
            assert_eq!(read(other), None, "{other:?}");
        }
        let stopped = data("four").replace("null", "\"stop\"");
        assert_eq!(pattern.read(stopped.as_bytes()), None);
        assert_eq!(
            pattern.read(&data("\u{1}").replace('\u{1}', "\u{7f}").into_bytes()).map(|(_, text)| text),
            Some("\u{7f}")
        );
        let mut broken = data("x").into_bytes();
        let place = broken.iter().position(|&byte| byte == b'x').unwrap();
        broken[place] = 0xff;
        assert_eq!(pattern.read(&broken), None);
        // The bytes before and after the text must not overlap.
        assert_eq!(pattern.read(&data("").as_bytes()[1..]), None);
    }

    #[test]
    fn chunks_with_other_information_are_not_stored() {
        let stored = |choice: &str, rest: &str| learned(&format!("{{\"choices\":[{{{choice}}}]{rest}}}")).kind;
        assert_eq!(stored("\"text\":\"a\"", ""), Some(ChunkKind::Content));
        assert_eq!(stored("\"delta\":{\"reasoning\":\"a\",\"content\":null}", ""), Some(ChunkKind::Reasoning));
        assert_eq!(stored("\"delta\":{\"reasoning\":\"a\",\"reasoning_content\":\"a\"}", ""), None);
        assert_eq!(stored("\"text\":\"a\",\"finish_reason\":\"stop\"", ""), None);
        assert_eq!(stored("\"text\":\"a\",\"index\":1", ""), None);
        assert_eq!(stored("\"text\":\"a\"", ",\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}"), None);
        assert_eq!(stored("\"text\":\"\\u0061\"", ""), None, "it was unescaped");
        assert_eq!(stored("\"text\":[{\"text\":\"a\"}]", ""), None, "a list has other parts");
        assert_eq!(stored("\"delta\":{\"content\":\"a\",\"tool_calls\":[]}", ""), None);
    }
}
