//! What can be wrong with a recording: each variant says what, where, and what to do about it.

use std::fmt;
use std::io;

/// Why a recording could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file system or the stream failed.
    #[error("cannot {action} the recording{}: {cause}", of_file(.path.as_deref()))]
    Io {
        /// What was tried: `open`, `read`, `write`.
        action: &'static str,
        /// The file, where there is one.
        path: Option<std::path::PathBuf>,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// There is nothing in it.
    #[error(
        "the recording is empty. \
         hint: was it killed before its first reading? record again with `ergo monitor --record FILE`"
    )]
    Empty,
    /// It ends before its end.
    #[error("{0}. hint: what is whole before that can still be read")]
    Truncated(Truncation),
    /// The compressed bytes are damaged.
    #[error(
        "line {line}: the compressed data is damaged: {cause}. \
         hint: copy the file again; a text-mode transfer damages gzip"
    )]
    Damaged {
        /// The line at which it was noticed, from 1.
        line: u64,
        /// What the decompressor said.
        #[source]
        cause: io::Error,
    },
    /// It is no JSON at all.
    #[error(
        "not a recording: line {line}, column {column} is not JSON ({reason}). \
         hint: recordings are written by `ergo monitor --record FILE`"
    )]
    NotJson {
        /// The line, from 1.
        line: u64,
        /// The column, from 1.
        column: u64,
        /// What the parser said.
        reason: String,
    },
    /// It is JSON, and neither of the formats there are.
    #[error("not a recording: {reason}. hint: recordings are written by `ergo monitor --record FILE`")]
    UnknownFormat {
        /// What was missing or different.
        reason: String,
    },
    /// It is of a version this program can't read.
    #[error("the recording has format version {found}, this program reads {}. hint: use a newer ergo", super::VERSION)]
    WrongVersion {
        /// The version in its header.
        found: u64,
    },
    /// A line or a key has the wrong shape.
    #[error("line {line}: {reason}. hint: the file was edited or damaged, record again")]
    Malformed {
        /// The line, from 1.
        line: u64,
        /// What was expected, and what was found.
        reason: String,
    },
    /// A reading of a channel that the header does not list.
    #[error(
        "line {line}: there is no channel {channel}, the header lists {channels}. \
         hint: lines of another recording were added"
    )]
    UnknownChannel {
        /// The line, from 1.
        line: u64,
        /// The channel's index.
        channel: u64,
        /// How many channels the header lists.
        channels: usize,
    },
    /// A value that is no finite number.
    #[error("line {line}: the value is not a finite number. hint: an absent value has no line at all, remove it")]
    NotFinite {
        /// The line, from 1.
        line: u64,
    },
    /// The end line counts other readings than there are.
    #[error(
        "the recording says it has {expected} readings and has {found}. \
         hint: lines were lost or added, copy the file again"
    )]
    WrongCount {
        /// The number in the end line.
        expected: u64,
        /// The number of readings before it.
        found: u64,
    },
    /// It is larger than any recording should be.
    #[error("{what} is larger than {limit} bytes. hint: is this a recording?")]
    TooLarge {
        /// What is: the file when decompressed, or one of its lines.
        what: String,
        /// The limit in bytes.
        limit: u64,
    },
}

/// Where and how a recording was cut, and what is whole before the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    /// What is missing.
    pub cut: Cut,
    /// The last line that is whole, from 1.
    pub whole_lines: u64,
    /// Where that line ends, in bytes of the text (decompressed).
    pub whole_bytes: u64,
    /// How many readings are whole.
    pub readings: u64,
}

/// The ways in which a recording can be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Every line is whole, and the end line is not there: the process that wrote it was killed.
    NoEndLine,
    /// The last line is cut.
    MidLine,
    /// The compressed stream is cut.
    MidStream,
}

impl fmt::Display for Truncation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = match self.cut {
            Cut::NoEndLine => "has no end line",
            Cut::MidLine => "ends in the middle of a line",
            Cut::MidStream => "ends in the middle of its compressed stream",
        };
        let Self { whole_lines, whole_bytes, readings, .. } = self;
        write!(f, "the recording {cut}, after {whole_lines} whole lines (byte {whole_bytes}) with {readings} readings")
    }
}

/// What the parser said, without its own line and column: it counts from where it was started.
pub(super) fn reason_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason).to_owned()
}

fn of_file(path: Option<&std::path::Path>) -> String {
    path.map_or_else(String::new, |path| format!(" {}", path.display()))
}

impl RecordingError {
    pub(super) fn write(cause: io::Error) -> Self {
        Self::Io { action: "write", path: None, cause }
    }
}
