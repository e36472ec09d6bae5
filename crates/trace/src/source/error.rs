//! The error of opening or finding trace files.

use std::io;
use std::path::{Path, PathBuf};

use ergometer_diagnostics::{Diagnostic, Hint, flag, hint};

use super::STANDARD_INPUT;
use super::unpack::{Cut, Packing, WINDOW_BYTES};

/// The reason why the bytes of a trace file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file system or the stream failed.
    #[error("cannot read {}: {cause}", display_path(.path))]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        cause: io::Error,
    },
    /// The compressed stream ends early or is damaged.
    #[error("cannot unpack {}: {cut}", display_path(.path))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where and why the stream ended.
        #[source]
        cut: Cut,
    },
    /// The file exceeds the limit on memory.
    #[error("cannot read {}: it is larger than the limit of {limit} bytes{}", display_path(.path), unpacked(*.packing))]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// How it is compressed.
        packing: Packing,
        /// The limit in bytes.
        limit: u64,
    },
    /// The file was compressed with a larger window than is supported.
    #[error(
        "cannot unpack {}: its {packing} window is larger than {WINDOW_BYTES} bytes",
        display_path(.path)
    )]
    WindowTooLarge {
        /// The file.
        path: PathBuf,
        /// How it is compressed.
        packing: Packing,
    },
    /// The system ran out of memory.
    #[error("cannot read {}: out of memory after {held_bytes} bytes", display_path(.path))]
    NoMemory {
        /// The file.
        path: PathBuf,
        /// The number of its bytes in memory.
        held_bytes: u64,
    },
    /// A folder contains no trace.
    #[error("no trace in {}", .folder.display())]
    NoTrace {
        /// The folder.
        folder: PathBuf,
    },
}

impl Diagnostic for SourceError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Read { cause, .. } => match cause.kind() {
                io::ErrorKind::NotFound => Some(hint!("pass the path of a trace file or of the profiler's log folder")),
                io::ErrorKind::PermissionDenied => {
                    Some(hint!("make it readable with `chmod u+rX`, or read it as the user who recorded it"))
                }
                io::ErrorKind::IsADirectory => Some(hint!("pass the trace files in this folder")),
                _ => None,
            },
            Self::Damaged { cut, .. } if cut.unpacked_bytes > 0 => {
                Some(hint!("copy the file again, or pass ", flag("lenient"), " to read the part that was unpacked"))
            }
            Self::Damaged { .. } => Some(hint!("copy the file again: no part of it could be unpacked")),
            Self::TooLarge { .. } => Some(hint!("check that this is a trace; if it is, record a shorter one")),
            Self::WindowTooLarge { .. } => {
                Some(hint!("uncompress it first, or compress it with a smaller window (for zstd, without `--long`)"))
            }
            Self::NoMemory { .. } => Some(hint!("free memory, or record a shorter trace")),
            Self::NoTrace { .. } => Some(hint!(
                "pass the profiler's log folder or a trace file; a folder is searched ",
                super::find::DEPTH.to_string(),
                " levels deep for files that end in .xplane.pb (also .gz, .xz, .zst)"
            )),
        }
    }
}

/// The path for messages: `-` is standard input.
pub(crate) fn display_path(path: &Path) -> String {
    if path == Path::new(STANDARD_INPUT) { "standard input".to_owned() } else { path.display().to_string() }
}

fn unpacked(packing: Packing) -> &'static str {
    if packing == Packing::None { "" } else { " when uncompressed" }
}
