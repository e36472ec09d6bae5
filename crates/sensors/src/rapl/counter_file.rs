//! Opens powercap counters (`energy_uj`). Tests replace this to deny permission and remove files.

use std::io;
use std::path::Path;

use crate::energy_counter::ReadCounter;
use crate::sysfs::Attribute;

/// Opens counters.
pub(super) trait OpenCounter {
    /// Opens the counter at this path.
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadCounter>>;
}

/// Counters in sysfs.
pub(super) struct Sysfs;

impl OpenCounter for Sysfs {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadCounter>> {
        Ok(Box::new(Attribute::open(path)?))
    }
}
