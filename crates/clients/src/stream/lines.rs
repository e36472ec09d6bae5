//! Splits bytes into lines that end with LF, CR LF or CR, and removes a byte order mark at the start.

/// A line or event is longer than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a line or event is longer than {} MiB", .limit >> 20)]
pub struct TooLong {
    /// The limit in bytes.
    pub limit: usize,
}

/// Splits bytes into lines.
#[derive(Debug)]
pub struct Lines {
    /// The start of an incomplete line.
    held: Vec<u8>,
    limit: usize,
    /// Whether the last byte was CR, so that a following LF belongs to it.
    after_return: bool,
    is_first: bool,
}

const MARK: &[u8] = b"\xef\xbb\xbf";

impl Lines {
    /// Lines of at most this many bytes.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { held: Vec::new(), limit, after_return: false, is_first: true }
    }

    /// Adds bytes and calls `each` with every line that ends in them, without its line end.
    pub fn push<E: From<TooLong>>(
        &mut self,
        mut bytes: &[u8],
        each: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.after_return && !bytes.is_empty() {
            self.after_return = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            let (line, ending) = (&bytes[..end], bytes[end]);
            self.check(line.len())?;
            if self.held.is_empty() {
                self.give(line, each)?;
            } else {
                let mut whole = std::mem::take(&mut self.held);
                whole.extend_from_slice(line);
                self.give(&whole, each)?;
                // The buffer is reused for the next line.
                whole.clear();
                self.held = whole;
            }
            bytes = &bytes[end + 1..];
            if ending == b'\r' {
                match bytes.strip_prefix(b"\n") {
                    Some(rest) => bytes = rest,
                    None => self.after_return = bytes.is_empty(),
                }
            }
        }
        self.check(bytes.len())?;
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    /// Whether the next byte starts a line and cannot belong to the end of the previous one.
    pub(super) fn is_between(&self) -> bool {
        self.held.is_empty() && !self.after_return
    }

    /// Notes that lines were read without this splitter.
    pub(super) fn passed(&mut self) {
        self.is_first = false;
    }

    /// The bytes after the last line end.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        if self.is_first { self.held.strip_prefix(MARK).unwrap_or(&self.held) } else { &self.held }
    }

    fn check(&self, more: usize) -> Result<(), TooLong> {
        if self.held.len() + more > self.limit { Err(TooLong { limit: self.limit }) } else { Ok(()) }
    }

    fn give<E>(&mut self, line: &[u8], each: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let line = if self.is_first { line.strip_prefix(MARK).unwrap_or(line) } else { line };
        self.is_first = false;
        each(line)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(pieces: &[&[u8]], limit: usize) -> Result<(Vec<Vec<u8>>, Vec<u8>), TooLong> {
        let (mut lines, mut out) = (Lines::new(limit), Vec::new());
        for piece in pieces {
            lines.push::<TooLong>(piece, &mut |line| {
                out.push(line.to_vec());
                Ok(())
            })?;
        }
        let rest = lines.rest().to_vec();
        Ok((out, rest))
    }

    #[test]
    fn lf_cr_lf_and_cr_end_a_line() {
        let (out, rest) = lines(&[b"\xef\xbb\xbfa\nb\r\nc\rd\r", b"\ne\n\n\xef\xbb\xbff"], 100).unwrap();
        assert_eq!(out, [&b"a"[..], b"b", b"c", b"d", b"e", b""]);
        assert_eq!(rest, b"\xef\xbb\xbff", "a byte order mark is removed only at the start");
        assert_eq!(lines(&[b"\xef\xbb", b"\xbf"], 100).unwrap().1, b"");
    }

    #[test]
    fn a_line_has_a_maximum_length() {
        assert!(lines(&[b"12345"], 5).is_ok() && lines(&[b"123456"], 5).is_err());
        assert!(lines(&[b"123", b"456\n"], 5).is_err() && lines(&[b"123\n", b"456\n"], 5).is_ok());
    }

    proptest! {
        #[test]
        fn the_result_does_not_depend_on_the_reads(text in prop::collection::vec(prop::sample::select(b"a\r\n\xef\xbb\xbf:".to_vec()), 0..60),
                               cuts in prop::collection::vec(0_usize..60, 0..8)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            prop_assert_eq!(lines(&pieces, 100), lines(&[&text], 100));
        }
    }
}
