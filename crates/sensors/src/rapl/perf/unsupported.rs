//! Perf events on systems without them: opening one fails.

use std::io;

use super::{Event, OpenEvent};
use crate::energy_counter::ReadCounter;

/// The events of this machine's kernel, which has none.
pub(in crate::rapl) struct Kernel;

impl OpenEvent for Kernel {
    fn open(&self, _: Event) -> io::Result<Box<dyn ReadCounter>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
