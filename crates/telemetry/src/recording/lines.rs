//! Splits a plain or compressed byte stream into lines, with line numbers and byte offsets.
//!
//! Memory is limited per line, and for compressed text also in total, whatever the decompressed size.

use std::io::{self, BufRead, BufReader, Read};

use flate2::read::MultiGzDecoder;

use super::{Cut, RecordingError, Truncation};

/// The largest accepted compressed text and line, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) total: u64,
    pub(super) line: u64,
}

/// The result of reading the next line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// A line that ends with a line feed; it is in [`Lines::text`].
    Whole,
    /// Text without a line feed, in [`Lines::text`]; may be empty if the compressed stream is cut.
    Cut(Cut),
    /// The end of the source.
    End,
}

/// The lines of a source.
pub(super) struct Lines<'a> {
    source: BufReader<Box<dyn Read + 'a>>,
    limits: Limits,
    text: Vec<u8>,
    /// The number of lines and bytes before the current line.
    number: u64,
    offset: u64,
}

impl<'a> Lines<'a> {
    /// Decompresses the source if it starts with the magic number of gzip.
    pub(super) fn new(source: impl Read + 'a, limits: Limits) -> Result<Self, RecordingError> {
        let mut source = BufReader::new(source);
        let magic = loop {
            match source.fill_buf() {
                Ok(start) => break start.starts_with(&[0x1f, 0x8b]),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(RecordingError::Io { action: "read", path: None, cause }),
            }
        };
        // Plain text is never larger than its file. A run has no limit either, and must be able to read its readings.
        let limits = if magic { limits } else { Limits { total: u64::MAX, ..limits } };
        let source: Box<dyn Read + 'a> = if magic { Box::new(MultiGzDecoder::new(source)) } else { Box::new(source) };
        let source = BufReader::with_capacity(1 << 16, source);
        Ok(Self { source, limits, text: Vec::new(), number: 0, offset: 0 })
    }

    /// The current line, with its line feed.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The number of the current line, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number + 1
    }

    /// The truncation of a recording that was cut in the current line.
    pub(super) fn truncation(&self, cut: Cut, readings: u64) -> Truncation {
        Truncation { cut, whole_lines: self.number, whole_bytes: self.offset, readings }
    }

    /// Reads the next line.
    pub(super) fn advance(&mut self) -> Result<Next, RecordingError> {
        if !self.text.is_empty() {
            self.number += 1;
            self.offset += self.text.len() as u64;
            self.text.clear();
        }
        let limit = self.limits.line.min(self.limits.total.saturating_sub(self.offset));
        match (&mut self.source).take(limit.saturating_add(1)).read_until(b'\n', &mut self.text) {
            Err(cause) => self.failed(cause),
            Ok(_) if self.text.len() as u64 > limit => Err(self.too_large()),
            Ok(0) => Ok(Next::End),
            Ok(_) if self.text.ends_with(b"\n") => Ok(Next::Whole),
            Ok(_) => Ok(Next::Cut(Cut::MidLine)),
        }
    }

    /// Reads all text from the current line on, for a format that is one JSON object. Returns the cut, if any.
    pub(super) fn rest(&mut self, limit: u64) -> Result<Option<Cut>, RecordingError> {
        let left = limit.saturating_sub(self.text.len() as u64);
        match (&mut self.source).take(left + 1).read_to_end(&mut self.text) {
            Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => Ok(Some(Cut::MidStream)),
            Err(cause) => Err(self.damaged(cause)),
            Ok(_) if self.text.len() as u64 > limit => {
                Err(RecordingError::TooLarge { what: String::from("the recording, decompressed,"), limit })
            }
            Ok(_) => Ok(None),
        }
    }

    fn failed(&self, cause: io::Error) -> Result<Next, RecordingError> {
        // Only a truncated compressed stream reports an unexpected end; a plain file just ends.
        if cause.kind() == io::ErrorKind::UnexpectedEof {
            Ok(Next::Cut(Cut::MidStream))
        } else {
            Err(self.damaged(cause))
        }
    }

    fn damaged(&self, cause: io::Error) -> RecordingError {
        match cause.kind() {
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                RecordingError::Damaged { line: self.number(), cause }
            }
            _ => RecordingError::Io { action: "read", path: None, cause },
        }
    }

    fn too_large(&self) -> RecordingError {
        let Limits { total, line } = self.limits;
        if self.offset + self.text.len() as u64 > total {
            RecordingError::TooLarge { what: String::from("the recording, decompressed,"), limit: total }
        } else {
            RecordingError::TooLarge { what: format!("line {}", self.number()), limit: line }
        }
    }
}
