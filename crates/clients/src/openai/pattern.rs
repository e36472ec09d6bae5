//! What a chunk has in common with the next: all but the text it says, mostly.
//!
//! A chunk is taken apart once; another with the same bytes before and after a plain text can say nothing else than that
//! text. So of an answer of many chunks a few are parsed, and the others compared.

use std::borrow::Cow;

use super::chunk::{Choice, Chunk, Said, Text};
use crate::ChunkKind;

/// The last chunk that said one text and nothing more.
#[derive(Debug, Default)]
pub(super) struct Pattern {
    kind: Option<ChunkKind>,
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Pattern {
    /// What a chunk says, where it is like the last but for its text.
    pub(super) fn read<'a>(&self, data: &'a [u8]) -> Option<(ChunkKind, &'a str)> {
        let kind = self.kind?;
        let text = data.strip_prefix(self.before.as_slice())?.strip_suffix(self.after.as_slice())?;
        // A quote would end it, a backslash mean something else; neither may control characters stand in JSON. An empty text
        // may let another field speak.
        let is_plain = !text.is_empty() && text.iter().all(|&byte| byte >= b' ' && byte != b'"' && byte != b'\\');
        let text = if is_plain { std::str::from_utf8(text).ok()? } else { return None };
        Some((kind, text))
    }

    /// Learns from a chunk that was parsed.
    pub(super) fn learn(&mut self, chunk: &Chunk<'_>, data: &[u8]) {
        self.kind = None;
        let Some((kind, text)) = only_text(chunk) else { return };
        // Where the text lies in the data; one that had to be unescaped lies elsewhere.
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

/// The one text a chunk of the first choice says, where it says and means nothing else.
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
    for Said { content, reasoning_content, reasoning, refusal, tool_calls } in delta.iter().chain(message) {
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
        for other in ["", "\\n", "a\\", "\",\"role\":\"x", "\t"] {
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
        // The end of what stands before and the beginning of what stands after do not overlap.
        assert_eq!(pattern.read(&data("").as_bytes()[1..]), None);
    }

    #[test]
    fn nothing_is_learned_where_more_is_said() {
        let said = |choice: &str, rest: &str| learned(&format!("{{\"choices\":[{{{choice}}}]{rest}}}")).kind;
        assert_eq!(said("\"text\":\"a\"", ""), Some(ChunkKind::Content));
        assert_eq!(said("\"delta\":{\"reasoning\":\"a\",\"content\":null}", ""), Some(ChunkKind::Reasoning));
        assert_eq!(said("\"delta\":{\"reasoning\":\"a\",\"reasoning_content\":\"a\"}", ""), None);
        assert_eq!(said("\"text\":\"a\",\"finish_reason\":\"stop\"", ""), None);
        assert_eq!(said("\"text\":\"a\",\"index\":1", ""), None);
        assert_eq!(said("\"text\":\"a\"", ",\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}"), None);
        assert_eq!(said("\"text\":\"\\u0061\"", ""), None, "it was unescaped");
        assert_eq!(said("\"text\":[{\"text\":\"a\"}]", ""), None, "a list has other parts");
        assert_eq!(said("\"delta\":{\"content\":\"a\",\"tool_calls\":[]}", ""), None);
    }
}
