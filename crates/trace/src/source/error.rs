//! Why a trace's bytes could not be had: each variant says what, where, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use super::STANDARD_INPUT;
use super::unpack::{Cut, Packing, WINDOW_BYTES};

/// Why a trace's bytes could not be had.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file system or the stream failed.
    #[error("cannot read {}: {cause}{}", shown(.path), hint(.cause))]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// The packed stream ends early or is damaged.
    #[error("cannot unpack {}: {cut}. hint: {}", shown(.path), mend(.cut))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where and why it ended.
        #[source]
        cut: Cut,
    },
    /// It is more than may be held in memory.
    #[error(
        "cannot read {}: it is larger than the limit of {limit} bytes{}. \
         hint: is this a trace? a plain file is mapped and has no such limit",
        shown(.path), unpacked(*.packing)
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// How it is packed.
        packing: Packing,
        /// The limit in bytes.
        limit: u64,
    },
    /// It is packed with a longer memory of what came before than we give it.
    #[error(
        "cannot unpack {}: its {packing} stream refers back further than {WINDOW_BYTES} bytes. \
         hint: unpack it first, or pack it without --long or a dictionary as large",
        shown(.path)
    )]
    WindowTooLarge {
        /// The file.
        path: PathBuf,
        /// How it is packed.
        packing: Packing,
    },
    /// The system has no memory left for it.
    #[error(
        "cannot read {}: no memory is left after {held_bytes} bytes. \
         hint: unpack it into a plain file, which is mapped",
        shown(.path)
    )]
    NoMemory {
        /// The file.
        path: PathBuf,
        /// How much of it was in memory.
        held_bytes: u64,
    },
    /// There is no trace in the folder.
    #[error(
        "no trace in {}. hint: files that end in .xplane.pb (also .gz, .xz, .zst) are looked for, {} folders deep; \
         give the folder that was the profiler's log folder, or the file itself",
        .folder.display(), super::find::DEPTH
    )]
    NoTrace {
        /// The folder.
        folder: PathBuf,
    },
}

/// The path as people know it.
pub(crate) fn shown(path: &Path) -> String {
    if path == Path::new(STANDARD_INPUT) { "standard input".to_owned() } else { path.display().to_string() }
}

fn unpacked(packing: Packing) -> &'static str {
    if packing == Packing::None { "" } else { " when unpacked" }
}

fn mend(cut: &Cut) -> &'static str {
    if cut.unpacked_bytes > 0 {
        "copy the file again; --lenient keeps what was unpacked"
    } else {
        "copy the file again, nothing of it could be unpacked"
    }
}

fn hint(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::NotFound => ". hint: check the name; it may be a trace file or the profiler's log folder",
        io::ErrorKind::PermissionDenied => ". hint: `chmod u+rX` it, or read it as the user who recorded it",
        io::ErrorKind::IsADirectory => ". hint: give the trace files that are in it",
        _ => "",
    }
}
