//! Systems without perf events.

use std::io;

use super::{Event, OpenEvent};
use crate::counted::ReadCounter;

/// Events of this machine's kernel: there are none.
pub(in crate::rapl) struct Kernel;

impl OpenEvent for Kernel {
    fn open(&self, _: Event) -> io::Result<Box<dyn ReadCounter>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
