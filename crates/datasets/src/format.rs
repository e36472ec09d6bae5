//! Detects the format of a file by its extension or first bytes, and of a folder by its content.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use ergometer_diagnostics::{Hint, Message, hint, option};

use super::DatasetError;
use super::hugging_face::{has_parquet, is_saved};

/// A format of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Jsonl,
    Json,
    Delimited,
    Parquet,
    Arrow,
    HuggingFace,
}

/// The kind of file that the first bytes indicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Magic {
    Parquet,
    ArrowFile,
    ArrowStream,
    /// A Git LFS pointer to a file that was not fetched.
    LargeFilePointer,
    /// `[`
    Array,
    /// `{`
    Object,
    Empty,
    Other,
}

impl Magic {
    /// An error message: `not` (such as `not a Parquet file`) and the actual content.
    pub(super) fn message(self, not: &str) -> Message {
        let begins = match self {
            Self::Parquet => "it starts like a Parquet file",
            Self::ArrowFile | Self::ArrowStream => "it starts like an Arrow file",
            Self::LargeFilePointer => "it is a Git LFS pointer",
            Self::Array | Self::Object => "it starts like JSON",
            Self::Empty => "it is empty",
            Self::Other => "its first bytes are of no known format",
        };
        let message = Message::new(format!("{not}: {begins}"));
        match self {
            Self::LargeFilePointer => message.with_hint(Hint::text("run `git lfs pull` in its repository")),
            _ => message,
        }
    }
}

impl Format {
    /// The format of a file or a folder.
    pub(super) fn detect(path: &Path) -> Result<Self, DatasetError> {
        let read = |cause| DatasetError::Read { path: path.to_path_buf(), cause };
        if std::fs::metadata(path).map_err(read)?.is_dir() {
            return match (is_saved(path), has_parquet(path)?) {
                (true, _) => Ok(Self::HuggingFace),
                (false, true) => Ok(Self::Parquet),
                (false, false) => Err(DatasetError::Format {
                    path: path.to_path_buf(),
                    what: Message::new("a folder with neither a saved dataset (state.json) nor Parquet files")
                        .with_hint(Hint::text("pass a file in it")),
                }),
            };
        }
        match Self::from_extension(path) {
            Some(Self::Json) if is_jsonl(path)? => Ok(Self::Jsonl),
            Some(format) => Ok(format),
            None => Self::from_first_bytes(path),
        }
    }

    /// The format by the file extension.
    pub(super) fn from_extension(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match extension.as_str() {
            "jsonl" | "ndjson" => Self::Jsonl,
            "json" => Self::Json,
            "csv" | "tsv" => Self::Delimited,
            "parquet" | "pq" => Self::Parquet,
            "arrow" | "feather" | "ipc" => Self::Arrow,
            _ => return None,
        })
    }

    fn from_first_bytes(path: &Path) -> Result<Self, DatasetError> {
        let unknown = |what: Message| DatasetError::Format { path: path.to_path_buf(), what };
        match magic_of(path)? {
            Magic::Parquet => Ok(Self::Parquet),
            Magic::ArrowFile | Magic::ArrowStream => Ok(Self::Arrow),
            Magic::Object if is_jsonl(path)? => Ok(Self::Jsonl),
            Magic::Array | Magic::Object => Ok(Self::Json),
            Magic::Empty => Err(DatasetError::Empty { path: path.to_path_buf() }),
            Magic::LargeFilePointer => Err(unknown(Magic::LargeFilePointer.message("not a dataset"))),
            Magic::Other => {
                let hint = hint!(
                    "name the format, such as ",
                    option("dataset").value("csv"),
                    " ",
                    option("dataset-param").value("path=FILE")
                );
                Err(unknown(
                    Message::new("unknown format: neither the extension nor the first bytes identify it")
                        .with_hint(hint),
                ))
            }
        }
    }
}

/// Reads the first bytes of a file.
pub(super) fn magic_of(path: &Path) -> Result<Magic, DatasetError> {
    let bytes = head(path, 512)?;
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes).trim_ascii_start();
    Ok(match text {
        [] => Magic::Empty,
        _ if bytes.starts_with(b"PAR1") => Magic::Parquet,
        _ if bytes.starts_with(b"ARROW1") => Magic::ArrowFile,
        _ if bytes.starts_with(&[0xff; 4]) => Magic::ArrowStream,
        _ if bytes.starts_with(b"version https://git-lfs") => Magic::LargeFilePointer,
        [b'[', ..] => Magic::Array,
        [b'{', ..] => Magic::Object,
        _ => Magic::Other,
    })
}

/// Whether a JSON file has one object per line, as many `.json` files do.
fn is_jsonl(path: &Path) -> Result<bool, DatasetError> {
    let bytes = head(path, 1 << 20)?;
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes).trim_ascii_start();
    let Some(end) = text.iter().position(|&byte| byte == b'\n') else { return Ok(false) };
    let has_more = !text[end..].trim_ascii().is_empty();
    let is_whole = serde_json::from_slice::<serde::de::IgnoredAny>(&text[..end]).is_ok();
    Ok(text.starts_with(b"{") && is_whole && has_more)
}

fn head(path: &Path, length: u64) -> Result<Vec<u8>, DatasetError> {
    super::table::check_file(path)?;
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(length).read_to_end(&mut bytes));
    read.map_err(|cause| DatasetError::Read { path: path.to_path_buf(), cause })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::{CommandLine, Diagnostic as _};

    use super::*;

    #[test]
    fn the_extension_decides_before_the_first_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let detect = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            Format::detect(&path).map_err(|error| error.one_line(&CommandLine))
        };
        assert_eq!(detect("a.CSV", b"[1]"), Ok(Format::Delimited));
        assert_eq!(detect("a.json", b"[{}]"), Ok(Format::Json));
        assert_eq!(detect("b.json", b"{\"a\":1}\n{\"a\":2}\n"), Ok(Format::Jsonl));
        assert_eq!(detect("c.json", b"{\"a\":\n[{}]}\n"), Ok(Format::Json));
        assert_eq!(detect("d", b"PAR1...."), Ok(Format::Parquet));
        assert_eq!(detect("e", b"\xff\xff\xff\xff0"), Ok(Format::Arrow));
        assert_eq!(detect("f", b" {\"a\":1}\n{\"a\":2}\n"), Ok(Format::Jsonl));
        assert!(detect("g", b"").unwrap_err().contains("has no queries"));
        assert!(detect("h", b"a,b\n1,2\n").unwrap_err().contains("--dataset csv"));
        assert!(detect("i", b"version https://git-lfs.github.com/spec/v1\n").unwrap_err().contains("git lfs pull"));
        let error = Format::detect(folder.path()).unwrap_err().to_string();
        assert!(error.contains("neither a saved dataset"), "{error}");
    }
}
