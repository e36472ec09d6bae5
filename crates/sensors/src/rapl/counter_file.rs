//! The seam to the counters of powercap: an `energy_uj` that stays open. Tests refuse permission and take files away
//! here.

use std::io;
use std::path::Path;

use crate::counted::ReadCounter;
use crate::sysfs::Attribute;

/// Opens counters.
pub(super) trait OpenCounter {
    /// Opens the counter at this path.
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadCounter>>;
}

/// Counters that are files of sysfs.
pub(super) struct Sysfs;

impl OpenCounter for Sysfs {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadCounter>> {
        Ok(Box::new(Attribute::open(path)?))
    }
}
