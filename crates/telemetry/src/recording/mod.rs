//! Writes readings to a file while they are sampled, and reads the file back as a [`Timeline`].
//!
//! Two formats can be read and are detected by their content, not by file name: the JSON lines of [`RecordingWriter`],
//! and the raw recordings of `fixtures/telemetry`, one JSON object each. Both may be compressed with gzip. A truncated
//! file is an error with the position of the cut; [`Leniency::KeepWhole`] keeps the complete part. No file makes the
//! reader panic or exhaust memory.
//!
//! ```
//! use ergometer_telemetry::recording::{self, RecordingError};
//! assert!(matches!(recording::read_bytes(b""), Err(RecordingError::Empty)));
//! ```

mod error;
mod fixture;
mod header;
mod lines;
mod native;
mod writer;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::Timeline;
use lines::{Limits, Lines, Next};

pub use error::{Cut, RecordingError, RecordingFileError, Truncation};
pub use writer::{Packing, RecordingHandle, RecordingWriter, write};

/// The version of the format that is written and read.
const VERSION: u64 = 1;

/// Limits of the text, if it is compressed, and of a line: four hours of a machine with eight GPUs are about 1 GiB.
const LIMITS: Limits = Limits { total: 4 << 30, line: 64 << 20 };

/// How to treat a truncated recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leniency {
    /// Return an error.
    #[default]
    Strict,
    /// Keep the complete part and describe the cut in [`Recording::truncation`]. Damaged recordings and recordings cut
    /// in the first line remain errors.
    KeepWhole,
}

/// A recording that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// Its readings and events.
    pub timeline: Timeline,
    /// The cut, if the recording is truncated.
    pub truncation: Option<Truncation>,
}

/// Reads a whole recording from a file.
pub fn read_file(path: impl AsRef<Path>) -> Result<Timeline, RecordingFileError> {
    Ok(read_file_with(path, Leniency::Strict)?.timeline)
}

/// Reads a recording from a file.
pub fn read_file_with(path: impl AsRef<Path>, leniency: Leniency) -> Result<Recording, RecordingFileError> {
    let path = path.as_ref();
    let opened = File::open(path).map_err(|cause| RecordingError::Io { action: "open", path: None, cause });
    opened.and_then(|file| read(file, leniency)).map_err(|cause| RecordingFileError { path: path.to_path_buf(), cause })
}

/// Reads a whole recording from bytes.
pub fn read_bytes(bytes: &[u8]) -> Result<Timeline, RecordingError> {
    Ok(read(bytes, Leniency::Strict)?.timeline)
}

/// Reads a recording from a stream.
pub fn read(source: impl Read, leniency: Leniency) -> Result<Recording, RecordingError> {
    read_within(source, leniency, LIMITS)
}

fn read_within(source: impl Read, leniency: Leniency, limits: Limits) -> Result<Recording, RecordingError> {
    let mut lines = Lines::new(source, limits)?;
    let first = lines.advance()?;
    if first == Next::Whole && is_native(lines.text()) {
        return native::read(&mut lines, leniency);
    }
    let cut = match first {
        Next::Cut(cut @ Cut::MidStream) => Some(cut),
        Next::Whole => lines.rest(limits.line)?,
        Next::Cut(_) | Next::End => None,
    };
    let text = lines.text();
    let truncated = |cut| RecordingError::Truncated(Truncation { cut, whole_lines: 0, whole_bytes: 0, readings: 0 });
    match cut {
        Some(cut) => Err(truncated(cut)),
        None if text.iter().all(u8::is_ascii_whitespace) => Err(RecordingError::Empty),
        None if is_native(text) => Err(truncated(Cut::MidLine)),
        None => Ok(Recording { timeline: fixture::read(text)?, truncation: None }),
    }
}

/// Whether the first line is a native header, possibly truncated: a JSON object with a `format`.
fn is_native(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Marked {
        #[expect(dead_code, reason = "only its presence matters")]
        format: IgnoredAny,
    }
    line.starts_with(br#"{"format""#) || serde_json::from_slice::<Marked>(line).is_ok()
}

#[cfg(test)]
mod tests;
