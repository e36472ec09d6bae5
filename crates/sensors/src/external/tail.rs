//! A file that grows: its path goes in, whole lines come out as they are written.
//!
//! A line that is not finished waits. A file that was replaced (another one bears its name) is read to its end and then
//! the new one from its start; one that became shorter is read from its start. One that shrank and grew beyond where it
//! was between two looks cannot be told from one that only grew.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const LINE_LIMIT: usize = 64 * 1024;
/// How much one look takes in; the rest waits for the next.
const LOOK_LIMIT: u64 = 1024 * 1024;

/// What happened to a file between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    None,
    Truncated,
    Replaced,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    file: File,
    offset: u64,
    partial: Vec<u8>,
    /// The present line is too long, and its rest is thrown away.
    is_skipping: bool,
    /// Lines that were too long since this was last taken.
    too_long: u64,
}

impl Tail {
    /// At the start of the file.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        // A pipe would block until somebody writes.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no plain file"));
        }
        let file = File::open(path)?;
        Ok(Self { path: path.to_owned(), file, offset: 0, partial: Vec::new(), is_skipping: false, too_long: 0 })
    }

    /// The first line that is not empty, without going past it. `None` where it is not finished.
    pub(super) fn first_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut start = Vec::new();
        (&self.file).take(LINE_LIMIT as u64).read_to_end(&mut start)?;
        self.seek(0)?;
        let whole = start.iter().rposition(|&byte| byte == b'\n').map_or(&[][..], |end| &start[..end]);
        let mut lines = whole.split(|&byte| byte == b'\n');
        Ok(lines.find(|line| !line.trim_ascii().is_empty()).map(<[u8]>::to_vec))
    }

    /// Goes to the end and returns the last whole line; what of a line stands after it waits.
    pub(super) fn skip_to_end(&mut self) -> io::Result<Option<Vec<u8>>> {
        let length = self.file.metadata()?.len();
        let start = length.saturating_sub(2 * LINE_LIMIT as u64);
        self.seek(start)?;
        let mut lines = Vec::new();
        self.lines(&mut lines)?;
        // From the middle of the file on, the first is the end of a line.
        let first = usize::from(start > 0);
        self.too_long = 0;
        Ok(lines.into_iter().skip(first).rfind(|line| !line.trim_ascii().is_empty()))
    }

    /// Looks whether it is still the same file, and goes to the start of what it is now. To be asked before and after
    /// [`lines`](Self::lines): one that was replaced is only left when it was read to its end.
    pub(super) fn follow(&mut self) -> io::Result<Change> {
        let own = self.file.metadata()?;
        if own.len() < self.offset {
            self.seek(0)?;
            return Ok(Change::Truncated);
        }
        let named = match std::fs::metadata(&self.path) {
            Ok(named) => named,
            // Between the two steps of a rotation.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Change::None),
            Err(error) => return Err(error),
        };
        if identity(&own) == identity(&named) || own.len() > self.offset {
            return Ok(Change::None);
        }
        *self = Self { too_long: self.too_long, ..Self::open(&self.path)? };
        Ok(Change::Replaced)
    }

    /// Adds the lines that were finished since the last look.
    pub(super) fn lines(&mut self, lines: &mut Vec<Vec<u8>>) -> io::Result<()> {
        let mut bytes = Vec::new();
        let length = (&self.file).take(LOOK_LIMIT).read_to_end(&mut bytes)?;
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
