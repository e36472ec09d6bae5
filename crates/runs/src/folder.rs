//! The files of a run folder, by name.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::store::{STATE_FILE, State};
use crate::summary::SUMMARY_FILE;
use crate::{ReadError, regular_file};

/// The folder of the journal, inside a run folder.
pub const JOURNAL_FOLDER: &str = "journal";

/// The folder of derived JSON files, inside a run folder.
pub const ANALYSIS_FOLDER: &str = "analysis";

/// The load over time, inside [`ANALYSIS_FOLDER`].
pub const LOAD_FILE: &str = "load.json";

/// Explains why a folder without results is not a run.
pub(crate) fn check(folder: &Path) -> Result<(), ReadError> {
    if folder.join(SUMMARY_FILE).is_file() {
        return Ok(());
    }
    let path = folder.to_path_buf();
    let why = match fs::metadata(folder) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => "no such file or folder",
        Err(cause) => return Err(ReadError::Io { doing: "read", path, cause }),
        Ok(metadata) if !metadata.is_dir() => "it is a file",
        Ok(_) if folder.join(JOURNAL_FOLDER).is_dir() => return Err(ReadError::NotClosed { path }),
        Ok(_) => "summary.json is missing",
    };
    Err(ReadError::NotARun { path, why: why.to_owned() })
}

/// The files with the records of a run, as `state.json` lists them.
pub fn record_files(folder: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let path = folder.join(STATE_FILE);
    let text = regular_file::read(&path).map_err(ReadError::io("read", &path))?;
    let state: State = serde_json::from_slice(&text).map_err(ReadError::damaged(&path))?;
    let files: Option<Vec<PathBuf>> = state.data_files.iter().map(|file| inside(folder, &file.filename)).collect();
    match files {
        Some(files) if !files.is_empty() => Ok(files),
        _ => Err(ReadError::Damaged { path, what: String::from("it lists no file of records in its folder") }),
    }
}

/// The path of a file or folder directly inside a folder; `None` for a name that leads outside.
pub(crate) fn inside(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut parts = Path::new(name).components();
    let is_name = matches!(parts.next(), Some(Component::Normal(_))) && parts.next().is_none();
    is_name.then(|| folder.join(name))
}
