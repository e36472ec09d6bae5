//! What stands for the binding to `IOReport` on systems that have none: it opens nothing.

use std::io;

use super::samples::ReadSample;

/// Always the error that says so.
pub(super) fn open(_wanted: &dyn Fn(&str) -> bool) -> io::Result<Box<dyn ReadSample>> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "IOReport is there only on macOS"))
}
