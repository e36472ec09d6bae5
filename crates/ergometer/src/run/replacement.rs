//! Replaces the folder of a run or a sweep by a new one.
//!
//! The new folder is written next to the old one. Then two renames move the old folder aside and give the new one its
//! name, and at last the old folder is removed. A process that is killed in between leaves both folders.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::RunError;
use crate::journal::JournalError;

/// The temporary folder of a run or sweep that will replace another.
pub(crate) fn staged_path(path: &Path) -> PathBuf {
    beside(path, "new")
}

/// Where the old folder is until it is removed.
fn old_path(path: &Path) -> PathBuf {
    beside(path, "old")
}

/// Renames the new folder to its final name and moves the old one aside. On an error, the old folder keeps its name.
pub(crate) fn take_place(staged: &Path, path: &Path) -> Result<(), RunError> {
    let old = old_path(path);
    remove(&old)?;
    fs::rename(path, &old).map_err(JournalError::io("rename", path))?;
    let renamed = fs::rename(staged, path).map_err(JournalError::io("rename", staged));
    Ok(renamed.inspect_err(|_| drop(fs::rename(&old, path)))?)
}

/// Removes the folder that was replaced by this one. If that fails, it stays until the next time.
pub fn clear(path: &Path) {
    if path.exists() {
        let _ = remove(&old_path(path));
    }
}

/// Gives a run or sweep its name that was killed after it had moved an old one aside, and before it had its name.
///
/// ```
/// let runs = tempfile::tempdir()?;
/// std::fs::create_dir(runs.path().join(".profile_x.old"))?;
/// std::fs::create_dir(runs.path().join(".profile_x.new"))?;
/// ergometer::run::recover(&runs.path().join("profile_x"))?;
/// assert!(runs.path().join("profile_x").exists());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn recover(path: &Path) -> Result<(), RunError> {
    if is_half_replaced(path) {
        let _turn = turn(path)?;
        finish(path)?;
    }
    Ok(())
}

/// Does what [`recover`] does, for a caller that has its [`turn`].
pub(crate) fn finish(path: &Path) -> Result<(), RunError> {
    if is_half_replaced(path) {
        let staged = staged_path(path);
        fs::rename(&staged, path).map_err(JournalError::io("rename", &staged))?;
    }
    Ok(())
}

fn is_half_replaced(path: &Path) -> bool {
    !path.exists() && staged_path(path).exists() && old_path(path).exists()
}

/// Locks the parent folder while run folders are created or renamed, which takes a moment; the lock is held until the
/// result is dropped. `None` if the file system does not support locks.
pub(crate) fn turn(run: &Path) -> Result<Option<File>, RunError> {
    let parent = run.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create(parent)?;
    Ok(File::open(parent).ok().filter(|folder| folder.lock().is_ok()))
}

/// A hidden folder next to this one, with its name and an extension.
fn beside(path: &Path, extension: &str) -> PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    path.with_file_name(format!(".{name}.{extension}"))
}

pub(crate) fn create(path: &Path) -> Result<(), RunError> {
    fs::create_dir_all(path).map_err(JournalError::io("create", path)).map_err(RunError::from)
}

/// Creates a folder that must not exist.
pub(crate) fn create_new(path: &Path) -> Result<(), RunError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(RunError::Exists { path: path.to_path_buf() })
        }
        made => Ok(made.map_err(JournalError::io("create", path))?),
    }
}

pub(crate) fn remove(path: &Path) -> Result<(), RunError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(JournalError::Io { action: "remove", path: path.to_path_buf(), cause: error }.into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_that_cannot_be_replaced_keeps_its_name() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("profile_x");
        fs::create_dir(&path).unwrap();
        let error = take_place(&staged_path(&path), &path).unwrap_err();
        assert!(error.to_string().contains("cannot rename"), "{error}");
        assert_eq!(names(parent.path()), ["profile_x"]);
    }

    #[test]
    fn a_replacement_that_was_interrupted_is_completed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("profile_x");
        for folder in [staged_path(&path), old_path(&path)] {
            recover(&path).unwrap();
            assert!(!path.exists(), "one of the two folders is no interrupted replacement");
            fs::create_dir(folder).unwrap();
        }
        clear(&path);
        assert_eq!(names(parent.path()), [".profile_x.new", ".profile_x.old"]);
        recover(&path).unwrap();
        assert_eq!(names(parent.path()), [".profile_x.old", "profile_x"]);
        clear(&path);
        assert_eq!(names(parent.path()), ["profile_x"]);
        recover(&parent.path().join("nothing/here")).unwrap();
        assert_eq!(names(parent.path()), ["profile_x"], "no folder is created");
    }
}
