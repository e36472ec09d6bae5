//! A trace's bytes.
use std::path::{Path, PathBuf};

/// The bytes of one file.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Source {
    /// As they are.
    pub fn from_bytes(name: impl Into<PathBuf>, bytes: Vec<u8>) -> Self {
        Self { path: name.into(), bytes }
    }
    /// Where from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
