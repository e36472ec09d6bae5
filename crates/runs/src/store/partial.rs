//! Writes a file atomically: under `NAME.partial`, synced, then renamed.
//!
//! The temporary name is fixed, so the next run overwrites the file that a killed run left. It does not end in `.arrow`
//! or `.parquet`, so readers ignore it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::StoreError;

/// A file that is being written.
#[derive(Debug)]
pub(super) struct PartialFile {
    file: BufWriter<File>,
    partial: PathBuf,
    path: PathBuf,
    committed: bool,
}

impl PartialFile {
    /// Opens the temporary file that will become `path`.
    pub(super) fn create(path: &Path) -> Result<Self, StoreError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let partial = path.with_file_name(name);
        let file = File::create(&partial).map_err(StoreError::file("create", &partial))?;
        Ok(Self { file: BufWriter::new(file), partial, path: path.to_owned(), committed: false })
    }

    /// Writes a short file.
    pub(super) fn write_whole(path: &Path, contents: &[u8]) -> Result<(), StoreError> {
        let mut file = Self::create(path)?;
        file.write_all(contents).map_err(StoreError::file("write", path))?;
        file.commit()
    }

    /// Syncs the file to disk, then renames it.
    pub(super) fn commit(mut self) -> Result<(), StoreError> {
        self.file.flush().map_err(StoreError::file("write", &self.path))?;
        self.file.get_ref().sync_all().map_err(StoreError::file("write", &self.path))?;
        fs::rename(&self.partial, &self.path).map_err(StoreError::file("rename", &self.partial))?;
        self.committed = true;
        sync_folder(&self.path);
        Ok(())
    }
}

impl Write for PartialFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Removes an uncommitted file, so that a full disk has space again.
impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.committed {
            // An error is ignored: the next attempt overwrites the file.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Syncs the rename to disk. Errors are ignored: not every file system supports it, and the file is complete under
/// either name.
fn sync_folder(path: &Path) {
    if let Some(Ok(folder)) = path.parent().map(File::open) {
        let _ = folder.sync_all();
    }
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::{CommandLine, Diagnostic};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_gets_its_name_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let mut file = PartialFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert_eq!(names(folder.path()), ["state.json.partial"]);
        drop(file);
        assert!(names(folder.path()).is_empty(), "an uncommitted file is removed");

        PartialFile::write_whole(&path, b"old").unwrap();
        let mut file = PartialFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        file.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["state.json"]);
    }

    #[test]
    fn the_error_names_a_missing_folder() {
        let error = PartialFile::create(Path::new("/nowhere/at/all/state.json")).unwrap_err().one_line(&CommandLine);
        assert!(error.starts_with("cannot create /nowhere/at/all/state.json.partial: "), "{error}");
        assert!(error.contains("hint: check whether the run folder was moved"), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_does_not_change_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        fs::write(&path, "old").unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.path().join("state.json.partial")).unwrap();
        let error = PartialFile::write_whole(&path, b"new").unwrap_err().one_line(&CommandLine);
        assert!(error.contains("hint: the disk is full"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["state.json"]);
    }
}
