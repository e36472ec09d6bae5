//! Reads parts of a file on demand.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::DatasetError;

/// The start and length of a part in bytes, and its number: a line or an element, from 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) length: u32,
    pub(super) number: u32,
}

/// A file and its parts.
#[derive(Debug)]
pub(super) struct Spans {
    pub(super) path: PathBuf,
    pub(super) file: Mutex<File>,
    pub(super) parts: Vec<Span>,
}

impl Spans {
    pub(super) fn count(&self) -> u64 {
        self.parts.len() as u64
    }

    /// The number of a part.
    pub(super) fn number(&self, index: u64) -> u64 {
        self.span(index).map_or(index + 1, |span| span.number.into())
    }

    /// The bytes of a part.
    pub(super) fn read(&self, index: u64) -> Result<Vec<u8>, DatasetError> {
        let span = self.span(index).ok_or(DatasetError::Beyond { index, size: self.count() })?;
        self.bytes(span).map_err(|cause| DatasetError::Read { path: self.path.clone(), cause })
    }

    fn span(&self, index: u64) -> Option<Span> {
        usize::try_from(index).ok().and_then(|index| self.parts.get(index).copied())
    }

    fn bytes(&self, span: Span) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; span.length as usize];
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(span.start))?;
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}
