//! The errors of reading and writing recordings, each with a hint.

use std::fmt;
use std::io;
use std::path::PathBuf;

use ergometer_diagnostics::{Diagnostic, Hint, command, flag, hint};

/// Why a recording could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file system or the stream failed.
    #[error("cannot {action} the recording{}: {cause}", path_suffix(.path.as_deref()))]
    Io {
        /// The operation that failed: `open`, `create`, `read` or `write`.
        action: &'static str,
        /// The file, or `None` for a stream.
        path: Option<PathBuf>,
        /// The error of the operating system.
        #[source]
        cause: io::Error,
    },
    /// The file contains nothing but white space.
    #[error("the recording is empty")]
    Empty,
    /// The recording ends early.
    #[error("{0}")]
    Truncated(Truncation),
    /// The compressed bytes are damaged.
    #[error("line {line}: the compressed data is damaged: {cause}")]
    Damaged {
        /// The line at which the damage was found, from 1.
        line: u64,
        /// The error of the decompressor.
        #[source]
        cause: io::Error,
    },
    /// The file is not JSON.
    #[error("not a recording: line {line}, column {column} is not JSON ({reason})")]
    NotJson {
        /// The line, from 1.
        line: u64,
        /// The column, from 1.
        column: u64,
        /// The error of the JSON parser.
        reason: String,
    },
    /// The file is JSON, but in neither of the supported formats.
    #[error("not a recording: {reason}")]
    UnknownFormat {
        /// The key that is missing or has an unexpected value.
        reason: String,
    },
    /// This program cannot read the version of the format.
    #[error("the recording has format version {found}, this program reads {}", super::VERSION)]
    WrongVersion {
        /// The version in the header.
        found: u64,
    },
    /// A line or a key has the wrong type or structure.
    #[error("line {line}: {reason}")]
    Malformed {
        /// The line, from 1.
        line: u64,
        /// The expected and the actual content.
        reason: String,
    },
    /// A reading refers to a channel that the header does not list.
    #[error("line {line}: there is no channel {channel}; channels in the header: {channels}")]
    UnknownChannel {
        /// The line, from 1.
        line: u64,
        /// The index of the channel.
        channel: u64,
        /// The number of channels in the header.
        channels: usize,
    },
    /// A value is not a finite number.
    #[error("line {line}: the value is not a finite number")]
    NotFinite {
        /// The line, from 1.
        line: u64,
    },
    /// The end line gives a different number of readings than the file contains.
    #[error("the end line gives {expected} readings, but the recording has {found}")]
    WrongCount {
        /// The number in the end line.
        expected: u64,
        /// The number of readings in the file.
        found: u64,
    },
    /// The file or a line exceeds the size limit.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge {
        /// The part that is too large: the decompressed file, or one of its lines.
        what: String,
        /// The limit in bytes.
        limit: u64,
    },
}

impl Diagnostic for RecordingError {
    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::Io { .. } => return None,
            Self::Empty => hint!(
                "the recorder may have been killed before its first reading; record again with ",
                command("monitor --record FILE")
            ),
            Self::Truncated(truncation) if truncation.readings == 0 => {
                hint!("copy or record it again: no part of it can be read")
            }
            Self::Truncated(_) => hint!("pass ", flag("lenient"), " to read the part before the cut"),
            Self::Damaged { .. } => hint!("copy the file again; a text-mode transfer damages gzip"),
            Self::NotJson { .. } | Self::UnknownFormat { .. } => {
                hint!("create a recording with ", command("monitor --record FILE"))
            }
            Self::WrongVersion { .. } => hint!("use a newer ergo"),
            Self::Malformed { .. } => hint!("the file was edited or damaged; record again"),
            Self::UnknownChannel { .. } => {
                hint!("the file was edited, or joined from two recordings: remove the line, or record again")
            }
            Self::NotFinite { .. } => hint!("delete this line: a recording has no line for a missing value"),
            Self::WrongCount { .. } => hint!("copy the file again: lines were lost or added"),
            Self::TooLarge { .. } => hint!("check that the file is a recording"),
        })
    }
}

/// Why a recording file could not be read. The text names the file.
#[derive(Debug, thiserror::Error)]
pub struct RecordingFileError {
    /// The file.
    pub path: PathBuf,
    /// What went wrong.
    #[source]
    pub cause: RecordingError,
}

impl fmt::Display for RecordingFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, cause } = self;
        match cause {
            RecordingError::Io { action, cause, .. } => {
                write!(f, "cannot {action} the recording {}: {cause}", path.display())
            }
            _ => write!(f, "{}: {cause}", path.display()),
        }
    }
}

impl Diagnostic for RecordingFileError {
    fn hint(&self) -> Option<Hint> {
        self.cause.hint()
    }
}

/// Where a recording was cut, and the size of the complete part before the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    /// The kind of cut.
    pub cut: Cut,
    /// The number of complete lines.
    pub whole_lines: u64,
    /// The end of the last complete line, in bytes of the decompressed text.
    pub whole_bytes: u64,
    /// The number of complete readings.
    pub readings: u64,
}

/// The ways in which a recording can be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// All lines are complete, but the end line is missing: the process that wrote the file was killed.
    NoEndLine,
    /// The last line is incomplete.
    MidLine,
    /// The compressed stream is incomplete.
    MidStream,
}

impl fmt::Display for Truncation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = match self.cut {
            Cut::NoEndLine => "was not closed: it ends",
            Cut::MidLine => "ends in the middle of a line,",
            Cut::MidStream => "ends in the middle of its compressed stream,",
        };
        let Self { whole_lines, whole_bytes, readings, .. } = self;
        let lines = if *whole_lines == 1 { "line" } else { "lines" };
        write!(f, "the recording {cut} after {whole_lines} whole {lines} (byte {whole_bytes}) with {readings} readings")
    }
}

/// The message of a JSON error without its line and column, which count from the start of the parsed text.
pub(super) fn json_reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason).to_owned()
}

fn path_suffix(path: Option<&std::path::Path>) -> String {
    path.map_or_else(String::new, |path| format!(" {}", path.display()))
}

impl RecordingError {
    pub(super) fn write(cause: io::Error) -> Self {
        Self::Io { action: "write", path: None, cause }
    }
}
