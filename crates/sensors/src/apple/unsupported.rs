//! `IOReport` on systems without it: opening it fails.

use std::io;

use super::samples::ReadSample;

/// Always fails.
pub(super) fn open(_wanted: &dyn Fn(&str) -> bool) -> io::Result<Box<dyn ReadSample>> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "IOReport exists only on macOS"))
}
