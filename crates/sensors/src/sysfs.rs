//! Reads numbers and text from small files in sysfs and procfs.
//!
//! Content that is not a number is an error of kind `InvalidData` that quotes it, never a zero.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::str::FromStr;

/// An open file that is read again from its start: the kernel generates its content at each read.
#[derive(Debug)]
pub(super) struct Attribute(File);

impl Attribute {
    /// Opens the file.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        File::open(path).map(Self)
    }

    /// The current number.
    pub(super) fn read<T: FromStr>(&mut self) -> io::Result<T> {
        self.0.rewind()?;
        let mut buffer = [0; 32];
        let length = self.0.read(&mut buffer)?;
        parse_number(&buffer[..length])
    }
}

/// Parses a number as sysfs writes it: digits and a newline.
pub(super) fn parse_number<T: FromStr>(text: &[u8]) -> io::Result<T> {
    std::str::from_utf8(text.trim_ascii()).ok().and_then(|digits| digits.parse().ok()).ok_or_else(|| {
        let shown = String::from_utf8_lossy(&text[..text.len().min(40)]);
        io::Error::new(io::ErrorKind::InvalidData, format!("`{}` is not a number of the expected type", shown.trim()))
    })
}

/// The first 4 KiB of a file as trimmed text, which is all that sysfs gives. Bytes that are not UTF-8 are replaced.
pub(super) fn read_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(4096).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// Whether the error means that the device of the file is gone. Sysfs returns `ENODEV` after a driver was unloaded.
pub(super) fn is_gone(error: &io::Error) -> bool {
    const ENODEV: i32 = 19;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ENODEV)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_number_is_read_again_from_the_same_handle() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("energy_uj");
        fs::write(&path, "65532610987\n").unwrap();
        let mut file = Attribute::open(&path).unwrap();
        assert_eq!(file.read::<u64>().unwrap(), 65_532_610_987);
        fs::write(&path, "-12\n").unwrap();
        assert_eq!(file.read::<i64>().unwrap(), -12);
        assert_eq!(file.read::<u64>().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn content_that_is_not_a_number_is_quoted_in_the_error() {
        let wrong: [&[u8]; 6] = [b"", b"\n", b"-1\n", b"1.5", b"99999999999999999999999", b"\xff\xfe\n"];
        for text in wrong {
            assert_eq!(parse_number::<u64>(text).unwrap_err().kind(), io::ErrorKind::InvalidData, "{text:?}");
        }
        assert!(parse_number::<u64>(b"fish").unwrap_err().to_string().starts_with("`fish` is not a number"));
    }

    #[test]
    fn text_is_trimmed_and_may_be_invalid_utf_8() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("name");
        fs::write(&path, b"amd\xffgpu\n").unwrap();
        assert_eq!(read_text(&path).unwrap(), "amd\u{fffd}gpu");
        assert!(is_gone(&read_text(&folder.path().join("none")).unwrap_err()));
    }
}
