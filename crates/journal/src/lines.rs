//! Reads a file line by line, with a limit on the length of a line.

use std::io::{self, BufRead, Read};

/// The complete lines of a file, one at a time. The last line is incomplete if the run was killed; it is left out.
pub(super) struct Lines<R> {
    reader: R,
    limit: u64,
    line: Vec<u8>,
    is_cut: bool,
}

/// A complete line.
pub(super) struct CompleteLine<'a> {
    /// The line with its newline; `None` if it is longer than the limit.
    pub(super) text: Option<&'a [u8]>,
    /// Its length, with its newline.
    pub(super) length: u64,
}

impl<R: BufRead> Lines<R> {
    /// Reads lines of up to `limit` bytes. Longer lines are skipped without being held in memory.
    pub(super) const fn new(reader: R, limit: u64) -> Self {
        Self { reader, limit, line: Vec::new(), is_cut: false }
    }

    /// Reads the next line; `None` at the end.
    pub(super) fn read(&mut self) -> io::Result<Option<CompleteLine<'_>>> {
        Ok(match next_line(&mut self.reader, self.limit, &mut self.line)? {
            Line::Whole(length) => Some(CompleteLine { text: Some(&self.line), length }),
            Line::TooLong(length) => Some(CompleteLine { text: None, length }),
            Line::Cut => {
                self.is_cut = true;
                None
            }
            Line::End => None,
        })
    }

    /// Whether the file ends with an incomplete line. Known after the last line was read.
    pub(super) const fn is_cut(&self) -> bool {
        self.is_cut
    }
}

/// A line, or why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// A line of this length, with its newline.
    Whole(u64),
    /// A line of this length, with its newline. It is longer than the limit, so it was skipped.
    TooLong(u64),
    /// The file ends without a newline.
    Cut,
    /// The file has no more lines.
    End,
}

/// Reads the next line into `line`. Longer lines than `limit` are skipped without being held in memory.
fn next_line(reader: &mut impl BufRead, limit: u64, line: &mut Vec<u8>) -> io::Result<Line> {
    line.clear();
    let length = reader.take(limit).read_until(b'\n', line)? as u64;
    if line.last() == Some(&b'\n') {
        return Ok(Line::Whole(length));
    }
    if length < limit {
        return Ok(if length == 0 { Line::End } else { Line::Cut });
    }
    let mut skipped = length;
    loop {
        let bytes = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            bytes => bytes?,
        };
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let taken = end.map_or(bytes.len(), |end| end + 1);
        if taken == 0 {
            return Ok(Line::Cut);
        }
        reader.consume(taken);
        skipped += taken as u64;
        if end.is_some() {
            return Ok(Line::TooLong(skipped));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_lines_are_read_up_to_the_cut() {
        let read = |text: &[u8]| {
            let mut lines = Lines::new(text, 5);
            let mut read = Vec::new();
            while let Some(line) = lines.read().unwrap() {
                read.push((line.text.map(<[u8]>::to_vec), line.length));
            }
            (read, lines.is_cut())
        };
        let four = (Some(b"four\n".to_vec()), 5);
        assert_eq!(read(b"four\nsixsix\nfour\ncut"), (vec![four.clone(), (None, 7), four.clone()], true));
        assert_eq!((read(b"four\n"), read(b"")), ((vec![four], false), (Vec::new(), false)));
    }

    #[test]
    fn long_lines_are_skipped_and_the_rest_is_read() {
        let text = b"four\n\nsixsix\nfour\nfive5\nlonglonglong";
        for capacity in [1, 3, 64] {
            let mut reader = io::BufReader::with_capacity(capacity, &text[..]);
            let mut line = Vec::new();
            let mut next = || (next_line(&mut reader, 5, &mut line).unwrap(), line.clone());
            assert_eq!(next(), (Line::Whole(5), b"four\n".to_vec()));
            assert_eq!(next(), (Line::Whole(1), b"\n".to_vec()));
            assert_eq!(next().0, Line::TooLong(7));
            assert_eq!(next(), (Line::Whole(5), b"four\n".to_vec()));
            assert_eq!(next().0, Line::TooLong(6));
            assert_eq!(next().0, Line::Cut);
            assert_eq!(next().0, Line::End);
        }
        let mut line = Vec::new();
        assert_eq!(next_line(&mut &b"cut"[..], 5, &mut line).unwrap(), Line::Cut);
    }
}
