//! Follows a growing file and returns each line once it is complete.
//!
//! When the file is replaced, the old file is read to its end and then the new one from its start. When it becomes
//! shorter, it is read from its start. A file that is truncated and grows past its old length between two reads looks
//! like a file that only grew.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const LINE_LIMIT: usize = 64 * 1024;
/// The maximum number of bytes of one read. The rest is read the next time.
const READ_LIMIT: u64 = 1024 * 1024;

/// A change of a file between two reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    None,
    Truncated,
    Replaced,
}

/// A file that is followed from an offset.
#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    file: File,
    offset: u64,
    partial: Vec<u8>,
    /// Whether the current line is too long, so that its rest is dropped.
    is_skipping: bool,
    /// The number of lines that were too long since the last [`take_too_long`](Self::take_too_long).
    too_long: u64,
}

impl Tail {
    /// Opens a file at its start.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        // A pipe would block until something is written.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let file = File::open(path)?;
        Ok(Self { path: path.to_owned(), file, offset: 0, partial: Vec::new(), is_skipping: false, too_long: 0 })
    }

    /// The first line that is not empty, without moving the offset. `None` if it is not complete.
    pub(super) fn first_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut start = Vec::new();
        (&self.file).take(LINE_LIMIT as u64).read_to_end(&mut start)?;
        self.seek(0)?;
        let whole = start.iter().rposition(|&byte| byte == b'\n').map_or(&[][..], |end| &start[..end]);
        let mut lines = whole.split(|&byte| byte == b'\n');
        Ok(lines.find(|line| !line.trim_ascii().is_empty()).map(<[u8]>::to_vec))
    }

    /// Moves to the end and returns the last complete line. An incomplete line after it is kept.
    pub(super) fn skip_to_end(&mut self) -> io::Result<Option<Vec<u8>>> {
        let length = self.file.metadata()?.len();
        let start = length.saturating_sub(2 * LINE_LIMIT as u64);
        self.seek(start)?;
        let mut lines = Vec::new();
        self.lines(&mut lines)?;
        // Reading from the middle of the file, the first line is incomplete.
        let first = usize::from(start > 0);
        self.too_long = 0;
        Ok(lines.into_iter().skip(first).rfind(|line| !line.trim_ascii().is_empty()))
    }

    /// Checks whether the file was truncated or replaced, and moves to the start of the current one. Call this before
    /// and after [`lines`](Self::lines): a replaced file is only left once it is read to its end.
    pub(super) fn follow(&mut self) -> io::Result<Change> {
        let own = self.file.metadata()?;
        if own.len() < self.offset {
            self.seek(0)?;
            return Ok(Change::Truncated);
        }
        let named = match std::fs::metadata(&self.path) {
            Ok(named) => named,
            // The file is being rotated.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Change::None),
            Err(error) => return Err(error),
        };
        if identity(&own) == identity(&named) || own.len() > self.offset {
            return Ok(Change::None);
        }
        *self = Self { too_long: self.too_long, ..Self::open(&self.path)? };
        Ok(Change::Replaced)
    }

    /// Adds the lines that were completed since the last read.
    pub(super) fn lines(&mut self, lines: &mut Vec<Vec<u8>>) -> io::Result<()> {
        let mut bytes = Vec::new();
        let length = (&self.file).take(READ_LIMIT).read_to_end(&mut bytes)?;
        self.offset += length as u64;
        let mut pieces = bytes.split(|&byte| byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            if !self.is_skipping && self.partial.len() + piece.len() > LINE_LIMIT {
                self.is_skipping = true;
                self.too_long += 1;
                self.partial.clear();
            }
            if !self.is_skipping {
                self.partial.extend_from_slice(piece);
            }
            // The last piece has no line break after it.
            if pieces.peek().is_some() {
                let line = std::mem::take(&mut self.partial);
                if !std::mem::take(&mut self.is_skipping) {
                    lines.push(line);
                }
            }
        }
        Ok(())
    }

    pub(super) fn take_too_long(&mut self) -> u64 {
        std::mem::take(&mut self.too_long)
    }

    fn seek(&mut self, offset: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(offset))?;
        (self.offset, self.is_skipping) = (offset, false);
        self.partial.clear();
        Ok(())
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}
