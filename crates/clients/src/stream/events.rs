//! Parses server-sent events as the HTML standard defines them: fields, comments, data over several lines.

use super::lines::{Lines, TooLong};

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The event type; empty if the stream has none.
    pub kind: &'a [u8],
    /// The data, with lines joined by LF.
    pub data: &'a [u8],
}

/// Parses events from bytes.
#[derive(Debug)]
pub struct EventStream {
    lines: Lines,
    fields: Fields,
}

/// The incomplete event.
#[derive(Debug)]
struct Fields {
    data: Vec<u8>,
    has_data: bool,
    kind: Vec<u8>,
    limit: usize,
}

impl EventStream {
    /// Events whose lines and data have at most this many bytes.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        let fields = Fields { data: Vec::new(), has_data: false, kind: Vec::new(), limit };
        Self { lines: Lines::new(limit), fields }
    }

    /// Adds bytes and calls `each` with every event that ends in them.
    pub fn push<E: From<TooLong>>(
        &mut self,
        mut bytes: &[u8],
        each: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { lines, fields } = self;
        // Most events are one complete line, which is used without copying.
        if lines.is_between() && fields.is_empty() {
            while let Some((data, rest)) = plain_event(bytes).filter(|(data, _)| data.len() + 6 <= fields.limit) {
                lines.passed();
                each(Event { kind: b"", data })?;
                bytes = rest;
            }
        }
        lines.push(bytes, &mut |line| fields.take(line, each))
    }

    /// Ends the stream. The standard drops an event without an empty line after it, but some servers forget this line
    /// after a complete event.
    pub fn finish<E: From<TooLong>>(mut self, each: &mut impl FnMut(Event<'_>) -> Result<(), E>) -> Result<(), E> {
        let rest = self.lines.rest().to_vec();
        self.fields.take(&rest, each)?;
        self.fields.take(b"", each)
    }
}

/// The data of an event with a single `data` line at the start of the bytes, and the bytes after the event.
fn plain_event(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = bytes.strip_prefix(b"data:")?;
    let end = memchr::memchr2(b'\n', b'\r', line)?;
    let rest = line[end..].strip_prefix(b"\n\n").or_else(|| line[end..].strip_prefix(b"\r\n\r\n"))?;
    let data = &line[..end];
    Some((data.strip_prefix(b" ").unwrap_or(data), rest))
}

impl Fields {
    /// Whether no part of an event has arrived.
    fn is_empty(&self) -> bool {
        !self.has_data && self.kind.is_empty()
    }

    fn take<E: From<TooLong>>(
        &mut self,
        line: &[u8],
        each: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if line.is_empty() {
            let result = if self.has_data { each(Event { kind: &self.kind, data: &self.data }) } else { Ok(()) };
            self.data.clear();
            self.kind.clear();
            self.has_data = false;
            return result;
        }
        let colon = memchr::memchr(b':', line);
        let (name, value) = match colon {
            Some(at) => (&line[..at], line[at + 1..].strip_prefix(b" ").unwrap_or(&line[at + 1..])),
            None => (line, &b""[..]),
        };
        match name {
            b"data" => {
                if self.data.len() + value.len() > self.limit {
                    return Err(TooLong { limit: self.limit }.into());
                }
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => value.clone_into(&mut self.kind),
            // A comment has an empty name; `id` and `retry` are for reconnecting.
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let (mut stream, mut out) = (EventStream::new(1000), Vec::new());
        let mut each = |event: Event<'_>| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            out.push((text(event.kind), text(event.data)));
            Ok::<_, TooLong>(())
        };
        for piece in pieces {
            stream.push(piece, &mut each).unwrap();
        }
        stream.finish(&mut each).unwrap();
        out
    }

    fn data(text: &str) -> Vec<String> {
        events(&[text.as_bytes()]).into_iter().map(|(_, data)| data).collect()
    }

    #[test]
    fn fields_comments_and_line_ends_follow_the_standard() {
        assert_eq!(data("data: a\n\ndata:b\r\n\r\ndata:  c\r\r"), ["a", "b", " c"]);
        assert_eq!(data(": ping\n\n:\n\ndata: a\n: ping\ndata\ndata: b\n\n"), ["a\n\nb"]);
        assert_eq!(data("id: 1\nretry: 5\n\ndatum: x\n\ndata\n\n"), [""]);
        assert_eq!(data("\u{feff}data: {\"é\":1}\n\n"), ["{\"é\":1}"]);
        assert_eq!(events(&[b"event: error\ndata: x\n\ndata: y\n\n"])[0].0, "error");
        assert_eq!(events(&[b"event: error\ndata: x\n\ndata: y\n\n"])[1], (String::new(), String::from("y")));
    }

    #[test]
    fn an_event_without_an_empty_line_after_it_counts() {
        assert_eq!(data("data: a\n\ndata: [DONE]"), ["a", "[DONE]"]);
        assert_eq!(data("data: a\n\ndata: [DONE]\n"), ["a", "[DONE]"]);
        assert!(data("").is_empty() && data("event: x").is_empty());
    }

    #[test]
    fn data_has_a_limit() {
        let mut stream = EventStream::new(10);
        let mut ignore = |_: Event<'_>| Ok::<_, TooLong>(());
        assert!(stream.push(b"data: 1\ndata: 2\n", &mut ignore).is_ok());
        assert!((0..10).any(|_| stream.push(b"data: 3\n", &mut ignore).is_err()));
    }

    proptest! {
        #[test]
        fn the_result_does_not_depend_on_the_reads(text in "((data|event)?:? ?[aé\u{1F600}]{0,3}(\r\n|\n|\r)){0,12}",
                               cuts in prop::collection::vec(0_usize..120, 0..8)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(events(&pieces), events(&[bytes]));
        }
    }
}
