//! Writes a file atomically: under a temporary name, synced, then renamed.
//!
//! A run folder may come from someone else, and may contain symbolic links to files of the user. The temporary name is
//! random and the file must not exist (`O_EXCL`), so no link is followed; the rename replaces a link instead of its target.
//! A temporary name ends in `.partial`, so no reader takes it for data. Temporary files of a killed process are removed by
//! the next one that writes the same file.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::StoreError;

const ENDING: &str = ".partial";

/// A file that is being written. If it is dropped without [`commit`](Self::commit), it is removed, so that a full disk does
/// not become fuller.
#[derive(Debug)]
pub(super) struct PartialFile {
    file: BufWriter<File>,
    temporary: PathBuf,
    path: PathBuf,
    is_committed: bool,
}

/// Writes a file of a run atomically, without following symbolic links.
pub fn write_file(path: &Path, contents: &[u8]) -> Result<(), StoreError> {
    PartialFile::write_whole(path, contents)
}

/// Creates a folder inside a run folder, if it does not exist. A symbolic link is refused, because the files would be
/// written elsewhere.
pub fn create_folder(path: &Path) -> Result<(), StoreError> {
    let error = |cause| StoreError::File { action: "create", path: path.to_path_buf(), cause };
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => {
            Err(error(io::Error::other("it is a symbolic link, and files of a run are not written through links")))
        }
        _ => fs::create_dir_all(path).map_err(error),
    }
}

/// Removes a file of a run, if it exists.
pub(crate) fn remove_file(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::file("replace", path)(error)),
        _ => Ok(()),
    }
}

impl PartialFile {
    /// Opens the temporary file that will become `path`.
    pub(super) fn create(path: &Path) -> Result<Self, StoreError> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let prefix = prefix(path);
        remove_leftovers(folder, &prefix);
        // A name that exists is tried again with another number; it is nearly never needed.
        let mut attempts = 0..8;
        loop {
            let mut name = prefix.clone();
            name.push(format!("{:016x}{ENDING}", random()));
            let temporary = folder.join(name);
            match File::create_new(&temporary) {
                Ok(file) => {
                    let file = BufWriter::new(file);
                    return Ok(Self { file, temporary, path: path.to_owned(), is_committed: false });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempts.next().is_some() => {}
                Err(error) => return Err(StoreError::file("create", path)(error)),
            }
        }
    }

    /// Writes a short file.
    pub(super) fn write_whole(path: &Path, contents: &[u8]) -> Result<(), StoreError> {
        let mut file = Self::create(path)?;
        file.write_all(contents).map_err(StoreError::file("write", path))?;
        file.commit()
    }

    /// Syncs the file to disk, then gives it its name.
    pub(super) fn commit(mut self) -> Result<(), StoreError> {
        self.file.flush().map_err(StoreError::file("write", &self.path))?;
        self.file.get_ref().sync_all().map_err(StoreError::file("write", &self.path))?;
        fs::rename(&self.temporary, &self.path).map_err(StoreError::file("rename", &self.path))?;
        self.is_committed = true;
        sync_folder(&self.path);
        Ok(())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.is_committed {
            // An error is ignored: the next attempt removes the file.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// A random number: the hasher of the standard library has a random key.
fn random() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}

/// The start of the temporary names of a file.
fn prefix(path: &Path) -> std::ffi::OsString {
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(path.file_name().unwrap_or_default());
    prefix.push(".");
    prefix
}

/// Removes temporary files of a killed process. The folder is locked, so no other process writes them now.
fn remove_leftovers(folder: &Path, prefix: &std::ffi::OsStr) {
    let prefix = prefix.as_encoded_bytes();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        let is_leftover = name.starts_with(prefix) && name.ends_with(ENDING.as_bytes());
        if is_leftover && entry.file_type().is_ok_and(|kind| !kind.is_dir()) {
            // A leftover that cannot be removed does no harm.
            let _ = fs::remove_file(entry.path());
        }
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
        let [temporary] = &names(folder.path())[..] else { panic!("one file") };
        assert!(temporary.starts_with(".state.json.") && temporary.ends_with(".partial"), "{temporary}");
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
        assert!(error.starts_with("cannot create /nowhere/at/all/state.json: No such file or directory"), "{error}");
        assert!(error.contains("hint: check whether the run folder was moved"), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_does_not_change_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        fs::write(&path, "old").unwrap();
        let mut file = PartialFile::create(&path).unwrap();
        file.file = BufWriter::new(File::options().write(true).open("/dev/full").unwrap());
        file.write_all(b"new").unwrap();
        let error = file.commit().unwrap_err().one_line(&CommandLine);
        assert!(error.contains("hint: the disk is full"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["state.json"]);
    }

    #[cfg(unix)]
    #[test]
    fn symbolic_links_are_replaced_and_not_followed() {
        use std::os::unix::fs::symlink;
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let theirs = elsewhere.path().join("theirs.txt");
        fs::write(&theirs, "years of work").unwrap();
        let path = folder.path().join("summary.json");
        symlink(&theirs, &path).unwrap();
        symlink(&theirs, folder.path().join("summary.json.partial")).unwrap();
        write_file(&path, b"new").unwrap();
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "years of work");
        assert!(!fs::symlink_metadata(&path).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"new");

        symlink(elsewhere.path(), folder.path().join("analysis")).unwrap();
        let error = create_folder(&folder.path().join("analysis")).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        create_folder(&folder.path().join("plots")).unwrap();
        create_folder(&folder.path().join("plots")).unwrap();
    }

    #[test]
    fn what_a_killed_process_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(".state.json.x1Yz.partial"), "half").unwrap();
        fs::write(folder.path().join(".other.json.x1Yz.partial"), "half").unwrap();
        write_file(&folder.path().join("state.json"), b"new").unwrap();
        let mut names = names(folder.path());
        names.sort();
        assert_eq!(names, [".other.json.x1Yz.partial", "state.json"]);
    }
}
