//! The edge to the file system: an `energy_uj` that stays open.
//!
//! In goes a path; out come counts in microjoules. Content that is no number is an error of kind `InvalidData`, never
//! a zero. The traits are the seam at which tests refuse permission and take files away.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

/// Opens counters.
pub(super) trait OpenCounter {
    /// Opens the counter at this path.
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadCounter>>;
}

/// An open counter.
pub(super) trait ReadCounter: Send {
    /// The count now, in microjoules.
    fn read(&mut self) -> io::Result<u64>;
}

/// Counters that are files of sysfs.
pub(super) struct Sysfs;

impl OpenCounter for Sysfs {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadCounter>> {
        Ok(Box::new(CounterFile(File::open(path)?)))
    }
}

/// sysfs makes the content anew for each read from the start, so that the file need not be opened again.
struct CounterFile(File);

impl ReadCounter for CounterFile {
    fn read(&mut self) -> io::Result<u64> {
        self.0.rewind()?;
        let mut buffer = [0; 32];
        let length = self.0.read(&mut buffer)?;
        parse_count(&buffer[..length])
    }
}

/// A number of microjoules as sysfs writes it: digits and a newline.
pub(super) fn parse_count(text: &[u8]) -> io::Result<u64> {
    std::str::from_utf8(text.trim_ascii()).ok().and_then(|digits| digits.parse().ok()).ok_or_else(|| {
        let shown = String::from_utf8_lossy(&text[..text.len().min(40)]);
        io::Error::new(io::ErrorKind::InvalidData, format!("`{}` is not a number of microjoules", shown.trim()))
    })
}

/// Whether the error says that the device behind the file is gone: sysfs answers `ENODEV` once a driver has left.
pub(super) fn is_gone(error: &io::Error) -> bool {
    const ENODEV: i32 = 19;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ENODEV)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_count_is_read_again_from_the_same_handle() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("energy_uj");
        fs::write(&path, "65532610987\n").unwrap();
        let mut counter = Sysfs.open(&path).unwrap();
        assert_eq!(counter.read().unwrap(), 65_532_610_987);
        fs::write(&path, "12\n").unwrap();
        assert_eq!(counter.read().unwrap(), 12);
    }

    #[test]
    fn garbage_is_an_error_that_shows_it() {
        let wrong: [&[u8]; 6] = [b"", b"\n", b"-1\n", b"1.5", b"99999999999999999999999", b"\xff\xfe\n"];
        for text in wrong {
            assert_eq!(parse_count(text).unwrap_err().kind(), io::ErrorKind::InvalidData, "{text:?}");
        }
        assert_eq!(parse_count(b"fish").unwrap_err().to_string(), "`fish` is not a number of microjoules");
    }
}
